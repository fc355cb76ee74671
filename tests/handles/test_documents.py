"""Documents as a user holds them: loaded, found, replaced and taken out, whatever cuts it off."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from pagedaemon import AsyncRuntime, Runtime
from pagedaemon.errors import AlreadyExists, ConfigError, InvalidInput, NotFound
from pagedaemon.handles.agents import AsyncAgent
from pagedaemon.handles.archive import Passage
from pagedaemon.memory.documents import Loaded
from pagedaemon.testing import FakeClock, ScriptedModel, call, say

GUIDE = "# Guide\n\nThe harbour is deep.\n\n## Tides\n\n" + " ".join(
    f"Water rises {n} feet and falls." for n in range(20)
)


class Stop(Exception):
    """Raised in the middle of a load."""


def stop_after(done: int) -> Any:
    """A progress callback that ends the load once so much is done."""

    def progress(now: int, total: int | None, what: str) -> None:
        if now >= done:
            raise Stop

    return progress


def numbered(first: int, last: int, word: str = "Line") -> str:
    """A text whose passages, of 100 characters, can be told apart."""
    return "\n\n".join(
        f"{word} number {n} of the long document." + " x" * 25 for n in range(first, last)
    )


@pytest.fixture
async def ada(runtime: AsyncRuntime) -> AsyncAgent:
    """An agent."""
    return await runtime.agents.create("ada")


async def passages(agent: AsyncAgent) -> list[Passage]:
    """All of its records of documents, in the order of the documents."""
    found = await agent.archive.search(kinds=["document"], page_size=10_000)
    return sorted(found.hits, key=lambda hit: (hit.source[1] or "", hit.position or 0))


async def test_a_file_is_found_by_its_words_with_source_and_position(
    ada: AsyncAgent, tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "guide.md"
    path.write_text(GUIDE, encoding="utf-8")
    loaded = await ada.archive.load(path, tags=["sea"], chunk_chars=300)
    assert loaded == Loaded("guide.md", passages=3, removed=0, unchanged=0)
    first, *rest = await passages(ada)
    assert first.text.startswith("# Guide\n\nThe harbour is deep.\n\n## Tides\n\nWater")
    assert all(one.text.startswith("Guide > Tides\n\nWater") for one in rest)
    assert [one.position for one in (first, *rest)] == [1, 2, 3]
    assert (first.kind, first.source, first.label) == ("document", ("file", "guide.md"), "tool")
    assert (first.tags, first.created_at) == (("sea",), clock.now())
    assert await ada.archive.count() == 3
    found = await ada.archive.search("harbour", tags=["sea"])
    assert [hit.id for hit in found.hits] == [first.id]
    [document] = await ada.archive.documents()
    assert (document.name, document.passages) == ("guide.md", 3)
    assert document.loaded_at == clock.now()


async def test_the_agent_finds_it_and_reads_that_it_came_from_outside_its_own_words(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(
        [call("archival_memory_search", query="harbour", heartbeat=True), say("It is deep.")]
    )
    async with AsyncRuntime(tmp_path, model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.create("ada")
        await agent.archive.load_text("The harbour is deep.", name="sea")
        turn = await agent.send("How deep is it?")
    [found] = [made.result for made in turn.steps[0].calls]
    assert "The harbour is deep." in found
    assert '· from tool · document "sea", part 1\n  The harbour' in found


async def test_a_second_load_keeps_what_is_unchanged_and_removes_what_is_gone(
    ada: AsyncAgent, clock: FakeClock
) -> None:
    await ada.archive.load_text(numbered(0, 20), name="long", chunk_chars=100)
    before = {one.text: one.id for one in await passages(ada)}
    clock.advance(60)
    loaded = await ada.archive.load_text(numbered(5, 23), name="long", chunk_chars=100)
    assert loaded == Loaded("long", passages=18, removed=5, unchanged=15)
    after = await passages(ada)
    assert [one.text.split()[2] for one in after] == [str(n) for n in range(5, 23)]
    assert [one.position for one in after] == list(range(1, 19))
    assert [one.id for one in after][:15] == [before[one.text] for one in after[:15]]
    assert await ada.archive.count() == 18
    assert (await ada.archive.documents())[0].loaded_at == clock.now()
    again = await ada.archive.load_text(numbered(5, 23), name="long", chunk_chars=100)
    assert again == Loaded("long", passages=18, removed=0, unchanged=18)
    assert [one.id for one in await passages(ada)] == [one.id for one in after]


async def test_a_second_load_gives_all_passages_its_tags_and_label(ada: AsyncAgent) -> None:
    await ada.archive.load_text(numbered(0, 3), name="long", chunk_chars=100, tags=["old"])
    await ada.archive.load_text(
        numbered(0, 3), name="long", chunk_chars=100, tags=["new"], label="external"
    )
    assert {(one.tags, one.label) for one in await passages(ada)} == {(("new",), "external")}
    assert (await ada.archive.search("old")).total == 0
    assert (await ada.archive.search("new", tags=["new"])).total == 3


async def test_what_changed_only_in_case_or_blanks_is_replaced_by_the_new_wording(
    ada: AsyncAgent,
) -> None:
    await ada.archive.load_text("the harbour", name="sea")
    loaded = await ada.archive.load_text("The  Harbour", name="sea")
    assert (loaded.removed, loaded.unchanged) == (1, 0)
    assert [one.text for one in await passages(ada)] == ["The  Harbour"]


async def test_what_stands_twice_in_a_document_is_one_passage(ada: AsyncAgent) -> None:
    page = numbered(0, 3) + "\n\n"
    loaded = await ada.archive.load_text(page * 4, name="long", chunk_chars=100)
    assert loaded.passages == 3
    assert await ada.archive.count() == 3


async def test_what_the_agent_saved_in_the_same_words_outlives_the_document(
    ada: AsyncAgent,
) -> None:
    await ada.archive.load_text("The harbour is deep.", name="sea")
    own = await ada.archive.insert("The harbour is deep.")
    await ada.archive.load_text("The harbour is deep.", name="copy of sea")
    assert await ada.archive.count() == 3
    assert await ada.archive.unload("sea") == 1
    assert await ada.archive.unload("copy of sea") == 1
    assert [hit.id for hit in (await ada.archive.search("harbour")).hits] == [own.id]
    assert await ada.archive.count() == 1


async def test_unloading_takes_one_document_of_one_agent(
    runtime: AsyncRuntime, ada: AsyncAgent
) -> None:
    bob = await runtime.agents.create("bob")
    for agent in (ada, bob):
        for name in ("a", "b"):
            await agent.archive.load_text(numbered(0, 4), name=name, chunk_chars=100)
    assert await ada.archive.unload("a") == 4
    assert [document.name for document in await ada.archive.documents()] == ["b"]
    assert [document.name for document in await bob.archive.documents()] == ["a", "b"]
    assert (await ada.archive.count(), await bob.archive.count()) == (4, 8)
    with pytest.raises(NotFound, match=r"no document 'a'.* there are: 'b'"):
        await ada.archive.unload("a")
    with pytest.raises(InvalidInput):
        await ada.archive.unload("")


async def test_a_load_that_is_cut_off_loses_nothing_and_is_finished_by_another(
    ada: AsyncAgent,
) -> None:
    await ada.archive.load_text(numbered(0, 700), name="long", chunk_chars=100)
    old = {one.text for one in await passages(ada)}
    text = numbered(200, 1_900)
    with pytest.raises(Stop):
        await ada.archive.load_text(text, name="long", chunk_chars=100, progress=stop_after(1_100))
    halfway = [one.text for one in await passages(ada)]
    assert old < set(halfway)
    assert len(halfway) == len(set(halfway)) == await ada.archive.count()
    loaded = await ada.archive.load_text(text, name="long", chunk_chars=100)
    assert (loaded.passages, loaded.removed) == (1_700, 200)
    assert loaded.unchanged == len(halfway) - 200
    whole = await passages(ada)
    assert [one.text.split()[2] for one in whole] == [str(n) for n in range(200, 1_900)]
    assert [one.position for one in whole] == list(range(1, 1_701))
    assert await ada.archive.count() == 1_700


async def test_of_two_loads_at_once_one_wins_whole_and_nothing_is_doubled(
    ada: AsyncAgent,
) -> None:
    texts = [numbered(0, 900), numbered(0, 900), numbered(500, 1_400, "Row")]
    await asyncio.gather(
        *(ada.archive.load_text(text, name="long", chunk_chars=100) for text in texts)
    )
    found = [one.text for one in await passages(ada)]
    assert "\n\n".join(found) in texts
    assert await ada.archive.count() == 900


async def test_progress_is_told_from_what_was_there_to_the_end(ada: AsyncAgent) -> None:
    told: list[tuple[int, int | None, str]] = []

    def progress(done: int, total: int | None, what: str) -> None:
        told.append((done, total, what))

    await ada.archive.load_text(numbered(0, 300), name="long", chunk_chars=100)
    await ada.archive.load_text(numbered(0, 1_200), name="long", chunk_chars=100, progress=progress)
    assert told == [(done, 1_200, "long") for done in (300, 800, 1_200)]


async def test_two_files_of_one_name_are_told_apart_unless_a_name_is_given(
    ada: AsyncAgent, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "README.md").write_text(f"About {folder}.", encoding="utf-8")
    await ada.archive.load(tmp_path / "one" / "README.md")
    with pytest.raises(AlreadyExists, match=r"name='README\.md'"):
        await ada.archive.load(tmp_path / "two" / "README.md")
    assert [one.text for one in await passages(ada)] == ["About one."]
    await ada.archive.load(tmp_path / "one" / "README.md")
    await ada.archive.load(tmp_path / "two" / "README.md", name="README.md")
    assert [one.text for one in await passages(ada)] == ["About two."]
    await ada.archive.load_text("Given.", name="README.md")
    with pytest.raises(AlreadyExists, match="a text"):
        await ada.archive.load(tmp_path / "two" / "README.md")


async def test_html_and_encodings_are_read(ada: AsyncAgent, tmp_path: Path) -> None:
    page = tmp_path / "page.HTML"
    page.write_text("<h1>Tides</h1><p>Deep &amp; wide</p><script>no()</script>", encoding="utf-8")
    letter = tmp_path / "letter.txt"
    letter.write_bytes("Grüße".encode("cp1252"))
    await ada.archive.load(str(page))
    with pytest.raises(InvalidInput, match="encoding='cp1252'"):
        await ada.archive.load(letter)
    await ada.archive.load(letter, encoding="cp1252")
    assert [one.text for one in await passages(ada)] == ["Grüße", "Tides\n\nDeep & wide"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"text": ""}, "no text that could be loaded"),
        ({"text": " \n\n"}, "no text that could be loaded"),
        ({"text": "<script>x</script>", "format": "html"}, "no text that could be loaded"),
        ({"text": "a\x00b"}, "NUL"),
        ({"text": 5}, "must be text"),
        ({"text": "x", "name": "a\nb"}, "one line"),
        ({"text": "x", "name": 7}, "must be text"),
        ({"text": "x", "format": "pdf"}, "format is one of"),
        ({"text": "x", "label": "friend"}, "label is one of"),
        ({"text": "x", "tags": "sea"}, "tags is a list"),
        ({"text": "x", "tags": ["a"] * 21}, "at most 20 tags"),
        ({"text": "x", "chunk_chars": 5}, "chunk_chars"),
        ({"text": "x", "progress": 5}, "progress"),
    ],
)
async def test_what_cannot_be_loaded_is_said_and_what_was_there_stays(
    ada: AsyncAgent, given: dict[str, Any], why: str
) -> None:
    await ada.archive.load_text("The harbour is deep.", name="sea")
    with pytest.raises(InvalidInput, match=why):
        await ada.archive.load_text(**{"name": "sea", **given})
    assert [one.text for one in await passages(ada)] == ["The harbour is deep."]
    assert await ada.archive.count() == 1


async def test_text_given_as_a_path_is_not_guessed_to_be_content(ada: AsyncAgent) -> None:
    with pytest.raises(InvalidInput, match="load_text"):
        await ada.archive.load("The harbour\nis deep.")
    with pytest.raises(NotFound, match="load_text"):
        await ada.archive.load("The harbour is deep.")
    assert await ada.archive.documents() == []


def test_progress_on_the_blocking_door_cannot_wait_for_itself(tmp_path: Path) -> None:
    with Runtime(tmp_path, model="offline") as runtime:
        ada = runtime.agents.ensure("ada")
        seen: list[tuple[int, int | None, str]] = []
        ada.archive.load_text("deep", name="sea", progress=lambda *count: seen.append(count))
        assert seen == [(0, 1, "sea"), (1, 1, "sea")]

        def asks(done: int, total: int | None, what: str) -> None:
            ada.archive.count()

        with pytest.raises(ConfigError, match="wait for itself"):
            ada.archive.load_text("wide", name="land", progress=asks)
        assert ada.archive.count() == 1


async def test_a_file_whose_name_cannot_be_a_documents_is_loaded_under_a_given_one(
    ada: AsyncAgent, tmp_path: Path
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    await asyncio.to_thread(path.write_text, GUIDE, encoding="utf-8")
    with pytest.raises(InvalidInput, match="give name="):
        await ada.archive.load(path)
    assert (await ada.archive.load(path, name="café")).passages > 0
