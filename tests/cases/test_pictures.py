"""MM-01: pictures and files in messages, from the user's hand to the provider's shape, over
restarts and page-outs."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pagedaemon import AsyncRuntime, Model
from pagedaemon.errors import (
    ContextOverflow,
    ContextTooLong,
    InvalidInput,
    ModelCannotSee,
    NotFound,
    PicturesTooLarge,
    RequestRejected,
)
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.llm.tokens import image_tokens
from pagedaemon.media import File, Image
from pagedaemon.testing import ScriptedModel, call, png, say
from pagedaemon.testing.validators import Provider

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[AsyncRuntime]]

PNG = png(640, 480)
DATA = base64.b64encode(PNG).decode()
DATA_URL = f"data:image/png;base64,{DATA}"
LINK = "https://example.org/sea%20shore.jpg"

SHAPES: dict[str, tuple[Any, str]] = {
    "url": ({"type": "image_url", "image_url": {"url": LINK}}, LINK),
    "data url": ({"type": "image_url", "image_url": {"url": DATA_URL}}, DATA_URL),
    "plain data url": ({"type": "image_url", "image_url": DATA_URL}, DATA_URL),
    "base64 source": (
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": DATA},
        },
        DATA_URL,
    ),
    "url source": ({"type": "image", "source": {"type": "url", "url": LINK}}, LINK),
    "our own": (Image.from_bytes(PNG, name="shore"), DATA_URL),
}


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Opens a runtime over a model; the store stays between two openings."""

    @asynccontextmanager
    async def open_runtime(model: ScriptedModel, **settings: Any) -> AsyncIterator[AsyncRuntime]:
        async with AsyncRuntime(
            tmp_path, model=Model("script", **settings), models={"script": model}
        ) as runtime:
            yield runtime

    return open_runtime


def echo(strict: tuple[Provider, ...] = ("openai", "anthropic", "gemini")) -> ScriptedModel:
    return ScriptedModel(lambda request: say("I see."), summary="They spoke.", strict=strict)


def images(request: Request) -> list[str]:
    """The URLs of the pictures in a request, in order."""
    return [
        part["image_url"]["url"]
        for message in request.messages
        for part in (message["content"] if isinstance(message.get("content"), list) else [])
        if part["type"] == "image_url"
    ]


def rows(folder: Path, query: str) -> list[Any]:
    (path,) = folder.rglob("*.db")
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(query).fetchall()


async def stored(folder: Path) -> None:
    """Waits until there is an attachment in the store."""
    for _ in range(1_000):
        if rows(folder, "SELECT count(*) FROM attachments") != [(0,)]:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was stored")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(("part", "url"), SHAPES.values(), ids=list(SHAPES))
async def test_a_picture_in_any_shape_arrives_and_stays_over_a_restart(
    opened: Open, part: Any, url: str, provider: Provider
) -> None:
    model = echo((provider,))
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send([{"type": "text", "text": "Look:"}, part, "What is it?"])
        said = model.requests[0].messages[-1]["content"]
        assert [one["type"] for one in said] == ["text", "image_url", "text", "text"]
        assert [one["text"] for one in said if "text" in one][:2] == ["Look:", "\nWhat is it?"]
        assert said[-1]["text"].startswith("[status: ")
        assert images(model.requests[0]) == [url]
    async with opened(model) as runtime:
        ada = await runtime.agents.get("ada")
        await ada.send("And now?")
        first, second = model.requests
        assert second.messages[: len(first.messages)] == first.messages
        assert images(second) == [url]


async def test_after_a_page_out_a_placeholder_is_left_that_words_find(opened: Open) -> None:
    model = echo()
    settings = {"context_window": 8_192, "max_output_tokens": 512}
    async with opened(model, **settings) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send(["The tide at noon", Image.from_bytes(PNG, name="sea shore")])
        for _ in range(14):
            await ada.send("It rained and the gulls cried. " * 40)
        assert images(model.requests[-1]) == []
        main = await ada.conversations.get()
        assert "summary" in [message.kind for message in await main.messages()]
        asked = [
            str(request.messages[-1]["content"])
            for request in model.requests
            if request.purpose == "summary"
        ]
        assert "The tide at noon\n[image sea shore 640x480]" in asked[0].replace("\n  ", "\n")
        assert DATA not in "".join(asked)
        hit = (await ada.recall.search("shore", roles=["user"])).hits[0]
        assert hit.text == "The tide at noon\n[image sea shore 640x480]"
        (kept,) = hit.message.attachments
        assert (kept.name, kept.media_type, kept.width, kept.height) == (
            "sea shore",
            "image/png",
            640,
            480,
        )
        assert kept.data is None
        assert await ada.recall.attachment(kept.id) == PNG


