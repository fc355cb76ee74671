"""Reads LoCoMo's file: who said what and when, and the questions with the turns that answer them.

Only what people said is read, and the captions of pictures they shared; what was written about the
conversations by models or annotators would give answers away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""As LoCoMo's own evaluation has them. Questions of the last kind have no answer."""

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of a dialog."""

    id: str
    """Such as `D3:11`: session and turn."""
    speaker: str
    text: str
    session_at: datetime
    """When its session began."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a dialog."""

    text: str
    category: str
    evidence: tuple[str, ...]
    """Ids of the turns that answer it."""


@dataclass(frozen=True, slots=True)
class Dialog:
    """A conversation between two people, in sessions."""

    name: str
    turns: tuple[Said, ...]
    questions: tuple[Question, ...]


def read_dialogs(path: Path, fixes: Path | None) -> list[Dialog]:
    """All dialogs of a file.

    Args:
        path: in LoCoMo's format.
        fixes: corrected evidence, by dialog and number of the question; None for none.
    """
    mended = {} if fixes is None else json.loads(fixes.read_text(encoding="utf-8"))
    samples = json.loads(path.read_text(encoding="utf-8"))
    return [_dialog(sample, mended.get(sample["sample_id"], {})) for sample in samples]


def _dialog(sample: Mapping[str, Any], fixes: Mapping[str, Any]) -> Dialog:
    turns = tuple(_turns(sample["conversation"]))
    known = {turn.id for turn in turns}
    questions = tuple(
        Question(
            entry["question"],
            CATEGORIES[entry["category"]],
            _evidence(fixes.get(str(number), entry).get("evidence", ()), known),
        )
        for number, entry in enumerate(sample["qa"])
    )
    return Dialog(sample["sample_id"], turns, questions)


def _turns(conversation: Mapping[str, Any]) -> list[Said]:
    numbers = sorted(
        int(match[1]) for key in conversation if (match := _SESSION.fullmatch(key)) is not None
    )
    return [
        Said(entry["dia_id"], entry["speaker"], _text(entry), _instant(conversation, number))
        for number in numbers
        for entry in conversation[f"session_{number}"]
    ]


def _text(entry: Mapping[str, Any]) -> str:
    caption = entry.get("blip_caption")
    parts = [entry.get("text", ""), f"[shares a picture: {caption}]" if caption else ""]
    return "\n".join(part for part in parts if part.strip())


def _instant(conversation: Mapping[str, Any], number: int) -> datetime:
    written = conversation[f"session_{number}_date_time"]
    return datetime.strptime(written, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _evidence(written: Sequence[str], known: set[str]) -> tuple[str, ...]:
    # Some entries hold several ids, some a zero or a colon too many, some nothing at all.
    found = [
        f"D{int(session)}:{int(turn)}"
        for entry in written
        for session, turn in _EVIDENCE.findall(entry)
    ]
    return tuple(identity for identity in dict.fromkeys(found) if identity in known)
