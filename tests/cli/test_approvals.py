"""Calls that wait for a person, at the command line: listed, approved and denied."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console

from pagedaemon import Runtime, tool
from pagedaemon.cli.chat import Chat
from pagedaemon.cli.screen import Screen
from pagedaemon.sync.handles import Agent
from pagedaemon.testing import ScriptedModel, both, call, say
from pagedaemon.tools.tool import Tool

Run = Callable[..., Result]
Talk = Callable[..., str]

MAILING = """
sent = []

@tool(approval="always")
def mail(to: str) -> str:
    "Sends a mail."
    sent.append(to)
    return f"sent to {to}"

def told(request):
    return say("Good to know.") if '"approval"' in str(request.messages) else call("mail", to="bob")

def office():
    runtime = Runtime("memory", model="m", models={"m": ScriptedModel(told)}, tools=[mail])
    runtime.agents.ensure("ada", tools=[mail])
    return runtime
"""


@pytest.fixture
def sent() -> list[str]:
    """What was mailed."""
    return []


@pytest.fixture
def mail(sent: list[str]) -> Tool:
    """A tool that always waits."""

    @tool(approval="always")
    def mail(to: str) -> str:
        """Sends a mail."""
        sent.append(to)
        return f"sent to {to}"

    return mail


@pytest.fixture
def model() -> ScriptedModel:
    """Its script is what a test adds."""
    return ScriptedModel([])


@pytest.fixture
def agent(folder: Path, model: ScriptedModel, mail: Tool) -> Iterator[Agent]:
    """An agent that the script speaks for."""
    with Runtime(
        folder / "memory", model="script", models={"script": model}, embedder=None
    ) as runtime:
        yield runtime.agents.ensure("ada", tools=[mail])


@pytest.fixture
def talk(agent: Agent) -> Talk:
    """Says some lines and then leaves; what was on the screen."""

    def talk(*lines: str) -> str:
        said = iter(lines)

        def read(prompt: str) -> str:
            line = next(said, None)
            if line is None:
                raise EOFError
            return line

        shown = io.StringIO()
        Chat(agent, Screen(Console(file=shown, width=200, highlight=False)), read).run()
        return shown.getvalue()

    return talk


class TestCommands:
    """`pagedaemon approvals`."""

    @pytest.fixture(autouse=True)
    def waiting(self, write_app: Callable[..., None], run: Run) -> str:
        """The id of a call that waits."""
        write_app("my_office", MAILING)
        (row,) = self.made_to_wait(run)
        return row[0]

    def made_to_wait(self, run: Run) -> list[list[str]]:
        """What waits once an agent was told to mail."""
        done = run("chat", "--app", "my_office:office", "--agent", "ada", input="Mail bob.\n")
        assert done.exit_code == 0, done.stderr
        return self.listed(run)

    def listed(self, run: Run, *options: str) -> list[list[str]]:
        """The cells of the list, without its head."""
        shown = run("approvals", "list", *options)
        assert shown.exit_code == 0, shown.stderr
        return [line.split("\t") for line in shown.stdout.splitlines()[1:]]

    def test_what_waits_is_listed_with_its_agent_and_its_call(self, run: Run, waiting: str) -> None:
        ((name, agent, status, _, what),) = self.listed(run)
        assert (name, agent, status, what) == (waiting, "ada", "pending", 'mail {"to": "bob"}')

    def test_with_the_code_it_is_run_at_once_and_what_the_agent_says_is_shown(
        self, run: Run, waiting: str
    ) -> None:
        done = run("approvals", "approve", "--app", "my_office:office", "--by", "Lin", waiting)
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines() == ['approved: mail {"to": "bob"}', "Good to know."]
        assert self.listed(run) == []
        assert [row[2] for row in self.listed(run, "--all")] == ["used"]
        again = run("approvals", "deny", waiting)
        assert again.exit_code == 1
        assert "is used already" in again.stderr

    def test_without_the_code_it_is_left_for_who_has_it(self, run: Run, waiting: str) -> None:
        done = run("approvals", "approve", waiting)
        assert done.exit_code == 0, done.stderr
        assert "next process" in done.stderr
        assert [row[2] for row in self.listed(run, "--all")] == ["approved"]

    def test_a_denial_is_told_with_its_reason(self, run: Run, waiting: str) -> None:
        done = run("approvals", "deny", "--app", "my_office:office", "--reason", "No.", waiting)
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines() == ['denied: mail {"to": "bob"}', "Good to know."]

    def test_what_is_not_there_is_an_error_in_one_line(self, run: Run) -> None:
        done = run("approvals", "approve", "approval-1")
        assert done.exit_code == 1
        assert "approvals.list() shows" in done.stderr


class TestChat:
    """In a conversation at the terminal."""

    def test_what_waits_is_said_and_can_be_approved_on_the_spot(
        self, talk: Talk, model: ScriptedModel, sent: list[str]
    ) -> None:
        model.add(call("mail", to="bob"), say("It was sent."))
        shown = talk("Mail bob.", "/approve").splitlines()
        assert sent == ["bob"]
        assert any(line.endswith('waits: mail {"to": "bob"}; /approve or /deny') for line in shown)
        assert shown[-1] == "It was sent."

    def test_it_can_be_denied_with_a_reason(
        self, talk: Talk, model: ScriptedModel, agent: Agent, sent: list[str]
    ) -> None:
        model.add(call("mail", to="bob"), say("Then not."))
        assert talk("Mail bob.", "/deny Not to bob.").splitlines()[-1] == "Then not."
        (one,) = agent.approvals.list("denied")
        assert (one.reason, sent) == ("Not to bob.", [])

    def test_of_several_one_is_named(
        self, talk: Talk, model: ScriptedModel, agent: Agent, sent: list[str]
    ) -> None:
        model.add(both(call("mail", to="bob"), call("mail", to="mai")), say("Done."))
        assert talk("/approve").splitlines() == ["nothing waits for approval"]
        assert talk("Mail both.", "/deny").splitlines()[-1] == "name one of those that wait"
        _, second = agent.approvals.list()
        assert "Done." in talk(f"/approve {second.id}").splitlines()
        assert sent == ["mai"]
        assert "there is no approval x" in talk("/approve x")
