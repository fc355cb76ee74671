"""The labelled sets of our own are what their seed makes, and hold what they are said to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).with_name("data")
NOW_THEN, UNANSWERABLE = DATA / "now_then.jsonl", DATA / "unanswerable.jsonl"

CUES = re.compile(
    r"\b(moved?|chang\w*|now|no longer|new|current(ly)?|these days|switched|swapped|correction|"
    r"sorry|instead|from now on|gave up|quit|first day|retired|extension|update|again|sold|stopped|"
    r"is over|anymore|umgezogen|jetzt|gewechselt|neue\w*|falsch|geändert|verlegt|zurzeit|mudado|"
    r"ahora|cambiado|nuevo|perdona|actualmente|déménagé|maintenant|changé|nouveau|pardon|actuellement)\b"
    r"|搬|现在|换|新|目前",
    re.IGNORECASE,
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_what_is_committed_is_what_the_seed_makes(tmp_path: Path) -> None:
    script = str(DATA.with_name("sets.py"))
    subprocess.run([sys.executable, script, "--to", str(tmp_path)], check=True, timeout=60)
    for committed in (NOW_THEN, UNANSWERABLE):
        assert (tmp_path / committed.name).read_bytes() == committed.read_bytes()


@pytest.mark.parametrize("path", [NOW_THEN, UNANSWERABLE])
def test_every_answer_is_a_memory_of_the_same_world(path: Path) -> None:
    said = {(line["in"], line["id"]) for line in lines(path) if "text" in line}
    assert len(said) == sum("text" in line for line in lines(path))
    for line in lines(path):
        for gold in line.get("gold", ()):
            assert (line["in"], gold) in said


def test_there_are_enough_changes_and_half_of_them_have_no_cue_word() -> None:
    asked = [line for line in lines(NOW_THEN) if "query" in line]
    texts = {line["id"]: line["text"] for line in lines(NOW_THEN) if "text" in line}
    now = [line for line in asked if "now" in line["groups"]]
    bare = [line for line in now if "no cue" in line["groups"]]
    assert len(now) >= 300
    assert len(asked) == 2 * len(now)
    assert len(bare) >= 0.3 * len(now)
    for line in bare:
        for text in [line["query"], *(texts[gold] for gold in line["gold"])]:
            assert not CUES.search(text), text


def test_what_is_true_now_was_said_after_what_was_true_then() -> None:
    at = {line["id"]: line["at"] for line in lines(NOW_THEN) if "text" in line}
    asked = [line for line in lines(NOW_THEN) if "query" in line]
    for now, then in zip(asked[::2], asked[1::2], strict=True):
        assert now["groups"][1:] == then["groups"][1:]
        assert max(at[gold] for gold in then["gold"]) < min(at[gold] for gold in now["gold"])


def test_there_are_enough_questions_without_an_answer_and_as_many_with_one() -> None:
    asked = [line for line in lines(UNANSWERABLE) if "query" in line]
    groups = Counter(line["groups"][0] for line in asked)
    assert groups["unanswerable"] >= 100
    assert groups["answerable"] == groups["unanswerable"]
    assert all(bool(line["gold"]) == ("answerable" in line["groups"]) for line in asked)
