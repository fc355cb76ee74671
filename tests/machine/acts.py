"""What an agent does in a scripted turn, drawn at random, and how its model says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.machine.plain import PlainAgent

from pagedaemon.llm.protocol import Reply
from pagedaemon.testing import both, call, say, text

WORDS = ("tea", "te", "a", "a\nb", "b", "", " ", "long " * 18)
LABELS = ("team", "team", "own", "plan", "nowhere")
"""`own` stands for the agent's name: that of the block it has for itself."""

LETTER = "How are things?"
"""What an agent writes to another."""


@dataclass(frozen=True)
class Act:
    """One call, before it is known what the agent calls it."""

    tool: str
    label: str = ""
    one: str = ""
    other: str = ""
    number: int = 0


_LABEL, _WORD, _LINE = st.sampled_from(LABELS), st.sampled_from(WORDS), st.integers(-2, 4)

ACTS = st.one_of(
    st.builds(Act, st.just("append"), _LABEL, _WORD),
    st.builds(Act, st.just("insert"), _LABEL, _WORD, number=_LINE),
    st.builds(Act, st.just("replace"), _LABEL, _WORD, _WORD),
    st.builds(Act, st.just("rethink"), _LABEL, _WORD),
    st.builds(Act, st.just("page_out"), number=st.integers(0, 12)),
    st.builds(Act, st.sampled_from(("ring", "mail")), one=st.sampled_from(("bob", "nobody"))),
    st.builds(Act, st.just("set_timer"), number=st.integers(1, 3)),
    st.builds(
        Act,
        st.just("write"),
        one=st.sampled_from(("ada", "bob", "cyd", "nobody")),
        other=st.sampled_from(("", "answer")),
    ),
    st.just(Act("fly")),
)


@dataclass(frozen=True)
class Step:
    """Calls of one reply, and what happens between the request and the end of the step."""

    acts: tuple[Act, ...]
    heartbeat: bool
    meanwhile: str | None
    """A line that somebody adds to the block `team` by hand."""


STEPS = st.builds(
    Step,
    st.lists(ACTS, min_size=1, max_size=6).map(tuple),
    st.booleans(),
    st.sampled_from((None, None, "meanwhile")),
)


def calls(agent: PlainAgent, step: Step, last: int) -> Reply:
    """The step as the agent's model says it.

    Args:
        last: the number of the newest message of the conversation.
    """
    return both(*(_call(agent, act, last, step.heartbeat) for act in step.acts))


def _call(agent: PlainAgent, act: Act, last: int, heartbeat: bool) -> Reply:
    label = agent.name if act.label == "own" else act.label
    tool = tool_name(agent, act)
    given: dict[str, dict[str, Any]] = {
        "core_memory_append": {"label": label, "content": act.one},
        "core_memory_replace": {
            "label": label,
            "old_content": act.one,
            "new_content": act.other,
        },
        "memory_insert": {"label": label, "new_str": act.one, "insert_line": line_of(act)},
        "memory_replace": {"label": label, "old_str": act.one, "new_str": act.other},
        "memory_rethink": {"label": label, "new_memory": act.one},
        "page_out": {"through": last - act.number, "note": "note"},
        "ring": {"to": act.one},
        "mail": {"to": act.one},
        "set_timer": {"note": "by itself", "in_minutes": act.number, "here": True},
        "send_message_to_agent": {
            "name": act.one,
            "message": LETTER,
            "answer": bool(act.other),
        },
        "fly": {},
    }
    if agent.native:
        return call(tool, **given[tool])
    return call(tool, heartbeat=heartbeat, **given[tool])


def line_of(act: Act) -> int:
    """Where an agent of the set `edit` adds a line: at the end, unless it says otherwise."""
    return act.number if act.tool == "insert" else -1


def tool_name(agent: PlainAgent, act: Act) -> str:
    """What the agent calls it. One that its set has no word for gets that of the other set."""
    if act.tool == "append":
        return "memory_insert" if agent.edits else "core_memory_append"
    if act.tool == "replace":
        return "memory_replace" if agent.edits else "core_memory_replace"
    names = {
        "insert": "memory_insert",
        "rethink": "memory_rethink",
        "write": "send_message_to_agent",
    }
    return names.get(act.tool, act.tool)


def word(agent: PlainAgent, words: str) -> Reply:
    """A word to the user, in the agent's style."""
    return text(words) if agent.native else say(words)
