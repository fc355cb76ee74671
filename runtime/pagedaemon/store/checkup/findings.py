"""What can be wrong with a space, what becomes of it, and the report of a look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal[
    "file_damaged",
    "file_unreachable",
    "schema_old",
    "schema_new",
    "sql_index_damaged",
    "reference_broken",
    "turn_open",
    "turn_queued",
    "lease_left",
    "worker_gone",
    "outcome_unknown",
    "approval_overdue",
    "timer_overdue",
    "text_not_indexed",
    "word_index_damaged",
    "vector_orphan",
    "vector_damaged",
    "vectors_pending",
    "vectors_failed",
    "index_unclean",
    "index_unused",
    "attachment_orphan",
]
"""What can be found. See `TREATMENTS` for what is done about each."""

State = Literal["noted", "found", "mended", "left"]
"""`noted`: nothing is wrong. `found`: only looked at, and would be mended. `mended`: it was.
`left`: it could not be, and somebody has to."""


class Treatment(NamedTuple):
    """What is done about a kind of finding."""

    cure: str | None
    """What mending does, in words; None: nobody but a person can mend it."""
    advice: str
    """What to do where it was not mended."""
    harmless: bool = False
    """It passes by itself."""


TREATMENTS: Mapping[Kind, Treatment] = {
    "file_damaged": Treatment(None, "put the space's folder back from a backup"),
    "file_unreachable": Treatment(None, "see to what is told here, and look again"),
    "schema_old": Treatment("upgraded", "open the store with this release, which upgrades it"),
    "schema_new": Treatment(None, "upgrade pagedaemon"),
    "sql_index_damaged": Treatment("made anew", "put the space's folder back from a backup"),
    "reference_broken": Treatment("removed, as its owner was", "put the folder back from a backup"),
    "turn_open": Treatment("taken up and brought to its end", "open the store with what it needs"),
    "turn_queued": Treatment("run", "open the store with what it needs"),
    "lease_left": Treatment("given back", "look again"),
    "worker_gone": Treatment("its lock file removed", "remove it from `workers` by hand"),
    "outcome_unknown": Treatment(
        None, "find out what happened and say so: outcomes.get(id).settle(happened)"
    ),
    "approval_overdue": Treatment("expired, and its agent told", "look again"),
    "timer_overdue": Treatment("rung", "open the store with what its agent needs"),
    "text_not_indexed": Treatment("made searchable", "look again"),
    "word_index_damaged": Treatment("made anew", "put the space's folder back from a backup"),
    "vector_orphan": Treatment("removed", "look again"),
    "vector_damaged": Treatment("removed, to be made anew", "look again"),
    "vectors_pending": Treatment(
        "embedded", "nothing: they are embedded when the space is next in use", harmless=True
    ),
    "vectors_failed": Treatment("embedded", "see to the embedder; they are found by words"),
    "index_unclean": Treatment(
        "thrown away; it is made anew from the table when it is wanted", "look again"
    ),
    "index_unused": Treatment("removed", "check that the folder can be written"),
    "attachment_orphan": Treatment(
        "given back to its message, or removed where there is none", "look again"
    ),
}


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that is wrong, as a look sees it."""

    kind: Kind
    where: str
    """The id or the file that it is wrong with."""
    what: str
    """What is wrong, in words."""
    advice: str | None = None
    """What to do about this very one, where that differs from its kind's."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, with all that it is wrong with in the same way."""

    kind: Kind
    what: str
    """In words."""
    where: tuple[str, ...]
    """Ids or files."""
    state: State
    advice: str
    """What was done; what mending would do; or what is left to do."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a look at a space came to."""

    space: str
    findings: tuple[Finding, ...]
    """Those that somebody has to see to first."""
    embedders: tuple[str, ...] = ()
    """The embedding models whose vectors are stored."""

    @property
    def sound(self) -> bool:
        """Whether nothing is left to do."""
        return all(finding.state in ("noted", "mended") for finding in self.findings)


def looked(symptoms: Iterable[Symptom]) -> tuple[Finding, ...]:
    """The findings of a look that mends nothing."""
    return _grouped((symptom, _seen(symptom)) for symptom in symptoms)


def compared(before: Iterable[Symptom], after: Iterable[Symptom]) -> tuple[Finding, ...]:
    """The findings of a look before mending and one after it: what is there no more was mended."""
    still = list(after)
    there = {(symptom.kind, symptom.where) for symptom in still}
    mended = [one for one in before if (one.kind, one.where) not in there]
    return _grouped(
        [
            *((symptom, _stays(symptom)) for symptom in still),
            *((symptom, ("mended", _cure(symptom))) for symptom in mended),
        ]
    )


_Fate = tuple[State, str]


def _seen(symptom: Symptom) -> _Fate:
    treatment = TREATMENTS[symptom.kind]
    if treatment.harmless or treatment.cure is None or symptom.advice is not None:
        return _stays(symptom)
    return "found", f"mending: {treatment.cure}"


def _stays(symptom: Symptom) -> _Fate:
    treatment = TREATMENTS[symptom.kind]
    state: State = "noted" if treatment.harmless else "left"
    return state, symptom.advice or treatment.advice


def _cure(symptom: Symptom) -> str:
    # What nobody but a person can mend may have gone by itself meanwhile.
    return TREATMENTS[symptom.kind].cure or "gone"


_ORDER: Mapping[State, int] = {"left": 0, "found": 1, "mended": 2, "noted": 3}


def _grouped(fates: Iterable[tuple[Symptom, _Fate]]) -> tuple[Finding, ...]:
    groups: dict[tuple[Kind, str, State, str], list[str]] = {}
    for symptom, (state, advice) in fates:
        groups.setdefault((symptom.kind, symptom.what, state, advice), []).append(symptom.where)
    found = [
        Finding(kind, what, tuple(w), state, a) for (kind, what, state, a), w in groups.items()
    ]
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.state]))
