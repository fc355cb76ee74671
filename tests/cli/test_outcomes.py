"""Calls whose outcome is unknown, at the command line: listed and settled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

Run = Callable[..., Result]

CHARGING = """
import threading

@tool(timeout=0.05)
def charge(order: int) -> str:
    "Charges an order to the card."
    threading.Event().wait(1)
    return "charged"

def told(request):
    if '"reason": "outcome"' in str(request.messages):
        return say("Good to know.")
    return say("Nobody knows.") if "charge" in view(request).results else call("charge", order=41)

def till():
    runtime = Runtime("memory", model="m", models={"m": ScriptedModel(told)}, tools=[charge])
    runtime.agents.ensure("ada", tools=[charge])
    return runtime
"""


@pytest.fixture
def unknown(write_app: Callable[..., None], run: Run) -> str:
    """The id of a call of which nobody knows whether it took effect."""
    write_app("my_cashier", CHARGING)
    done = run("chat", "--app", "my_cashier:till", "--agent", "ada", input="Charge order 41.\n")
    assert done.exit_code == 0, done.stderr
    ((call, *_),) = listed(run)
    return call


def listed(run: Run, *options: str) -> list[list[str]]:
    """The cells of the list, without its head."""
    shown = run("outcomes", "list", *options)
    assert shown.exit_code == 0, shown.stderr
    return [line.split("\t") for line in shown.stdout.splitlines()[1:]]


def test_what_may_have_happened_is_listed_with_its_agent(run: Run, unknown: str) -> None:
    ((call, agent, state, begun, what),) = listed(run)
    assert (call, agent, state, what) == (unknown, "ada", "unknown", 'charge {"order": 41}')
    assert begun


def test_with_the_code_the_agent_is_told_at_once(run: Run, unknown: str) -> None:
    done = run("outcomes", "settle", "--app", "my_cashier:till", "--happened", unknown)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == ['happened: charge {"order": 41}', "Good to know."]
    assert listed(run) == []
    assert [row[2] for row in listed(run, "--all")] == ["happened"]


def test_without_it_is_left_for_who_has_it(run: Run, unknown: str) -> None:
    done = run("outcomes", "settle", "--never", "--by", "Lin", unknown)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == 'never happened: charge {"order": 41}\n'
    assert "next process" in done.stderr


def test_it_must_be_said_what_happened(run: Run, unknown: str) -> None:
    done = run("outcomes", "settle", unknown)
    assert done.exit_code == 2
    assert len(listed(run)) == 1


def test_what_is_not_there_is_an_error_in_one_line(run: Run, unknown: str) -> None:
    done = run("outcomes", "settle", "--never", "call-1")
    assert done.exit_code == 1
    assert "outcomes.list() shows" in done.stderr
