"""Timers: when an agent is to be woken, set by its owner or by itself, and held for a while.

A timer rings at most once for each instant: the transaction that queues the agent's turn is the one
that moves the timer on. What was missed, because no process was there, the agent was busy or its
timers were held, is one ring that says how many.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pagedaemon.agent import MAIN
from pagedaemon.clock import local_stamp, zone
from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.memory.effects import Acting, Immediate, Told
from pagedaemon.messages import Label, checked_text
from pagedaemon.store import conversations as conversation_rows
from pagedaemon.store import schedules as rows
from pagedaemon.store.journal import Ring
from pagedaemon.store.schedules import ScheduleRow
from pagedaemon.store.transaction import Transaction

MOST = 100
"""Timers of one agent."""

LONGEST_NOTE = 4_000
"""Characters of what a timer says."""

LEAST = timedelta(seconds=1)
"""Between two rings. An agent sets itself timers by the minute."""

LONGEST = timedelta(days=3_653)
"""Between two rings, and until the first."""

LONGEST_PAUSE = timedelta(hours=24)
"""How long an agent may hold its own timers."""


@dataclass(frozen=True)
class When:
    """When a timer rings.

    Attributes:
        due: first; in the past means at once.
        every: between two; None for once.
    """

    due: datetime
    every: timedelta | None = None


def when(
    at: datetime | None, every: timedelta | None, start: datetime | None, now: datetime
) -> When:
    """When a timer rings, from what its owner gives: `at` for once, or `every`, from `start` on.

    An interval is a length of time and nothing of a calendar: where the clocks change, a timer of
    24 hours rings at another hour. A start in the past keeps its grid, and what was before now is
    not made up for.

    Raises:
        InvalidInput: none or both are given, an instant has no timezone, or one of them is out of
            bounds.
    """
    if (at is None) == (every is None):
        raise InvalidInput("give at=… for a timer that rings once, or every=… for one that repeats")
    if at is not None:
        if start is not None:
            raise InvalidInput("start belongs to every=…; a timer that rings once has at=…")
        return When(_instant(at, "at", now))
    if not isinstance(every, timedelta):
        raise InvalidInput(f"every is a timedelta, not {type(every).__name__}")
    if not LEAST <= every <= LONGEST:
        raise InvalidInput(f"every is at least {LEAST} and at most {LONGEST}, not {every}")
    if start is None:
        return When(now + every, every)
    _require_zone(start, "start")
    behind = now - start
    if behind > timedelta():
        return When(now + (-behind % every), every)
    return When(_instant(start, "start", now), every)


def _require_zone(instant: object, what: str) -> None:
    if not isinstance(instant, datetime):
        raise InvalidInput(f"{what} is a datetime, not {type(instant).__name__}")
    if instant.utcoffset() is None:
        raise InvalidInput(
            f"{what} has no timezone, so it is no instant: give it one, such as "
            "datetime(2027, 1, 5, 9, tzinfo=ZoneInfo('Europe/Berlin'))"
        )


def _instant(instant: datetime, what: str, now: datetime) -> datetime:
    """The instant in UTC, not before now."""
    _require_zone(instant, what)
    if instant - now > LONGEST:
        raise InvalidInput(f"{what} is more than {LONGEST.days} days away")
    return now if instant < now else instant.astimezone(UTC)


def pause_end(until: datetime | None, seconds: float | None, now: datetime) -> datetime | None:
    """Until when timers are held; None until they are resumed.

    Raises:
        InvalidInput: both are given, an instant has no timezone or has passed, or it is out of
            bounds.
    """
    if until is not None and seconds is not None:
        raise InvalidInput("give until=… or seconds=…, not both")
    if seconds is not None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise InvalidInput(f"seconds is a number, not {type(seconds).__name__}")
        if not 0 < seconds <= LONGEST.total_seconds():
            raise InvalidInput(f"seconds is above 0 and at most {LONGEST.total_seconds():.0f}")
        return now + timedelta(seconds=seconds)
    if until is None:
        return None
    end = _instant(until, "until", now)
    if end <= now:
        raise InvalidInput("until has passed: give an instant that is still to come")
    return end


def keep(
    tx: Transaction,
    agent_id: str,
    conversation_id: str,
    text: str,
    at: When,
    *,
    label: Label,
    step_id: str | None,
    now: datetime,
) -> ScheduleRow:
    """Stores a timer: the one door for tools and the API.

    Raises:
        InvalidInput: what it says is empty or too long, or the agent has too many.
    """
    checked_text(text, "what the timer says")
    if len(text) > LONGEST_NOTE:
        raise InvalidInput(
            f"what a timer says has at most {LONGEST_NOTE} characters, not {len(text)}"
        )
    if rows.count(tx, agent_id) >= MOST:
        raise InvalidInput(f"an agent has at most {MOST} timers: cancel one first")
    return rows.add(
        tx,
        agent_id=agent_id,
        conversation_id=conversation_id,
        text=text,
        due=at.due,
        every=None if at.every is None else at.every.total_seconds(),
        label=label,
        step_id=step_id,
        now=now,
    )


def ring(row: ScheduleRow, now: datetime) -> tuple[Ring, datetime | None]:
    """What a timer that is due stands for, and when it rings next; None for never."""
    if row.every is None:
        return Ring(row.id, row.due), None
    every = timedelta(seconds=row.every)
    missed = (now - row.due) // every
    return Ring(row.id, row.due, row.every, missed), row.due + (missed + 1) * every


@dataclass(frozen=True)
class SetTimer(Immediate):
    """`set_timer`: the agent has itself woken later."""

    note: str
    at: str | None
    in_minutes: int | None
    every_minutes: int | None
    here: bool

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Rings in `main`, or in the conversation of this turn."""
        at = self._when(acting)
        conversation_id = acting.conversation_id
        if not self.here:
            main = conversation_rows.by_name(tx, acting.agent_id, MAIN)
            assert main is not None, "every agent has the conversation main"
            conversation_id = main.id
        row = keep(
            tx,
            acting.agent_id,
            conversation_id,
            self.note,
            at,
            label=acting.label,
            step_id=acting.step_id,
            now=acting.now,
        )
        return Told("results/timer_set", {"timer": shown(row, acting.timezone)}, stirs=True)

    def _when(self, acting: Acting) -> When:
        if self.at is not None and self.in_minutes is not None:
            raise InvalidInput("Give at or in_minutes, not both.")
        repeats = self.every_minutes
        every = None if repeats is None else _minutes(repeats, "every_minutes")
        if self.at is not None:
            first = _read(self.at, acting)
        elif self.in_minutes is not None:
            first = acting.now + _minutes(self.in_minutes, "in_minutes")
        elif every is not None:
            first = acting.now + every
        else:
            raise InvalidInput("Say when: give at, in_minutes or every_minutes.")
        return When(_instant(first, "at", acting.now), every)


