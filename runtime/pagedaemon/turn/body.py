"""What an agent acts with in a turn: its model, its tools, and the eyes that weigh and render its
window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pagedaemon.agent import AgentRecord
from pagedaemon.config import Model
from pagedaemon.context.prompt import SystemPrompt, context_hash
from pagedaemon.context.render import Renderer
from pagedaemon.context.window import Gauge, Load
from pagedaemon.events import ContextPart
from pagedaemon.llm.protocol import ChatModel, Request, WireMessage, WireTool
from pagedaemon.memory.effects import Nearby
from pagedaemon.memory.recall import pages_of
from pagedaemon.messages import Message
from pagedaemon.resources import Prompts
from pagedaemon.store.blocks import BlockRow
from pagedaemon.tools.toolbox import Toolbox


@dataclass(frozen=True)
class Compiled:
    """One request, what it weighs, and what it was made from."""

    request: Request
    load: Load
    system: SystemPrompt
    tools: tuple[str, ...]
    """Names."""
    queue: tuple[Message, ...]

    @property
    def parts(self) -> tuple[ContextPart, ...]:
        """The sections of the system prompt."""
        return self.system.parts

    @cached_property
    def hash(self) -> str:
        """Names what the request was made from."""
        return context_hash(self.system.text, ",".join(self.tools), self.queue)


@dataclass
class Body:
    """An agent in action.

    Attributes:
        agent: its record.
        model: its model's settings.
        chat: the model itself.
        toolbox: all its tools, built-in ones first.
        gauge: weighs its requests.
        renderer: renders its messages.
        meaning: finds by meaning; None: its searches are by words alone.
    """

    agent: AgentRecord
    model: Model
    chat: ChatModel
    toolbox: Toolbox
    prompts: Prompts
    gauge: Gauge
    renderer: Renderer
    meaning: Nearby | None = None
    _system: tuple[tuple[BlockRow, ...], SystemPrompt] | None = field(default=None, init=False)

    def system(self, blocks: Sequence[BlockRow]) -> SystemPrompt:
        """The system prompt with these blocks; compiled again only when one of them changed."""
        seen = tuple(blocks)
        if self._system is None or self._system[0] != seen:
            self._system = (seen, SystemPrompt(self.prompts, self.agent, seen))
        return self._system[1]

    @property
    def tools(self) -> tuple[WireTool, ...]:
        """The tools as they go over the wire: constant."""
        return self.toolbox.wire(self.agent.settings.style)

    def compile(self, blocks: Sequence[BlockRow], queue: Sequence[Message]) -> Compiled:
        """The request for this state of the store: a pure function of it."""
        system = self.system(blocks)
        messages: tuple[WireMessage, ...] = (system.wire, *self.renderer.queue(queue))
        return Compiled(
            Request(messages, self.tools, self.model.max_output_tokens),
            self.gauge.load(messages, self.tools),
            system,
            self.toolbox.names,
            tuple(queue),
        )

    def weigh(self, blocks: Sequence[BlockRow], queue: Sequence[Message]) -> Load:
        """What the request would weigh."""
        return self.gauge.load((self.system(blocks).wire, *self.renderer.queue(queue)), self.tools)

    def size(self, message: Message) -> int:
        """Tokens of one message as it is rendered."""
        wire = self.renderer.message(message)
        return 0 if wire is None else self.gauge.message(wire)

    def digest(
        self,
        text: str,
        what: str,
        ref: str,
        *,
        cap: int | None = None,
        whole: str | None = None,
        shown: int | None = None,
    ) -> str | None:
        """What is shown in place of a text too long for the window; None where it is shown whole.

        Args:
            text: the whole text.
            what: `message`, `result` or `arguments`.
            ref: how `read_page` finds it.
            cap: characters above which it is too long, whatever the window holds.
            whole: what `read_page` reads in pages, where the text is only a part of it.
            shown: characters of it that the digest shows at most; None for its share of the window.
        """
        if (cap is None or len(text) <= cap) and not self.gauge.oversize(text):
            return None
        paging = self.agent.settings.paging
        # A quarter of its share, in characters: bytes bound tokens, so this surely fits.
        most = max(100, min(paging.page_chars, int(paging.oversize * self.model.budget)) // 4)
        shown = most if shown is None else min(shown, most, len(text))
        return self.prompts.render(
            "results/digest",
            ref=ref,
            what=what,
            chars=len(text),
            pages=pages_of(text if whole is None else whole, self.page_chars),
            head=text[: shown * 3 // 4],
            tail=text[-shown // 4 :] if shown else "",
        )

    @property
    def page_chars(self) -> int:
        """Characters of one page: few enough that no script makes a page an oversize text
        itself."""
        paging = self.agent.settings.paging
        return max(200, min(paging.page_chars, int(paging.oversize * self.model.budget) // 2))


def largest_parts(
    compiled: Compiled, body: Body, blocks: Sequence[BlockRow], keep: frozenset[str]
) -> tuple[tuple[str, int], ...]:
    """What takes most room in a request, largest first: for the error that says it cannot fit.

    Args:
        keep: ids of the messages that had to stay.
    """
    gauge = body.gauge
    parts: dict[str, int] = {
        part.name: gauge.text(part.text) for part in compiled.parts if part.name != "core memory"
    }
    for block in blocks:
        parts[f"block {block.label}"] = gauge.text(block.value)
    parts["tools"] = gauge.counted((), body.tools).tokens
    for message in compiled.queue:
        what = (
            "summary"
            if message.kind == "summary"
            else "pinned messages"
            if message.pinned
            else "the open turn's message"
            if message.id in keep
            else "messages"
        )
        parts[what] = parts.get(what, 0) + body.size(message)
    return tuple(sorted(parts.items(), key=lambda part: part[1], reverse=True)[:5])
