"""The conversation at a terminal: what is shown of a turn, and what a person can ask for."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from pagedaemon import Block, Model, Runtime
from pagedaemon.cli.chat import Chat
from pagedaemon.cli.screen import Screen
from pagedaemon.cli.undo import newest_edit, standing
from pagedaemon.errors import ModelUnavailable
from pagedaemon.events import PagedOut, StepReset
from pagedaemon.sync.handles import Agent
from pagedaemon.testing import ScriptedModel, both, call, say, text

Talk = Callable[..., str]


@pytest.fixture
def model() -> ScriptedModel:
    """Its script is what a test adds."""
    return ScriptedModel([])


@pytest.fixture
def agent(folder: Path, model: ScriptedModel) -> Iterator[Agent]:
    """An agent that the script speaks for."""
    with Runtime(
        folder / "memory", model="script", models={"script": model}, embedder=None
    ) as runtime:
        yield runtime.agents.ensure("ada", blocks=[Block.human("Name: unknown")])


@pytest.fixture
def talk(agent: Agent) -> Talk:
    """Says some lines and then leaves; what was on the screen."""

    def talk(*lines: str | type[BaseException], terminal: bool = False) -> str:
        said = iter([*lines, EOFError])

        def read(prompt: str) -> str:
            line = next(said)
            if isinstance(line, str):
                return line
            raise line

        shown = io.StringIO()
        console = Console(file=shown, width=100, force_terminal=terminal, highlight=False)
        Chat(agent, Screen(console), read).run()
        assert next(said, None) is None, "left before all was said"
        return shown.getvalue()

    return talk


def test_a_turn_is_shown_as_it_happens(talk: Talk, model: ScriptedModel) -> None:
    model.add(
        call(
            "core_memory_replace",
            label="human",
            old_content="unknown",
            new_content="Lin",
            thoughts="A name: keep it.",
            heartbeat=True,
        ),
        say("Hello Lin."),
    )
    assert talk("I am Lin").splitlines() == [
        "A name: keep it.",
        "core_memory_replace(label='human', old_content='unknown', new_content='Lin')",
        "memory: human, version 2",
        "  - Name: unknown",
        "  + Name: Lin",
        "heartbeat (requested)",
        "Hello Lin.",
    ]


def test_thoughts_are_dim_and_replies_are_not(talk: Talk, model: ScriptedModel) -> None:
    model.add(say("Hello.", thoughts="Greet."))
    shown = talk("hi", terminal=True)
    thoughts, _, reply = shown.rpartition("\x1b[0m")
    assert "\x1b[2;3m" in thoughts  # dim, italic
    assert reply == "\nHello.\n"


def test_a_failed_call_is_shown_with_its_reason(talk: Talk, model: ScriptedModel) -> None:
    model.add(call("nonsense", heartbeat=False), say("Sorry."))
    shown = talk("go")
    assert "nonsense()\n  failed: " in shown
    assert "heartbeat (failed)" in shown


def test_a_turn_without_a_reply_says_so(talk: Talk, model: ScriptedModel, agent: Agent) -> None:
    agent.update(heartbeats="strict")
    model.add(call("core_memory_append", label="human", content="x", heartbeat=False))
    assert talk("go").splitlines()[-1] == "(no reply)"


def test_a_plain_text_reply_is_shown_once(talk: Talk, model: ScriptedModel) -> None:
    model.add(text("Plain."))
    assert talk("hi") == "Plain.\n"


def test_square_brackets_are_text_and_escapes_do_nothing(talk: Talk, model: ScriptedModel) -> None:
    model.add(say("[red]see[/red] \x1b[2J"))
    assert talk("hi") == "[red]see[/red] \ufffd[2J\n"


def test_a_model_error_is_told_and_the_conversation_goes_on(
    talk: Talk, model: ScriptedModel, agent: Agent
) -> None:
    agent.update(model=Model("script", retries=0))
    model.add(ModelUnavailable("no line"), say("Back again."))
    shown = talk("hi", "/retry").splitlines()
    assert any("no line" in line for line in shown)
    assert shown[-1] == "Back again."
    assert agent.recall.search("hi").total == 2  # sent again, and so said twice


def test_paging_and_asking_again_are_shown() -> None:
    shown = io.StringIO()
    screen = Screen(Console(file=shown, width=200))
    screen.hear(StepReset("turn", 1, "connection lost"))
    screen.hear(PagedOut("turn", 12, 7_200, 3_900, "runtime", "digest"))
    assert shown.getvalue().splitlines() == [
        "asked again: connection lost",
        "paged out 12 messages: 7,200 -> 3,900 tokens (by the runtime; summary: digest)",
    ]


class TestCommands:
    """What begins with a slash."""

    def test_nothing_said_and_unknown_words_change_nothing(self, talk: Talk) -> None:
        assert talk("", "  ", "/nonsense") == "there is no /nonsense: /help lists what there is\n"

    def test_help_lists_every_command(self, talk: Talk) -> None:
        shown = talk("/help").splitlines()
        assert [line.split()[0] for line in shown] == [
            "/context",
            "/memory",
            "/search",
            "/pressure",
            "/heartbeat",
            "/approve",
            "/deny",
            "/retry",
            "/pop",
            "/reset",
            "/help",
            "/quit",
        ]
        assert all(len(line.split()) > 2 for line in shown)

    def test_context_shows_sections_and_the_text_of_one(self, talk: Talk, agent: Agent) -> None:
        shown = talk("/context")
        report = agent.context()
        assert [line.split("\t")[0] for line in shown.splitlines()[1:-2]] == [
            part.name for part in report.parts
        ]
        assert f"together\t{report.tokens:,}" in shown
        [blocks] = [part.name for part in report.parts if "Name: unknown" in part.text]
        assert "Name: unknown" in talk(f"/context {blocks}")
        assert "there is no section nowhere" in talk("/context nowhere")

    def test_memory_shows_core_memory(self, talk: Talk) -> None:
        assert talk("/memory").splitlines() == ["human  13/4000", "  Name: unknown"]
        assert "/memory undo" in talk("/memory wipe")

    def test_memory_undo_takes_back_edits_one_by_one(
        self, talk: Talk, model: ScriptedModel, agent: Agent
    ) -> None:
        model.add(
            both(
                call("core_memory_append", label="human", content="one", heartbeat=False),
                call("core_memory_append", label="human", content="two", heartbeat=False),
                say("kept"),
            )
        )
        agent.send("go")
        first, second, third = "/memory undo", "/memory undo", "/memory undo"
        shown = talk(first, second, third).splitlines()
        assert shown == [
            "memory: human, taken back",
            "  - two",
            "memory: human, taken back",
            "  - one",
            "there is no edit of this agent to take back",
        ]
        assert agent.blocks["human"].value == "Name: unknown"

    def test_undo_leaves_what_others_wrote(self, model: ScriptedModel, agent: Agent) -> None:
        model.add(
            both(
                call("core_memory_append", label="human", content="one", heartbeat=False),
                say("kept"),
            )
        )
        agent.send("go")
        assert newest_edit(agent) is not None
        agent.blocks["human"].append("by the owner")
        assert newest_edit(agent) is None

    def test_a_restored_version_takes_back_what_came_between(self, agent: Agent) -> None:
        block = agent.blocks["human"]
        block.append("a").append("b").restore(2).append("c")
        assert [version.version for version in standing(block.history())] == [1, 2, 5]

    def test_search_looks_in_recall_and_archive(
        self, talk: Talk, model: ScriptedModel, agent: Agent
    ) -> None:
        model.add(say("Noted."))
        agent.send("I like green tea")
        agent.archive.insert("Lin drinks tea at four")
        shown = talk("/search tea").splitlines()
        assert shown[0] == "recall: 1"
        assert shown[1].endswith("user: I like green tea")
        assert shown[2] == "archive: 1"
        assert shown[3].endswith("semantic: Lin drinks tea at four")

    def test_pressure_shows_how_full_the_window_is(self, talk: Talk, agent: Agent) -> None:
        report = agent.context()
        shown = talk("/pressure")
        assert f"{report.tokens / report.budget:.0%} of {report.budget:,} tokens" in shown
        assert "warned at 70%" in shown

    def test_retry_sends_the_last_message_again(self, talk: Talk, model: ScriptedModel) -> None:
        model.add(say("first"), say("second"))
        assert talk("/retry", "hi", "/retry").splitlines() == [
            "there is nothing to send again yet",
            "first",
            "second",
        ]

    def test_heartbeat_wakes_the_agent_without_a_message(
        self, talk: Talk, model: ScriptedModel
    ) -> None:
        model.add(
            call("core_memory_append", label="human", content="Likes tea.", heartbeat=False),
            say("first"),
            say("again"),
        )
        shown = talk("/heartbeat", "hi", "/retry").splitlines()
        assert "  + Likes tea." in shown
        assert "(no reply)" in shown
        assert shown[-2:] == ["first", "again"]  # what is sent again is what a person said

    def test_pop_takes_the_last_exchange_out_and_keeps_the_rest(
        self, talk: Talk, model: ScriptedModel, agent: Agent
    ) -> None:
        model.add(say("first"), say("second"))
        agent.send("one")
        agent.send("two")
        window = agent.conversations.get().messages
        before = window()
        shown = talk("/pop", "/pop", "/pop").splitlines()
        assert shown == [
            f"{len(before) // 2} messages left the window, all since 'two'; memory stays",
            f"{len(before) // 2} messages left the window, all since 'one'; memory stays",
            "there is no exchange in the window",
        ]
        assert window() == []
        assert agent.recall.search("two").total == 1

    def test_pop_of_a_heartbeat_says_so(
        self, talk: Talk, model: ScriptedModel, agent: Agent
    ) -> None:
        model.add(say("awake"))
        shown = talk("/heartbeat", "/pop").splitlines()
        assert shown[-1].endswith(
            "messages left the window, all since the last heartbeat; memory stays"
        )
        assert agent.conversations.get().messages() == []

    def test_what_was_popped_can_be_sent_again(
        self, talk: Talk, model: ScriptedModel, agent: Agent
    ) -> None:
        model.add(say("first"), say("second"), say("third"))
        agent.send("one")
        agent.send("two")
        assert talk("/pop", "/pop", "/retry").splitlines()[-1] == "third"
        told = [m.text for m in agent.conversations.get().messages() if m.kind == "message"]
        assert told == ["one"]

    def test_reset_empties_the_window_and_keeps_memory(
        self, talk: Talk, model: ScriptedModel, agent: Agent
    ) -> None:
        model.add(say("hello"))
        agent.send("hi")
        assert "left the window; memory stays" in talk("/reset")
        assert agent.conversations.get().messages() == []
        assert agent.blocks["human"].value == "Name: unknown"

    def test_quit_leaves(self, agent: Agent) -> None:
        lines = iter(["/quit"])
        Chat(agent, Screen(Console(file=io.StringIO())), lambda _: next(lines)).run()
        assert next(lines, None) is None


class TestLeaving:
    """Ctrl-C and Ctrl-D at the prompt."""

    def test_one_interrupt_is_forgiven(self, talk: Talk, model: ScriptedModel) -> None:
        model.add(say("hello"))
        shown = talk(KeyboardInterrupt, "hi", KeyboardInterrupt)
        assert shown.count("Ctrl-C again") == 2
        assert "hello" in shown

    def test_a_second_one_leaves(self, agent: Agent) -> None:
        pressed: list[str] = []

        def read(prompt: str) -> str:
            pressed.append(prompt)
            raise KeyboardInterrupt

        Chat(agent, Screen(Console(file=io.StringIO())), read).run()
        assert len(pressed) == 2