async def test_a_picture_without_a_word_is_a_message_that_is_found(opened: Open) -> None:
    model = ScriptedModel(
        [say("Nice."), call("conversation_search", query="shore", heartbeat=True), say("There.")]
    )
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send(Image.from_url(LINK))
        turn = await ada.send("Which pictures did I send?")
        assert "[image sea shore.jpg]" in str(turn.steps[0].calls[0].result)
        (kept,) = (await ada.recall.search("shore", roles=["user"])).hits[0].message.attachments
        assert await ada.recall.attachment(kept.id) == LINK
        with pytest.raises(NotFound, match="attachment-none"):
            await ada.recall.attachment("attachment-none")
        bob = await runtime.agents.create("bob")
        with pytest.raises(NotFound):
            await bob.recall.attachment(kept.id)


@pytest.mark.parametrize(
    "model",
    [
        Model("script", vision=False),
        Model("offline"),
        Model("openai/gpt-3.5-turbo", api_key="sk-none"),
        Model("openai/llava", base_url="http://127.0.0.1:9/v1"),
    ],
    ids=lambda model: model.name,
)
async def test_a_model_that_takes_none_refuses_before_anything_is_stored(
    tmp_path: Path, model: Model
) -> None:
    script = echo()
    async with AsyncRuntime(tmp_path, model=model, models={"script": script}) as runtime:
        ada = await runtime.agents.create("ada")
        with pytest.raises(ModelCannotSee, match="vision=True"):
            await ada.send(["Look", Image.from_bytes(PNG)])
        assert script.requests == ()
        assert await ada.recall.count() == 0
        assert rows(tmp_path, "SELECT (SELECT count(*) FROM turns), count(*) FROM attachments") == [
            (0, 0)
        ]


async def test_a_blind_model_that_takes_over_reads_placeholders(opened: Open) -> None:
    model = echo()
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send(["Look", Image.from_bytes(PNG, name="shore"), Image.from_url(LINK)])
        await ada.update(model=Model("script", vision=False))
        await ada.send("And now?")
        assert images(model.requests[-1]) == []
        seen = str(model.requests[-1].messages[1]["content"])
        assert seen.startswith("Look\n[image shore 640x480]\n[image sea shore.jpg]\n\n[status: ")
        await ada.update(model=None)
        await ada.send("And again?")
        assert images(model.requests[-1]) == [DATA_URL, LINK]


async def test_pictures_beyond_their_share_of_the_window_are_refused_before_the_call(
    opened: Open,
) -> None:
    model = echo()
    async with opened(model, context_window=8_192, max_output_tokens=2_048) as runtime:
        ada = await runtime.agents.create("ada")
        many = [Image.from_bytes(png(1_024, 1_024), name=f"p{n}") for n in range(3)]
        with pytest.raises(PicturesTooLarge, match="p0 1024x1024") as refusal:
            await ada.send(["Look", *many])
        assert isinstance(refusal.value, ContextOverflow)
        assert (refusal.value.budget, refusal.value.needed) == (1_536, 3 * 765)
        assert not model.requests
        assert await ada.recall.count() == 0
        low = [Image.from_bytes(png(1_024, 1_024), detail="low") for _ in range(3)]
        await ada.send(["Look", *low])
        assert len(images(model.requests[0])) == 3


async def test_pictures_count_in_the_window_by_their_size_and_not_their_bytes(
    opened: Open,
) -> None:
    model = echo()
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send("Hello")
        before = (await ada.context()).tokens
        await ada.send(Image.from_bytes(png(2_000, 1_000)))
        report = await ada.context()
        assert report.tokens - before == pytest.approx(image_tokens(2_000, 1_000), abs=250)
        assert "[image_url]" in next(part.text for part in report.parts if part.name == "queue")
        assert all("base64" not in part.text for part in report.parts)


