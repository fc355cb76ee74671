"""`pagedaemon archive`: documents loaded, listed, found and taken out, in a pipe and without a
model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pagedaemon import Runtime
from pagedaemon.memory.documents import BATCH

Run = Callable[..., Result]

SOURCE = Path(__file__).parents[2] / "runtime"
COMMAND = (sys.executable, "-c", "from pagedaemon.cli import main; main()")

GUIDE = "# Harbour\n\nAt the old pier it is 4 metres deep.\n"


@pytest.fixture(autouse=True)
def store(folder: Path) -> Path:
    """A store with an agent that has no model, and a document beside it."""
    path = folder / "memory"
    with Runtime(path) as runtime:
        runtime.agents.create("main")
        runtime.agents.create("bob")
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    return path


def rows(result: Result) -> list[list[str]]:
    """The cells of a table in a pipe, without its head."""
    assert result.exit_code == 0, result.stderr
    return [line.split("\t") for line in result.stdout.splitlines()[1:]]


def test_a_document_is_loaded_listed_found_and_taken_out(run: Run, store: Path) -> None:
    told = run("archive", "load", "guide.md", "--tag", "sea", "--tag", "pier")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == "guide.md: 1 passage, 0 unchanged, 0 removed\n"
    [[name, passages, _]] = rows(run("archive", "list"))
    assert (name, passages) == ("guide.md", "1")
    [[passage_id, _, kind, source, text]] = rows(run("archive", "search", "how", "deep"))
    assert (kind, source) == ("document", "guide.md")
    assert text == "# Harbour At the old pier it is 4 metres deep."
    with Runtime(store) as runtime:
        kept = runtime.agents.get("main").archive.get(passage_id)
        assert (kept.tags, kept.label) == (("pier", "sea"), "tool")
    assert run("archive", "unload", "guide.md").stdout == "unloaded guide.md: 1 passage\n"
    assert rows(run("archive", "list")) == rows(run("archive", "search")) == []


def test_loading_again_replaces(run: Run, folder: Path) -> None:
    run("archive", "load", "guide.md")
    again = run("archive", "load", "guide.md").stdout
    assert again == "guide.md: 1 passage, 1 unchanged, 0 removed\n"
    (folder / "guide.md").write_text("Closed.", encoding="utf-8")
    again = run("archive", "load", "guide.md").stdout
    assert again == "guide.md: 1 passage, 0 unchanged, 1 removed\n"


def test_options_say_how_a_document_is_read_and_for_whom(
    run: Run, folder: Path, store: Path
) -> None:
    (folder / "notes").write_bytes("# Café\n\n".encode("latin-1") + b"word " * 100)
    told = run(
        *("archive", "load", "notes", "--agent", "bob", "--name", "café", "--format", "markdown"),
        *("--label", "owner", "--encoding", "latin-1", "--chunk-chars", "200"),
    )
    assert told.exit_code == 0
    with Runtime(store) as runtime:
        assert runtime.agents.get("main").archive.count() == 0
        found = runtime.agents.get("bob").archive.search().hits
    assert len(found) == 3
    assert {(one.source, one.label) for one in found} == {(("file", "café"), "owner")}
    assert all(one.text.startswith(("# Café", "Café\n\n")) for one in found)
    assert max(len(one.text) for one in found) <= 200


def test_of_several_files_the_bad_one_is_told_of_and_the_others_are_loaded(
    run: Run, folder: Path
) -> None:
    (folder / "more.txt").write_text("The bay is wide.", encoding="utf-8")
    told = run("archive", "load", "guide.md", "nowhere.md", "more.txt")
    assert told.exit_code == 1
    assert [line.split(":")[0] for line in told.stdout.splitlines()] == ["guide.md", "more.txt"]
    assert told.stderr.startswith("nowhere.md was not loaded: there is no file nowhere.md")
    assert told.stderr.count("\n") == 1
    assert [row[0] for row in rows(run("archive", "list"))] == ["guide.md", "more.txt"]


def test_one_name_for_several_files_is_a_usage_error(run: Run) -> None:
    told = run("archive", "load", "guide.md", "guide.md", "--name", "x")
    assert told.exit_code == 2
    assert "--name names one document" in told.stderr
    assert rows(run("archive", "list")) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("load", "nowhere.md"), "there is no file nowhere.md"),
        (("load", "guide.md", "--encoding", "klingon"), "klingon"),
        (("load", "guide.md", "--agent", "eve"), "no agent called 'eve'"),
        (("list", "--agent", "eve"), "no agent called 'eve'"),
        (("unload", "guide.md"), "no document 'guide.md' in this agent's archive"),
        (("search", "deep", "--store", "nowhere"), "there is no space 'default' in ./nowhere"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    run: Run, folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    told = run("archive", *arguments)
    assert (told.exit_code, told.stdout) == (1, "")
    assert said in told.stderr
    assert told.stderr.count("\n") == 1
    assert not (folder / "nowhere").exists()


def test_a_search_is_filtered_by_tags_and_says_that_there_is_more(run: Run, store: Path) -> None:
    with Runtime(store) as runtime:
        kept = runtime.agents.get("main").archive
        for number in range(12):
            kept.insert(f"fact {number}", tags=["even" if number % 2 == 0 else "odd"])
        runtime.catch_up()
    told = run("archive", "search", "fact")
    assert len(rows(told)) == 10
    assert told.stderr == "these are 10 of 12: --limit or --page shows more\n"
    told = run("archive", "search", "fact", "--tag", "odd", "--limit", "6")
    assert len(rows(told)) == 6
    assert told.stderr == ""
    assert len(rows(run("archive", "search", "fact", "--page", "1"))) == 2
    assert rows(run("archive", "search", "fact", "--end", "before 2024")) == []
    assert len(rows(run("archive", "search", "--start", "today"))) == 10
    assert len(rows(run("archive", "search", "x", "--ranking", "recent_confident"))) == 3


def test_a_long_load_tells_on_standard_error_how_far_it_is(run: Run, folder: Path) -> None:
    paragraphs = BATCH + 1
    text = "\n\n".join(f"Line {number} of the log. {'x ' * 30}" for number in range(paragraphs))
    (folder / "log.txt").write_text(text, encoding="utf-8")
    told = run("archive", "load", "log.txt", "--chunk-chars", "100")
    assert told.stdout.startswith(f"log.txt: {paragraphs:,} passages")
    first, *others = told.stderr.splitlines()
    assert first == f"{paragraphs:,} of {paragraphs:,} passages of log.txt"
    # How many are left by then depends on the machine.
    assert all(line.endswith(" texts embedded") for line in others)


def test_in_a_real_pipe_results_have_no_colour(folder: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, "archive", "load", "guide.md"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "guide.md: 1 passage, 0 unchanged, 0 removed\n"
