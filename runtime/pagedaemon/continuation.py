"""Continue, yield or stop, and why: what follows a step, as one pure function.

The rules, in order:

1. cancelled, or refused by the provider: stop.
2. a call waits for approval, or a rule says that a call has ended the turn: yield.
3. the step crossed the warning line: continue, so that the agent has a step to save what matters.
4. a reply is not of the type that was asked for, and none before was: continue and say why; too
   often: stop.
5. a call failed: continue and say so; the same call failing the same way too often: stop.
6. a call asked for a heartbeat (in the native style: any call of a non-terminal tool): continue.
7. a required tool has not run yet: continue.
8. a user waits for a reply and none came: a nudge (`assisted`), again only after a step that did
   something.
9. otherwise yield.

A bound (steps, seconds, tokens, cost), or rules that leave nothing to call, stop only a turn that
would go on: one that is at its end ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pagedaemon.config import Settings
from pagedaemon.messages import HeartbeatReason, StopReason


@dataclass(frozen=True, slots=True)
class Continue:
    """Think once more; the reason becomes the next event."""

    reason: HeartbeatReason
    tools: tuple[str, ...] = ()
    """The tools it is about: those that failed, or those still required."""


@dataclass(frozen=True, slots=True)
class Yield:
    """Hand back control; the agent is done."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Stop:
    """End the turn whatever the agent wanted."""

    reason: StopReason


Outcome: TypeAlias = Continue | Yield | Stop


@dataclass(frozen=True, slots=True)
class Observed:
    """What a turn amounts to after a step, as far as the rules look at it."""

    user_waits: bool = True
    """The turn was woken by a person's message."""
    replied: bool = False
    """The user heard something in this turn, now or before."""
    terminal: bool = False
    """A terminal tool ran without failing in this step."""
    called: bool = False
    """A non-terminal tool was called in this step."""
    heartbeat_requested: bool = False
    """A call of this step asked to think again."""
    failed: tuple[str, ...] = ()
    """Tools whose call failed in this step."""
    same_failure: int = 0
    """How often the most repeated failing call has failed in this turn."""
    crossed_warning: bool = False
    """The window is over the warning line and the agent has not been told yet."""
    required_missing: tuple[str, ...] = ()
    """Required tools that have not run in this turn so far."""
    closed: bool = False
    """A tool has run that ends the turn by a rule."""
    stuck: bool = False
    """The rules leave nothing that may be called."""
    approval_pending: bool = False
    invalid_reply: bool = False
    """A reply of this step is not of the type asked for, and the turn has none that is."""
    retries: int = 0
    """How often the turn was told so before."""
    nudges: int = 0
    """Nudges given in this turn."""
    steps: int = 1
    seconds: float = 0.0
    tokens: int = 0
    cost: float = 0.0
    """US dollars."""
    cancelled: bool = False
    refused: bool = False
    """The provider refused to answer."""


def decide(observed: Observed, settings: Settings) -> Outcome:
    """What follows the step: the rules of this module's docstring, in their order."""
    if observed.cancelled:
        return Stop("cancelled")
    if observed.refused:
        return Stop("refused")
    outcome = _wanted(observed, settings)
    if isinstance(outcome, Continue):
        if observed.stuck:
            return Stop("no_tool_allowed")
        bound = _bound_met(observed, settings)
        if bound is not None:
            return Stop(bound)
    return outcome


def _wanted(observed: Observed, settings: Settings) -> Outcome:
    done = Yield("end_turn" if observed.replied or not observed.user_waits else "no_reply")
    if observed.closed and observed.invalid_reply:
        return Stop("invalid_reply")
    if observed.approval_pending or observed.closed:
        return done
    if observed.crossed_warning:
        return Continue("pressure")
    if observed.invalid_reply:
        if observed.retries >= settings.limits.reply_retries:
            return Stop("invalid_reply")
        return Continue("invalid")
    if observed.failed:
        if observed.same_failure >= settings.limits.same_failure:
            return Stop("repeated_failure")
        return Continue("failed", observed.failed)
    calls_continue = settings.style.continue_on == "call"
    if observed.heartbeat_requested or (calls_continue and observed.called):
        return Continue("requested")
    if observed.required_missing:
        return Continue("required", observed.required_missing)
    if _needs_nudge(observed, settings):
        return Continue("nudge")
    return done


def _needs_nudge(observed: Observed, settings: Settings) -> bool:
    silent = observed.user_waits and not observed.replied and not observed.terminal
    if settings.heartbeats == "strict" or not silent:
        return False
    if observed.nudges >= settings.limits.nudges:
        return False
    return observed.nudges == 0 or observed.called


def _bound_met(observed: Observed, settings: Settings) -> StopReason | None:
    limits = settings.limits
    if observed.steps >= limits.steps:
        return "max_steps"
    if observed.seconds >= limits.seconds:
        return "max_seconds"
    if limits.tokens is not None and observed.tokens >= limits.tokens:
        return "max_tokens"
    if limits.cost is not None and observed.cost >= limits.cost:
        return "max_cost"
    return None