async def test_a_waiting_message_keeps_its_bytes_once_and_over_a_restart(
    opened: Open, tmp_path: Path
) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Any:
        entered.set()
        await gate.wait()
        return say("I see.")

    async with opened(ScriptedModel(slow)) as runtime:
        ada = await runtime.agents.create("ada")
        first = asyncio.create_task(ada.send("Wait."))
        await entered.wait()
        second = asyncio.create_task(ada.send(["Look", Image.from_bytes(PNG, name="shore")]))
        await stored(tmp_path)
        bodies = rows(tmp_path, "SELECT body FROM turns WHERE body IS NOT NULL")
        assert DATA not in str(bodies)
        assert rows(tmp_path, "SELECT data, message_id FROM attachments") == [(PNG, None)]
    await asyncio.gather(first, second, return_exceptions=True)
    model = echo()
    async with opened(model) as runtime:
        ada = await runtime.agents.get("ada")
        await ada.send("Still there?")
        assert images(model.requests[-1]) == [DATA_URL]
        assert rows(tmp_path, "SELECT data, turn_id FROM attachments") == [(PNG, None)]


async def test_a_withdrawn_message_takes_its_pictures_away(opened: Open, tmp_path: Path) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Any:
        entered.set()
        await gate.wait()
        return say("I see.")

    async with opened(ScriptedModel(slow)) as runtime:
        ada = await runtime.agents.create("ada")
        first = asyncio.create_task(ada.send("Wait."))
        await entered.wait()
        second = asyncio.create_task(ada.send(Image.from_bytes(PNG)))
        await stored(tmp_path)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert rows(tmp_path, "SELECT count(*) FROM attachments") == [(0,)]
        gate.set()
        await first


async def test_reset_and_pop_keep_pictures_in_recall_and_deleting_takes_them_away(
    opened: Open, tmp_path: Path
) -> None:
    model = echo()
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        other = await ada.conversations.ensure("other")
        await ada.send(["one", Image.from_bytes(PNG)])
        gone = await ada.pop()
        assert gone[0].words == "one\n[image 640x480]"
        await ada.send(["two", Image.from_bytes(PNG)])
        await ada.reset()
        await ada.send("three")
        assert images(model.requests[-1]) == []
        await other.send(["four", Image.from_bytes(PNG)])
        assert rows(tmp_path, "SELECT count(*) FROM attachments") == [(3,)]
        await other.delete()
        assert rows(tmp_path, "SELECT count(*) FROM attachments") == [(2,)]
        await ada.delete()
        assert rows(tmp_path, "SELECT count(*) FROM attachments") == [(0,)]


async def test_a_file_is_read_as_part_of_the_message_and_kept_as_it_was(opened: Open) -> None:
    model = echo()
    raw = "# Küste\nFlut um neun.".encode("utf-16")
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send(["Summarise this:", File.from_bytes(raw, "tides.md")])
        seen = str(model.requests[0].messages[-1]["content"])
        assert "Summarise this:\n[file tides.md]\n# Küste\nFlut um neun.\n[end of file" in seen
        (kept,) = (await ada.recall.search("Flut")).hits[0].message.attachments
        assert (kept.kind, kept.name, kept.media_type) == ("file", "tides.md", "text/markdown")
        assert await ada.recall.attachment(kept.id) == raw


