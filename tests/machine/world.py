"""All that is expected of a space, and what every operation should make of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.machine.acts import LETTER, Act, Step, line_of, tool_name
from tests.machine.plain import (
    PlainAgent,
    PlainApproval,
    PlainBlock,
    PlainLetter,
    PlainTimer,
    Refused,
    appended,
    inserted,
    replaced,
    rewritten,
)

EXPIRES = timedelta(minutes=5)
"""How long a call waits for its approval."""


@dataclass
class World:
    """A space in plain data."""

    now: datetime
    agents: dict[str, PlainAgent] = field(default_factory=dict)
    shared: dict[str, PlainBlock] = field(default_factory=dict)
    """By label: the blocks that stand alone."""
    approvals: dict[str, PlainApproval] = field(default_factory=dict)
    """By id. One that was asked for and whose id is not known yet stands in `asked`."""
    timers: dict[str, PlainTimer] = field(default_factory=dict)
    """By id. One that an agent has set itself stands in `set_by_agents` until its id is known."""
    asked: list[PlainApproval] = field(default_factory=list)
    set_by_agents: list[PlainTimer] = field(default_factory=list)
    letters: list[PlainLetter] = field(default_factory=list)
    """Those that wait to be read, in the order in which they were written."""
    called: list[str] = field(default_factory=list)
    """Whom the tools of the user's were run for, in order: the world outside."""
    came: Counter[str] = field(default_factory=Counter)
    """How often a timer has rung (`ring`), and the time of an approval was over (`expire`)."""

    # -------------------------------------------------------------- turns

    def said(self, agent: str, where: str, words: str) -> None:
        """A message is in its conversation, and the agent thinks."""
        self.agents[agent].conversations[where].add("message", words, wakes=True)

    def answered(self, agent: str, where: str) -> None:
        """The agent's last step: it speaks, and the turn ends."""
        self._speaks(self.agents[agent], where)
        self.agents[agent].conversations[where].end("end_turn", "ok")

    def _speaks(self, agent: PlainAgent, where: str) -> None:
        conversation = agent.conversations[where]
        if agent.native:
            conversation.add("reply", "ok")
        else:
            conversation.add("reply", "ok", "send_message")
            conversation.add("result", "send_message")

    def seen(self, agent: str) -> dict[str, int]:
        """The versions of its blocks that stand in the agent's request now."""
        return {label: block.version for label, block in self.agents[agent].blocks.items()}

    def acted(
        self, name: str, where: str, step: Step, read: dict[str, int]
    ) -> tuple[list[str], bool]:
        """A step of calls, over the versions that it has `seen`. Returns the status of each, and
        whether the agent thinks once more."""
        agent = self.agents[name]
        conversation = agent.conversations[where]
        last = len(conversation.log)
        statuses = [self._called(agent, where, act, read, last) for act in step.acts]
        tools = [tool_name(agent, act) for act in step.acts]
        conversation.add("reply", "", *tools)
        for tool in tools:
            conversation.add("result", tool)
        if "awaiting" in statuses:
            conversation.end("no_reply")
            return statuses, False
        if "failed" in statuses:
            conversation.add("heartbeat", "failed")
        elif not agent.native:
            conversation.add("heartbeat", "requested" if step.heartbeat else "nudge")
        return statuses, True

    def _called(
        self, agent: PlainAgent, where: str, act: Act, read: dict[str, int], last: int
    ) -> str:
        if act.tool == "mail":
            asked = PlainApproval(agent.name, where, act.one, self.now + EXPIRES)
            self.asked.append(asked)
            return "awaiting"
        if act.tool == "ring":
            return self._outside(act.one)
        if act.tool == "set_timer":
            due = self.now + timedelta(minutes=act.number)
            self.set_by_agents.append(PlainTimer(agent.name, where, "by itself", due, None))
            return "ok"
        if act.tool == "write":
            if act.one not in self.agents or act.one == agent.name:
                return "failed"
            self.letters.append(PlainLetter(agent.name, where, act.one, bool(act.other)))
            return "ok"
        if act.tool == "page_out":
            left = agent.conversations[where].page_out(last - act.number, "note")
            return "ok" if left else "failed"
        return "ok" if _edited(agent, act, read) else "failed"

    def _outside(self, whom: str) -> str:
        self.called.append(whom)
        return "failed" if whom == "nobody" else "ok"

    # -------------------------------------------------------------- what wakes agents by itself

    def decided(self, approval_id: str, decision: str) -> None:
        """An approval is answered, or its time is over: the agent is told in a turn of its own."""
        approval = self.approvals[approval_id]
        approval.status = "used" if decision == "approved" else decision
        conversation = self.agents[approval.agent].conversations[approval.conversation]
        conversation.add("heartbeat", "approval", wakes=True)
        if decision == "approved":
            failed = self._outside(approval.to) == "failed"
            conversation.add("heartbeat", "requested")
            if failed:
                conversation.add("heartbeat", "failed")
        self.answered(approval.agent, approval.conversation)

    def due(self) -> list[str]:
        """The timers that ring now, in the order in which they do."""
        due = [
            (timer.due, timer_id)
            for timer_id, timer in self.timers.items()
            if timer.due <= self.now and not self.agents[timer.agent].holds_timers(self.now)
        ]
        return [timer_id for _, timer_id in sorted(due)]

    def overdue(self) -> list[str]:
        """The approvals whose time is over."""
        return [
            approval_id
            for _, approval_id in sorted((one.expires, key) for key, one in self.approvals.items())
            if self.approvals[approval_id].status == "pending"
            and self.approvals[approval_id].expires <= self.now
        ]

    def time_passed(self) -> None:
        """Whatever is due by now wakes its agent, once."""
        for timer_id in self.due():
            timer = self.timers[timer_id]
            conversation = self.agents[timer.agent].conversations[timer.conversation]
            conversation.add("heartbeat", "timer", wakes=True)
            self.answered(timer.agent, timer.conversation)
            self.came["ring"] += 1
            if not timer.ring(self.now):
                del self.timers[timer_id]
        for approval_id in self.overdue():
            self.decided(approval_id, "expired")
            self.came["expire"] += 1

    def read(self, letter: PlainLetter) -> None:
        """A letter wakes whom it is to."""
        self._mailed(letter.to, "main", "mail", letter.sender, LETTER)
        self.came["letter"] += 1

    def heard(self, letter: PlainLetter) -> None:
        """The answer to a question wakes who asked, where it was asked."""
        self._mailed(letter.sender, letter.conversation, "answer", letter.to, "ok")
        self.came["answer"] += 1

    def _mailed(self, to: str, where: str, what: str, sender: str, words: str) -> None:
        text = f"[{what} from the agent {sender}]\n{words}\n[end of {what}]"
        self.said(to, where, text)
        self.answered(to, where)

    # -------------------------------------------------------------- ends

    def forget(self, agent: str, conversations: Sequence[str]) -> None:
        """What waits in conversations that are no more goes with them."""

        def stays(one: PlainApproval | PlainTimer) -> bool:
            return one.agent != agent or one.conversation not in conversations

        self.approvals = {key: one for key, one in self.approvals.items() if stays(one)}
        self.timers = {key: one for key, one in self.timers.items() if stays(one)}


def _edited(agent: PlainAgent, act: Act, read: dict[str, int]) -> bool:
    """An edit by one of the agent's own tools. Returns whether it was accepted."""
    label = agent.name if act.label == "own" else act.label
    if label not in agent.blocks or act.tool == "fly":
        return False
    if not agent.edits and act.tool in ("insert", "rethink"):
        return False
    block = agent.blocks[label]
    operation, change = act.tool, appended(act.one)
    if act.tool == "append" and agent.edits:
        operation = "insert"
    elif act.tool == "insert":
        change = inserted(act.one, line_of(act), block.at(read[label]))
    elif act.tool == "replace":
        change = replaced(act.one, act.other)
    elif act.tool == "rethink":
        operation, change = "rewrite", rewritten(act.one, read[label])
    try:
        changed = block.write(operation, "agent", change)
    except Refused:
        return False
    # What it has not seen of the block stays unseen, whatever it has added to it.
    if changed and read[label] == block.version - 1:
        read[label] = block.version
    return True
