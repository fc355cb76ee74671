"""What a command stored is found by its meaning once it ended, or the command says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pagedaemon import Runtime
from pagedaemon.testing import FakeEmbedder

Run = Callable[..., Result]

IMPORTS = (
    "from pagedaemon.errors import EmbeddingError\nfrom pagedaemon.testing import FakeEmbedder"
)

APPS = """
def opened(embedder):
    runtime = Runtime("elsewhere", model="offline", embedder=embedder)
    runtime.agents.ensure("ada")
    return runtime

def sound():
    return opened(FakeEmbedder({"nuts": "peanuts"}))

def lost():
    embedder = FakeEmbedder()
    embedder.fail(None, EmbeddingError("the endpoint is gone", kind="unavailable"))
    return opened(embedder)

def wordy():
    return opened(None)
"""

LOAD = ("archive", "load", "guide.md", "--agent", "ada")
IMPORT = ("recall", "import", "said.jsonl", "--agent", "ada")
both = pytest.mark.parametrize("store", [LOAD, IMPORT], ids=["archive load", "recall import"])


@pytest.fixture(autouse=True)
def files(folder: Path, write_app: Callable[..., None]) -> None:
    """Something to store, and embedders to store it with."""
    (folder / "guide.md").write_text("Never serve peanuts to Lin.", encoding="utf-8")
    line = {"role": "user", "content": "Never serve peanuts to Lin."}
    (folder / "said.jsonl").write_text(json.dumps(line), encoding="utf-8")
    write_app("settling", f"{IMPORTS}\n{APPS}")


def search(run: Run, store: tuple[str, ...], app: str, words: str) -> Result:
    """The search that fits what was stored."""
    return run(store[0], "search", words, "--agent", "ada", "--app", f"settling:{app}")


@both
def test_what_a_command_stored_is_found_by_its_meaning_once_it_ended(
    run: Run, store: tuple[str, ...]
) -> None:
    told = run(*store, "--app", "settling:sound")
    assert (told.exit_code, told.stderr) == (0, "")
    found = search(run, store, "sound", "nuts")
    assert "Never serve peanuts to Lin." in found.stdout
    assert found.stderr == ""


@both
def test_an_embedder_that_fails_is_a_remark_and_what_was_stored_is_found_by_its_words(
    run: Run, store: tuple[str, ...]
) -> None:
    told = run(*store, "--app", "settling:lost")
    assert told.exit_code == 0
    assert told.stdout.startswith(("guide.md: 1 passage", "imported 1 message"))
    (remarked,) = told.stderr.splitlines()
    assert remarked.startswith("1 text cannot be found by meaning yet")
    assert "the endpoint is gone" in remarked
    assert "Never serve" in search(run, store, "lost", "peanuts").stdout


@both
def test_a_search_says_what_it_cannot_find_by_meaning_yet_until_that_is_done(
    run: Run, store: tuple[str, ...]
) -> None:
    run(*store, "--app", "settling:lost")
    for _ in range(2):
        found = search(run, store, "lost", "nuts")
        assert "Never serve" not in found.stdout
        assert found.stderr.startswith("1 text cannot be found by meaning yet")
        assert "`pagedaemon reindex`" in found.stderr
    run("reindex", "--app", "settling:sound")
    found = search(run, store, "sound", "nuts")
    assert "Never serve" in found.stdout
    assert found.stderr == ""


@both
def test_without_an_embedder_nothing_is_waited_for(run: Run, store: tuple[str, ...]) -> None:
    told = run(*store, "--app", "settling:wordy")
    assert (told.exit_code, told.stderr) == (0, "")
    assert search(run, store, "wordy", "nuts").stderr == ""


@both
def test_a_store_with_vectors_of_another_embedder_is_not_embedded_anew(
    run: Run, store: tuple[str, ...]
) -> None:
    with Runtime("elsewhere", model="offline", embedder=FakeEmbedder(name="theirs")) as runtime:
        runtime.agents.ensure("ada").archive.insert("Lin likes green tea.")
        assert runtime.catch_up().stored == 1
    told = run(*store, "--app", "settling:sound")
    assert told.exit_code == 0
    assert "the vectors here are of theirs, and the embedder is now fake" in told.stderr
    assert "`pagedaemon reindex`" in told.stderr
    with Runtime("elsewhere", model="offline", embedder=FakeEmbedder(name="theirs")) as runtime:
        status = runtime.catch_up()
        assert (status.stored, status.pending, status.earlier) == (2, 0, ())


def test_waiting_tells_how_far_it_is_and_ends_with_nothing_left() -> None:
    embedder = FakeEmbedder({"nuts": "peanuts"})
    told: list[tuple[int, int | None, str]] = []
    with Runtime("mine", model="offline", embedder=embedder) as runtime:
        archive = runtime.agents.ensure("ada").archive
        archive.insert_many([f"fact {number}" for number in range(10)])
        status = runtime.catch_up(lambda *count: told.append(count))
        assert (status.stored, status.pending) == (10, 0)
        assert told == [(0, 10, "texts embedded"), (10, 10, "texts embedded")]
        embedder.fail(None)
        archive.insert("Never serve peanuts to Lin.")
        status = runtime.catch_up()
        assert (status.stored, status.pending, status.failed) == (10, 1, 1)
        assert status.errors == ("told to fail",)
        embedder.fail(0)
        assert runtime.catch_up().pending == 0
        assert archive.search("nuts").hits[0].text == "Never serve peanuts to Lin."