async def test_a_large_file_and_a_picture_are_shown_as_digest_and_picture(opened: Open) -> None:
    model = ScriptedModel([call("read_page", id="#1", page=3, heartbeat=True), say("Read.")])
    async with opened(model, context_window=16_000) as runtime:
        ada = await runtime.agents.create("ada")
        long = "\n".join(f"Line {n} of the log." for n in range(4_000)).encode()
        turn = await ada.send([File.from_bytes(long, "app.log"), Image.from_bytes(PNG)])
        said = model.requests[0].messages[-1]["content"]
        assert said[0]["text"].startswith("[this message has ")
        assert said[1]["type"] == "image_url"
        assert "of the log." in str(turn.steps[0].calls[0].result)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([], "empty"),
        ([" ", {"type": "text", "text": ""}], "empty"),
        ([PNG], "Image.from_path"),
        (PNG, "Image.from_path"),
        (7, "Image.from_path"),
        ([{"type": "input_audio", "input_audio": {}}], "'input_audio'"),
        ([{"type": "image_url", "image_url": {}}], "'image_url'"),
        ([{"type": "image", "source": {"type": "base64"}}], "'image'"),
        ([{"type": "text", "text": "a\x00"}], "NUL"),
        ([{"type": "image_url", "image_url": {"url": "file:///a.png"}}], "no http"),
        ([Image.from_url(LINK)] * 101, "at most 100"),
        ([File.from_bytes(b"x" * 19_000_000, "a")] * 3, "50,000,000 bytes"),
        ({"type": "text", "text": "a"}, "list of parts"),
    ],
)
async def test_what_is_no_content_is_refused_with_what_is_accepted(
    opened: Open, content: Any, told: str
) -> None:
    model = echo()
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        with pytest.raises(InvalidInput, match=told):
            await ada.send(content)
        assert not model.requests
        assert await ada.recall.count() == 0


def picky(refused: set[str]) -> ScriptedModel:
    """A model whose provider refuses every request that shows one of these pictures."""

    def answer(request: Request) -> Reply | RequestRejected:
        if refused.intersection(images(request)):
            return RequestRejected("the picture could not be fetched", status=400)
        return say("I see.")

    return ScriptedModel(answer, strict=("openai",))


async def test_a_picture_that_the_provider_refuses_does_not_block_the_conversation(
    opened: Open,
) -> None:
    model = picky({LINK})
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send(["This one is fine", Image.from_bytes(PNG)])
        with pytest.raises(RequestRejected, match=r"those of #\d+ are shown.*pop\(\)") as refused:
            await ada.send(["And this?", Image.from_url(LINK)])
        assert refused.value.status == 400
        assert (await ada.send("Still there?")).reply == "I see."
        assert images(model.requests[-1]) == [DATA_URL]
        assert "[image sea shore.jpg]" in str(model.requests[-1].messages)
    async with opened(model) as runtime:
        ada = await runtime.agents.get("ada")
        assert (await ada.send("And after a restart?")).reply == "I see."
        before, after = model.requests[-2:]
        assert after.messages[: len(before.messages)] == before.messages


async def test_a_link_that_has_expired_since_is_shown_as_its_placeholder(opened: Open) -> None:
    refused: set[str] = set()
    model = picky(refused)
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send(["Look", Image.from_url(LINK), Image.from_bytes(PNG)])
        await ada.send(["And this", Image.from_bytes(png(8, 8))])
        refused.add(LINK)
        with pytest.raises(RequestRejected, match="placeholders"):
            await ada.send("What was it?")
        assert (await ada.send("What was it?")).reply == "I see."
        assert len(images(model.requests[-1])) == 1


async def test_a_stored_picture_that_another_provider_refuses_is_shown_as_its_placeholder(
    opened: Open,
) -> None:
    refused: set[str] = set()
    model = picky(refused)
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send(["Look", Image.from_bytes(PNG)])
        refused.add(DATA_URL)
        with pytest.raises(RequestRejected, match="placeholders"):
            await ada.send("What was it?")
        assert (await ada.send("What was it?")).reply == "I see."
        hit = (await ada.recall.search("Look", roles=["user"])).hits[0]
        assert await ada.recall.attachment(hit.message.attachments[0].id) == PNG


@pytest.mark.parametrize(
    "error",
    [RequestRejected("no such model", status=404), ContextTooLong("too long")],
    ids=["no model", "too long"],
)
async def test_a_refusal_for_another_reason_leaves_the_pictures_in_view(
    opened: Open, error: RequestRejected
) -> None:
    answers: list[Reply | RequestRejected] = [error, say("I see.")]
    model = ScriptedModel(answers)
    async with opened(model) as runtime:
        ada = await runtime.agents.create("ada")
        with pytest.raises(RequestRejected, match=str(error)):
            await ada.send(["Look", Image.from_bytes(PNG)])
        await ada.send("Again")
        assert images(model.requests[-1]) == [DATA_URL]
