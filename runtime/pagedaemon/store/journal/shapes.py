"""The rows of the journal as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pagedaemon.agent import AgentRecord
from pagedaemon.config import LEASE_SECONDS
from pagedaemon.media import Attachment, from_described
from pagedaemon.messages import CallStatus, HeartbeatReason, Label, StopReason, Usage
from pagedaemon.store.journal.told import Told


@dataclass(frozen=True, slots=True)
class Lease:
    """Exclusive use of a conversation, as long as its epoch is ours."""

    conversation_id: str
    owner: str
    epoch: int
    seconds: float = LEASE_SECONDS
    """How long it lasts after each renewal."""

    def runs_out(self) -> datetime:
        """When it runs out if it is renewed now. By the machine's own clock, whatever time the
        agents live in: it is about processes that share the machine."""
        return datetime.now(UTC) + timedelta(seconds=self.seconds)


WakeKind = Literal[
    "message", "heartbeat", "timer", "mail", "question", "answer", "approval", "outcome"
]
"""`message`: a person's words. `heartbeat`: the owner's program has the agent think, and nobody
waits. `timer`: an instant has come that the owner or the agent had set. `mail`: another agent's
words. `question`: mail whose sender wants an answer. `answer`: what came of a question.
`approval`: a person has said of a call whether it may be run, or nobody has in time. `outcome`: a
person has said what became of a call whose outcome was unknown."""


@dataclass(frozen=True, slots=True)
class Ring:
    """One ring of a timer."""

    schedule_id: str
    due: datetime
    """When it should have been; of several that were missed, the first."""
    every: float | None = None
    """Seconds between two; None for once."""
    missed: int = 0
    """How many more were due before the agent could be woken."""


@dataclass(frozen=True, slots=True)
class Letter:
    """How mail between agents came: where an answer goes, and what keeps them from going round in
    circles."""

    conversation_id: str
    """The sender's: there an answer wakes it."""
    route: tuple[str, ...]
    """Ids of the agents that have written, oldest first, each because of the mail before; the last
    is the sender."""
    stopped: StopReason | None = None
    """Of an answer without words: why the turn ended that should have given it."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was said of a call that waited for a person."""

    approval_id: str
    tool: str
    decision: Literal["approved", "denied", "expired"]
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What was found out of a call whose outcome was unknown."""

    call_id: str
    tool: str
    happened: bool
    by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """What wakes an agent. `pagedaemon.turn.waking` says for each kind how the model sees it."""

    text: str = ""
    """Of a message: what was said."""
    label: Label = "user"
    author: str | None = None
    kind: WakeKind = "message"
    reply_schema: str | None = None
    """JSON schema of the type that the reply must have; None for words."""
    attachments: tuple[Attachment, ...] = ()
    """Pictures and files that came with it."""
    ring: Ring | None = None
    """Of a timer."""
    letter: Letter | None = None
    """Of mail."""
    ruling: Ruling | None = None
    """Of an approval."""
    settlement: Settlement | None = None
    """Of an outcome."""


@dataclass(frozen=True, slots=True)
class Head:
    """A conversation and its agent as a turn needs them."""

    conversation_id: str
    agent: AgentRecord
    epoch: int
    lease_owner: str | None
    lease_until: datetime | None
    """When the lease runs out; of a conversation that nobody has, until when whoever is next has
    time to take it."""
    last_seq: int
    last_turn: int
    window_version: int
    warned: bool
    folds: int
    summary_id: str | None
    recall_count: int
    archival_count: int
    first_open: int | None
    """Number of the oldest turn that has not ended."""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn's row."""

    id: str
    conversation_id: str
    seq: int
    event: WakeKind
    status: str
    owner: str | None
    attempts: int
    wake: Wake | None
    """What woke it, until it is claimed: from then on that stands in the window."""
    stop_reason: StopReason | None
    error: str | None
    usage: Usage
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    reply_schema: str | None
    told: tuple[Told, ...] | None
    """Its events so far; None where it was begun before they were kept."""
    stop_asked: bool
    """Another process has asked its owner to stop it."""
    lease_owner: str | None
    lease_until: datetime | None
    """Both of its conversation, as of `Head`."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a planned step, and how far it came."""

    id: str
    seq: int
    wire_id: str
    tool: str
    arguments: Mapping[str, Any]
    raw: str
    effect: str
    status: CallStatus
    heartbeat: bool
    result: str | None = None
    verdict: Mapping[str, Any] | None = None
    """What was decided on it when its reply was read: under `approval` the id of the approval that
    it waits for, under `granted` that of the one by which it is run. None: it may be run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A reply of the model that has been stored: it is never asked for again."""

    step_id: str
    seq: int
    heartbeat: HeartbeatReason | None
    reply: Mapping[str, Any]
    context_hash: str
    block_versions: Mapping[str, int]
    model: str
    usage: Usage
    created_at: datetime
    calls: tuple[PlannedCall, ...] = ()


def ring_data(ring: Ring) -> dict[str, Any]:
    """A ring as JSON values."""
    return {**asdict(ring), "due": ring.due.isoformat()}


def ring_of(data: Mapping[str, Any] | None) -> Ring | None:
    """A ring again."""
    return None if data is None else Ring(**{**data, "due": datetime.fromisoformat(data["due"])})


def letter_data(letter: Letter) -> dict[str, Any]:
    """A letter as JSON values."""
    return {**asdict(letter), "route": list(letter.route)}


def letter_of(data: Mapping[str, Any] | None) -> Letter | None:
    """A letter again."""
    return None if data is None else Letter(**{**data, "route": tuple(data["route"])})


def wake_data(wake: Wake) -> dict[str, Any]:
    """What wakes an agent, as JSON."""
    body: dict[str, Any] = {"text": wake.text, "label": wake.label, "author": wake.author}
    if wake.attachments:
        body["attachments"] = [one.described() for one in wake.attachments]
    if wake.ring is not None:
        body["ring"] = ring_data(wake.ring)
    if wake.letter is not None:
        body["letter"] = letter_data(wake.letter)
    if wake.ruling is not None:
        body["ruling"] = asdict(wake.ruling)
    if wake.settlement is not None:
        body["settlement"] = asdict(wake.settlement)
    return body


def wake_of(body: dict[str, Any], kind: WakeKind) -> Wake:
    """The same from JSON; the bytes of what came with it are not there."""
    came = from_described(body.pop("attachments", ()))
    ring = ring_of(body.pop("ring", None))
    letter = letter_of(body.pop("letter", None))
    said = body.pop("ruling", None)
    ruling = None if said is None else Ruling(**said)
    found = body.pop("settlement", None)
    settlement = None if found is None else Settlement(**found)
    return Wake(
        **body,
        kind=kind,
        attachments=came,
        ring=ring,
        letter=letter,
        ruling=ruling,
        settlement=settlement,
    )
