"""`pagedaemon eval`: a labelled set is measured, and a line that is none is named."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from pagedaemon.cli.labelled import Asked, Question, by_group, measures, read
from pagedaemon.errors import InvalidInput

Run = Callable[..., Result]

MESSAGES: list[dict[str, Any]] = [
    {"id": "m1", "text": "I live in Porto", "at": "2023-05-01T09:00:00Z", "author": "Lin"},
    {"id": "m2", "text": "I live in Leeds", "at": "2024-05-01T09:00:00+02:00", "author": "Lin"},
    {"id": "m3", "text": "The tram was full"},
    {"id": "m4", "text": "I will keep that in mind", "role": "assistant"},
    {"query": "Where does Lin live?", "gold": ["m2"], "groups": ["now", "home"]},
    {"query": "Where did Lin live in May 2023?", "gold": ["m1"], "groups": ["then", "home"]},
    {"query": "What is the password of the wifi?", "gold": []},
]

RECORDS: list[dict[str, Any]] = [
    {
        "in": "notes",
        "kind": "passage",
        "id": "p1",
        "text": "Lin wants short answers",
        "purposes": ["tone"],
        "importance": 9,
        "confidence": 0.9,
        "tags": ["style"],
    },
    {"in": "notes", "kind": "passage", "id": "p2", "text": "lin wants SHORT answers"},
    {"in": "notes", "kind": "passage", "id": "p3", "text": "The kettle is in the attic"},
    {"in": "notes", "query": "What answers does Lin want?", "gold": ["p1"]},
]


def write(path: Path, *lines: object) -> str:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join([*texts, ""]), encoding="utf-8")
    return str(path)


def test_each_ranking_is_measured_and_told_as_a_table_and_as_json(run: Run, folder: Path) -> None:
    first = write(folder / "messages.jsonl", *MESSAGES)
    second = write(folder / "records.jsonl", *RECORDS)
    shown = run("eval", first, second, "--embedder", "none", "--groups", "--json", "out.json")
    assert shown.exit_code == 0, shown.output
    figures = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert (figures["embedder"], figures["sure"], figures["memories"]) == (None, False, 7)
    rankings = figures["rankings"]
    assert list(rankings) == [
        "default",
        "generative_agents",
        "generative_agents_fixed",
        "blend",
        "recent_confident",
    ]
    default = rankings["default"]
    assert default["questions"] == 4
    assert default["recall@10"] == 1
    assert default["groups"]["now"]["first"] == 1
    assert default["groups"]["home"]["questions"] == 2
    assert default["nothing"] == 1
    assert default["cpu_ms"] > 0
    assert rankings["recent_confident"]["questions"] == 1, "messages have no such ranking"
    lines = [line.split("\t") for line in shown.stdout.splitlines()]
    assert lines[0][1:] == [
        "questions", "recall@5", "recall@10", "first", "MRR", "nothing", "ms CPU",
    ]  # fmt: skip
    assert {"default", "default: now", "blend: home"} <= {line[0] for line in lines}
    assert "2 of 2 worlds asked" in shown.stderr
    assert sorted(one.name for one in folder.iterdir()) == [
        "messages.jsonl",
        "out.json",
        "records.jsonl",
    ], "nothing is stored here"


def test_one_ranking_alone_with_the_model_and_as_tools_search(run: Run, folder: Path) -> None:
    write(folder / "set.jsonl", *MESSAGES)
    options = ("--ranking", "default", "--sure", "--json", "out.json")
    shown = run("eval", "set.jsonl", *options)
    assert shown.exit_code == 0, shown.output
    figures = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert list(figures["rankings"]) == ["default"]
    assert figures["sure"] is True
    assert figures["embedder"] == "local"
    assert figures["rankings"]["default"]["nothing"] == 1
    assert figures["rankings"]["default"]["recall@5"] == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "no JSON"),
        ("[]", "an object with either text"),
        ({"id": "x"}, "an object with either text"),
        ({"text": "a", "query": "b"}, "an object with either text"),
        ({"text": "a"}, "id: Field required"),
        ({"id": "x", "text": ""}, "text: "),
        ({"id": "x", "text": "a", "at": "yesterday"}, "at: "),
        ({"id": "x", "text": "a", "importance": 11}, "importance: "),
        ({"id": "x", "text": "a", "importance": 9}, "importance: only records have that"),
        ({"id": "x", "text": "a", "tags": ["b"], "confidence": 1}, "confidence, tags: only"),
        ({"query": "a", "gold": "x"}, "gold: a list is meant"),
        ({"id": "x", "text": "a", "when": "2024"}, "when: "),
        ({"id": "m1", "text": "again"}, "there is a memory 'm1' already"),
        ({"id": "x", "text": "a", "kind": "passage"}, "asked apart"),
        ({"query": "a"}, "gold: Field required"),
        ({"query": "a", "gold": "m1"}, "gold: "),
        ({"query": "a", "gold": ["m9"]}, "there is no memory 'm9'"),
        ({"query": "a", "gold": [], "in": "nowhere"}, "nothing is remembered there"),
        ({"query": "a", "gold": [], "purposes": ["tone"]}, "purposes are of records"),
        ({"query": "a", "gold": [], "at": "soon"}, "at: "),
        ({"query": "a\x00b", "gold": []}, "the query contains a NUL"),
        ({"query": " ", "gold": []}, "the query is empty"),
        ({"id": "x", "text": "a\x00b"}, "the text contains a NUL"),
        ({"id": "x", "text": "\ud800"}, "text: "),
        ({"id": "x", "text": "a", "author": ""}, "the author is empty"),
        ({"id": "x", "text": "a", "tags": ["a\nb"]}, "a tag is one line"),
        ({"id": "x", "text": "a", "at": "0001-01-01T00:00:00+14:00"}, "outside the calendar"),
    ],
)
def test_a_line_that_is_none_is_named(line: object, told: str, run: Run, folder: Path) -> None:
    path = write(folder / "set.jsonl", *MESSAGES, "", line)
    shown = run("eval", path)
    assert shown.exit_code == 1
    assert f"{path}, line {len(MESSAGES) + 2}: " in shown.stderr
    assert told in shown.stderr
    assert "Traceback" not in shown.output


def test_what_cannot_be_read_or_asks_nothing_is_told(run: Run, folder: Path) -> None:
    assert "there is no file absent" in run("eval", "absent").stderr
    (folder / "latin").write_bytes(b'{"id": "m", "text": "caf\xe9"}')
    assert "latin cannot be read" in run("eval", "latin").stderr
    write(folder / "set.jsonl", *MESSAGES[:2])
    assert "nothing is asked" in run("eval", "set.jsonl").stderr
    write(folder / "set.jsonl", *MESSAGES)
    assert (
        "messages are ranked by one of default"
        in run("eval", "set.jsonl", "--ranking", "recent_confident", "--embedder", "none").stderr
    )
    refused = run("eval", "set.jsonl", "--embedder", "none", "--json", "no/such/folder")
    assert (refused.exit_code, "cannot be written" in refused.stderr) == (1, True)
    assert refused.stdout == "", "it is told before the run, and not after it"
    assert "it is a folder" in run("eval", "set.jsonl", "--json", ".").stderr


def test_a_question_is_asked_at_its_time_and_for_its_purposes(run: Run, folder: Path) -> None:
    days = [
        {"id": f"d{n}", "text": f"note {n}", "at": f"2024-05-{n:02}T09:00:00Z"}
        for n in range(1, 31)
    ]
    asked = {"query": "what was it yesterday?", "gold": ["d6"], "at": "2024-05-07T08:00:00+02:00"}
    records = [
        {"in": "r", "kind": "passage", "id": "a", "text": "short answers", "purposes": ["tone"]},
        {"in": "r", "kind": "passage", "id": "b", "text": "short skirts", "purposes": ["shop"]},
        {"in": "r", "query": "short", "gold": ["b"], "purposes": ["shop"]},
        {"in": "r", "query": "short", "gold": ["a"], "purposes": ["tone"]},
    ]
    write(folder / "set.jsonl", *days, asked, *records)
    options = ("--embedder", "none", "--ranking", "default", "--json", "out.json")
    shown = run("eval", "set.jsonl", *options)
    assert shown.exit_code == 0, shown.output
    figures = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert figures["rankings"]["default"]["questions"] == 3
    assert figures["rankings"]["default"]["first"] == 1


def test_memories_that_say_the_same_count_as_one_and_are_told(run: Run, folder: Path) -> None:
    again = {"in": "notes", "query": "short answers", "gold": ["p2"]}
    write(folder / "set.jsonl", *RECORDS, again)
    options = ("--embedder", "none", "--ranking", "default", "--json", "out.json")
    shown = run("eval", "set.jsonl", *options)
    assert "p1, p2 say the same" in shown.stderr
    figures = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert figures["same"] == [["p1", "p2"]]
    assert figures["rankings"]["default"]["first"] == 1


def test_a_run_that_is_ended_leaves_no_folder(folder: Path) -> None:
    lines = [{"id": f"m{n}", "text": f"note {n} of many"} for n in range(3_000)]
    write(folder / "set.jsonl", *lines, {"query": "note", "gold": ["m1"]})
    left = folder / "left"
    left.mkdir()
    environment = {
        "PYTHONPATH": str(Path(__file__).parents[2] / "runtime"),
        "TMPDIR": str(left),
        "HOME": str(folder),
    }
    command = [sys.executable, "-m", "pagedaemon", "eval", "set.jsonl", "--embedder", "none"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while not list(left.glob("*/*")):
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(left.iterdir()) == []


def test_memories_without_a_time_follow_the_one_before(folder: Path) -> None:
    write(folder / "set.jsonl", *MESSAGES)
    (world,) = read([folder / "set.jsonl"])
    stamps = [str(memory.at) for memory in world.memories]
    assert stamps == [
        "2023-05-01 09:00:00+00:00",
        "2024-05-01 07:00:00+00:00",
        "2024-05-01 07:00:01+00:00",
        "2024-05-01 07:00:02+00:00",
    ]
    with pytest.raises(InvalidInput):
        read([])


def asked(found: str, gold: str, *groups: str) -> Asked:
    question = Question(query="?", gold=tuple(gold), groups=groups)
    return Asked(question, tuple(found), 0.002)


def test_measures_are_of_questions_that_have_an_answer_and_nothing_of_those_without() -> None:
    answers = [
        asked("abc", "a", "x"),
        asked("zzzzzzab", "ab", "x", "y"),
        asked("zz", "a"),
        asked("", ""),
        asked("a", ""),
    ]
    figures = measures(answers)
    assert figures == {
        "questions": 5,
        "recall@5": pytest.approx(1 / 3),
        "recall@10": pytest.approx(2 / 3),
        "first": pytest.approx(1 / 3),
        "mrr": pytest.approx((1 + 1 / 7) / 3),
        "nothing": 0.5,
        "cpu_ms": pytest.approx(2.0),
    }
    groups = by_group(answers)
    assert list(groups) == ["x", "y"]
    assert (groups["x"]["questions"], groups["y"]["questions"]) == (2, 1)
    assert groups["y"]["nothing"] is None
    assert measures([])["mrr"] is None
