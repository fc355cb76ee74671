"""`pagedaemon recall`: history brought in once, and searched, without a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pagedaemon import Runtime
from pagedaemon.memory.documents import BATCH

Run = Callable[..., Result]

SAID = [
    {"role": "user", "content": "Is the pier in use?", "created_at": "2023-05-01T09:00Z"},
    {"role": "assistant", "content": "Only in summer.", "created_at": "2023-05-01T09:01Z"},
]


@pytest.fixture(autouse=True)
def store(folder: Path) -> Path:
    """A store with an agent that has no model, and files beside it."""
    path = folder / "memory"
    with Runtime(path) as runtime:
        runtime.agents.create("main")
        runtime.agents.create("bob")
    lines = [json.dumps(message) for message in SAID]
    (folder / "said.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "broken.jsonl").write_text("\n".join([*lines, "no json"]), encoding="utf-8")
    chat = {"title": "Harbour", "messages": SAID}
    (folder / "export.json").write_text(json.dumps([chat]), encoding="utf-8")
    return path


def rows(result: Result) -> list[list[str]]:
    """The cells of a table in a pipe, without its head."""
    assert result.exit_code == 0, result.stderr
    return [line.split("\t") for line in result.stdout.splitlines()[1:]]


def test_what_was_said_elsewhere_is_found_with_its_date(run: Run) -> None:
    told = run("recall", "import", "said.jsonl")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == (
        "imported 2 messages; 0 were there, 0 left out; conversations: imported\n"
    )
    best, *_ = rows(run("recall", "search", "pier"))
    assert best[0].startswith("message-")
    assert best[1:] == ["2023-05-01 09:00", "imported", "user", "Is the pier in use?"]
    assert [row[3] for row in rows(run("recall", "search"))] == ["assistant", "user"]
    again = run("recall", "import", "said.jsonl").stdout
    assert again.startswith("imported 0 messages; 2 were there")


def test_the_agent_and_the_conversation_can_be_named(run: Run) -> None:
    run("recall", "import", "said.jsonl", "--agent", "bob", "--conversation", "old")
    assert {row[2] for row in rows(run("recall", "search", "pier", "--agent", "bob"))} == {"old"}
    assert rows(run("recall", "search", "pier")) == []


def test_an_export_goes_to_conversations_by_its_titles(run: Run) -> None:
    told = run("recall", "import", "export.json", "--openai")
    assert "imported 2 messages" in told.stdout
    [_, _, conversation, who, _], *_ = rows(run("recall", "search", "summer"))
    assert conversation.startswith("Harbour")
    assert who == "assistant"
    assert conversation in told.stdout


def test_an_export_can_go_to_one_conversation(run: Run) -> None:
    run("recall", "import", "export.json", "--openai", "--conversation", "old")
    assert {row[2] for row in rows(run("recall", "search", "summer"))} == {"old"}


def test_a_line_that_is_no_message_stops_all_unless_it_is_to_be_left_out(run: Run) -> None:
    told = run("recall", "import", "broken.jsonl")
    assert (told.exit_code, told.stdout) == (1, "")
    assert "line 3" in told.stderr
    assert rows(run("recall", "search")) == []
    told = run("recall", "import", "broken.jsonl", "--skip-errors")
    assert told.stdout.startswith("imported 2 messages; 0 were there, 1 left out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import", "nowhere.jsonl"), "there is no file nowhere.jsonl"),
        (("import", "said.jsonl", "--agent", "eve"), "no agent called 'eve'"),
        (("import", "said.jsonl", "--conversation", "a\nb"), "one line"),
        (("search", "pier", "--agent", "eve"), "no agent called 'eve'"),
        (("search", "pier", "--space", "eve"), "there is no space 'eve'"),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    told = run("recall", *arguments)
    assert (told.exit_code, told.stdout) == (1, "")
    assert said in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_long_import_tells_how_far_it_is_and_a_search_that_there_is_more(
    run: Run, folder: Path
) -> None:
    lines = [json.dumps({"role": "user", "content": f"fact {n}"}) for n in range(BATCH + 1)]
    (folder / "long.jsonl").write_text("\n".join(lines), encoding="utf-8")
    told = run("recall", "import", "long.jsonl")
    first, *others = told.stderr.splitlines()
    assert first == f"{BATCH + 1} of {BATCH + 1} messages imported"
    # How many are left by then depends on the machine.
    assert all(line.endswith(" texts embedded") for line in others)
    told = run("recall", "search", "fact", "--limit", "3")
    assert len(rows(told)) == 3
    assert told.stderr == f"these are 3 of {BATCH + 1}: --limit or --page shows more\n"
    told = run("recall", "search", "fact", "--limit", "200", "--page", "2")
    assert len(rows(told)) == BATCH + 1 - 400
    assert told.stderr == f"these are 401 to {BATCH + 1} of {BATCH + 1}\n"
    told = run("recall", "search", "fact", "--page", "999")
    assert rows(told) == []
    assert told.stderr == f"no page 999: there are {BATCH + 1} hits in all\n"


def test_a_search_has_roles_dates_and_a_ranking(run: Run) -> None:
    run("recall", "import", "said.jsonl")
    assert [row[3] for row in rows(run("recall", "search", "--role", "assistant"))] == ["assistant"]
    late = rows(run("recall", "search", "--start", "2023-05-01T09:01"))
    assert [row[4] for row in late] == ["Only in summer."]
    assert len(rows(run("recall", "search", "--start", "May 2023", "--end", "2023-05-01"))) == 2
    assert rows(run("recall", "search", "--end", "before 2023")) == []
    assert rows(run("recall", "search", "pier", "--ranking", "blend"))
    wrong = run("recall", "search", "--start", "5/8/2026")
    assert (wrong.exit_code, "not a date" in wrong.stderr) == (1, True)
    assert run("recall", "search", "--ranking", "recent_confident").exit_code == 2
