"""The compiled system prompt: base instructions, tool rules, core memory; what changes least comes
first."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pagedaemon.agent import AgentRecord
from pagedaemon.events import ContextPart
from pagedaemon.llm.protocol import WireMessage
from pagedaemon.memory.blocks import closing_mark
from pagedaemon.messages import WITHHELD, Message
from pagedaemon.resources import Prompts
from pagedaemon.store.blocks import BlockRow


class SystemPrompt:
    """The system prompt of one agent with its blocks as they were read.

    Attributes:
        text: as sent.
        parts: its sections, by name, for people.
        wire: the message it is sent as.
    """

    def __init__(self, prompts: Prompts, agent: AgentRecord, blocks: Sequence[BlockRow]) -> None:
        settings = agent.settings
        instructions = settings.instructions or prompts.render(
            f"system/{settings.style.name}",
            agent_name=agent.name,
            tool_set=settings.tool_set,
            heartbeats=settings.heartbeats,
        )
        rules = prompts.render(
            "system/rules", rules=[rule.model_dump(mode="json") for rule in settings.rules]
        )
        core = prompts.render(
            "system/blocks",
            blocks=[
                {
                    "id": block.id,
                    "label": block.label,
                    "description": block.description,
                    "value": block.value,
                    "limit": block.limit,
                    "size": len(block.value),
                    "read_only": block.read_only,
                    "mark": closing_mark(block.id),
                }
                for block in blocks
            ],
        )
        named = (("instructions", instructions), ("rules", rules), ("core memory", core))
        self.parts = tuple(ContextPart(name, 0, text) for name, text in named if text)
        self.text = "\n\n".join(part.text for part in self.parts)
        self.wire: WireMessage = {"role": "system", "content": self.text}


def context_hash(system: str, tools_hash: str, queue: Sequence[Message]) -> str:
    """Names the request a step was made from: its system prompt, its tools, its messages by id, and
    which of them were shown without their pictures."""
    named = (system, tools_hash, *map(_name, queue))
    return hashlib.sha256("\0".join(named).encode()).hexdigest()


def _name(message: Message) -> str:
    return f"{message.id} {WITHHELD}" if message.is_withheld else message.id


def status_line(
    prompts: Prompts,
    *,
    number: int,
    author: str | None,
    time: str,
    recall_count: int,
    archival_count: int,
    blocks: Sequence[BlockRow],
    percent: int,
) -> str:
    """The volatile line under a user's message: written once and kept with it, outside the
    prefix."""
    return prompts.render(
        "events/status",
        number=number,
        author=author,
        time=time,
        recall_count=recall_count,
        archival_count=archival_count,
        blocks=[(block.label, len(block.value), block.limit) for block in blocks],
        percent=percent,
    )


def pressure_alert(
    prompts: Prompts, agent: AgentRecord, queue: Sequence[Message], percent: int, instant: str
) -> str:
    """The alert that the window is filling up, told once per window."""
    numbers = [message.seq for message in queue if message.kind != "summary"]
    return prompts.render(
        "events/pressure",
        percent=percent,
        evict_percent=round(agent.settings.paging.evict * 100),
        messages=len(numbers),
        oldest=min(numbers, default=0),
        newest=max(numbers, default=0),
        time=instant,
    )