def _minutes(number: int, what: str) -> timedelta:
    if not 1 <= number <= LONGEST // timedelta(minutes=1):
        raise InvalidInput(f"{what} is at least 1, and at most ten years.")
    return timedelta(minutes=number)


def _read(text: str, acting: Acting) -> datetime:
    """An instant as a model writes it: local to the agent, unless it says otherwise."""
    try:
        written = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidInput(
            f"at must be written as YYYY-MM-DD HH:MM, in local time, not {text[:40]!r}."
        ) from error
    if written.tzinfo is None:
        written = written.replace(tzinfo=zone(acting.timezone))
    if written <= acting.now:
        raise InvalidInput(
            f"at has passed: it is now {local_stamp(acting.now, acting.timezone)}. Give a time to "
            "come, or in_minutes."
        )
    return written


@dataclass(frozen=True)
class ListTimers(Immediate):
    """`list_timers`: what the agent will be woken for."""

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """All of them, the next first, also those its owner has set."""
        found = rows.of_agent(tx, acting.agent_id)
        return Told("results/timers", {"timers": [shown(row, acting.timezone) for row in found]})


@dataclass(frozen=True)
class CancelTimer(Immediate):
    """`cancel_timer`: a timer rings no more."""

    timer: str

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Only one of the agent's own."""
        if not rows.remove(tx, acting.agent_id, self.timer.strip()):
            raise NotFound(
                f"You have no timer {self.timer[:80]!r}; list_timers shows those you have."
            )
        return Told("results/timer_cancelled", {"id": self.timer.strip()}, stirs=True)


@dataclass(frozen=True)
class PauseTimers(Immediate):
    """`pause_heartbeats`: no timer wakes the agent for some time."""

    minutes: int

    def apply(self, tx: Transaction, acting: Acting) -> Told:
        """Zero lets them go on at once."""
        if self.minutes == 0:
            rows.resume(tx, acting.agent_id)
            return Told("results/timers_paused", {"until": None}, stirs=True)
        length = _minutes(self.minutes, "minutes")
        if length > LONGEST_PAUSE:
            raise InvalidInput(
                f"minutes is at most {LONGEST_PAUSE // timedelta(minutes=1)}: pause again later."
            )
        until = acting.now + length
        rows.pause(tx, acting.agent_id, until)
        stamp = local_stamp(until, acting.timezone)
        return Told("results/timers_paused", {"until": stamp}, stirs=True)


def shown(row: ScheduleRow, timezone: str) -> dict[str, object]:
    """A timer as templates show it."""
    return {
        "id": row.id,
        "note": row.text,
        "due": local_stamp(row.due, timezone),
        "every_seconds": row.every,
        "by": "owner" if row.label == "owner" else "agent",
    }
