"""`pagedaemon chat`: a conversation at the terminal, or through a pipe."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

import click

from pagedaemon.cli.approvals import described
from pagedaemon.cli.progress import Progress, remark
from pagedaemon.cli.screen import Screen, ending, one_line, printable
from pagedaemon.cli.undo import newest_edit
from pagedaemon.errors import InvalidInput, PagedaemonError
from pagedaemon.events import Event
from pagedaemon.sync.approvals import Approval
from pagedaemon.sync.handles import Agent
from pagedaemon.sync.talking import TurnHandle

HITS = 5
"""How many hits of each kind a search shows."""

PROMPT = "> "


class Leave(Exception):
    """The person leaves."""


class Chat:
    """A conversation at the terminal.

    Args:
        agent: with whom.
        screen: where it is shown.
        read: asks for a line with a prompt; raises `EOFError` at the end.
    """

    def __init__(self, agent: Agent, screen: Screen, read: Callable[[str], str] = input) -> None:
        self._agent = agent
        self._screen = screen
        self._read = read
        self._last: str | None = None
        self._interrupted = False
        self._commands: dict[str, Callable[[str], None]] = {
            "/context": self._context,
            "/memory": self._memory,
            "/search": self._search,
            "/pressure": self._pressure,
            "/heartbeat": self._heartbeat,
            "/approve": self._approve,
            "/deny": self._deny,
            "/retry": self._retry,
            "/pop": self._pop,
            "/reset": self._reset,
            "/help": self._help,
            "/quit": self._quit,
        }

    def run(self) -> None:
        """Goes on until the person leaves. Ctrl-C stops a turn; a second one leaves."""
        while True:
            try:
                self._turn_to(self._read(PROMPT).strip())
            except (EOFError, Leave):
                break
            except KeyboardInterrupt:
                if self._interrupted:
                    break
                self._interrupted = True
                self._screen.line("")
                self._screen.note("Ctrl-C again, Ctrl-D or /quit leaves")
        self._screen.settle()

    def _turn_to(self, line: str) -> None:
        self._interrupted = False
        try:
            if line.startswith("/"):
                name, _, rest = line.partition(" ")
                command = self._commands.get(name)
                if command is None:
                    self._screen.problem(f"there is no {one_line(name)}: /help lists what there is")
                else:
                    command(rest.strip())
            elif line:
                self._say(line)
        except PagedaemonError as error:
            self._screen.problem(one_line(str(error), 1_000))

    def _say(self, text: str) -> None:
        self._last = text
        self._listen(self._agent.stream(text))

    def _listen(self, events: Iterable[Event]) -> None:
        try:
            for event in events:
                self._screen.hear(event)
        except KeyboardInterrupt:
            self._interrupted = True
            stopped = self._agent.cancel()
            self._screen.problem(
                "stopped; the conversation is kept" if stopped else "the turn had ended already"
            )
        finally:
            self._screen.settle()
        for one in self._agent.approvals.list():
            self._screen.problem(f"{one.id} waits: {described(one)}; /approve or /deny")

    def _approve(self, name: str) -> None:
        """[ID]: lets the call be run that waits, or the one of that id."""
        if (one := self._waiting(name)) is not None:
            self._follow(one.approve())

    def _deny(self, rest: str) -> None:
        """[ID] [REASON]: has it not run; the agent is told why."""
        name, _, reason = rest.partition(" ")
        if not name.startswith("approval-"):
            name, reason = "", rest
        if (one := self._waiting(name)) is not None:
            self._follow(one.deny(reason.strip() or None))

    def _waiting(self, name: str) -> Approval | None:
        """The approval of that id, or the only one that waits."""
        if name:
            return self._agent.approvals.get(name)
        found = self._agent.approvals.list()
        if len(found) == 1:
            return found[0]
        self._screen.note("name one of those that wait" if found else "nothing waits for approval")
        return None

    def _follow(self, turn: TurnHandle) -> None:
        self._listen(self._told(turn))

    def _told(self, turn: TurnHandle) -> Iterable[Event]:
        for one in self._agent.conversations.list():
            if one.id == turn.conversation_id:
                yield from one.events(turn.id)

    def _context(self, section: str) -> None:
        """[SECTION]: what the model would see now, by section; with a name, that section's text."""
        report = self._agent.context()
        if not section:
            self._screen.context(report)
            return
        texts = [part.text for part in report.parts if part.name == section]
        if not texts:
            names = ", ".join(part.name for part in report.parts)
            self._screen.problem(f"there is no section {one_line(section)}; there are: {names}")
        for text in texts:
            self._screen.line(text)

    def _memory(self, rest: str) -> None:
        """[undo]: core memory; with undo, takes back the agent's newest edit of it."""
        if not rest:
            self._screen.blocks(self._agent.blocks.list())
            return
        if rest != "undo":
            self._screen.problem("/memory shows it, /memory undo takes back the newest edit")
            return
        found = newest_edit(self._agent)
        if found is None:
            self._screen.note("there is no edit of this agent to take back")
            return
        block, before, _ = found
        self._screen.took_back(block.label, block.value, block.restore(before.version).value)

    def _search(self, words: str) -> None:
        """WORDS: looks for them in recall (all that was said) and in the archive."""
        said = self._agent.recall.search(words or None, page_size=HITS)
        kept = self._agent.archive.search(words or None, page_size=HITS)
        zone = self._agent.settings.timezone
        self._screen.hits(said.hits, kept.hits, (said.total, kept.total), zone)

    def _pressure(self, _: str) -> None:
        """How full the window is."""
        self._screen.pressure(self._agent.context(), self._agent.settings.paging)

    def _heartbeat(self, _: str) -> None:
        """Wakes the agent without a message."""
        self._listen(self._agent.stream_heartbeat())

    def _retry(self, _: str) -> None:
        """Sends your last message again."""
        if self._last is None:
            self._screen.note("there is nothing to send again yet")
        else:
            self._say(self._last)

    def _pop(self, _: str) -> None:
        """Takes the last exchange out of the window; recall and memory keep what they have."""
        gone = self._agent.pop()
        if not gone:
            self._screen.note("there is no exchange in the window")
            return
        said = [message.text for message in gone if message.kind == "message"]
        if said:
            self._last = said[-1]
        since = f"since {one_line(said[-1], 60)!r}" if said else "since the last heartbeat"
        self._screen.note(f"{len(gone)} messages left the window, all {since}; memory stays")

    def _reset(self, _: str) -> None:
        """Empties the window; all memory stays."""
        self._screen.note(f"{self._agent.reset()} messages left the window; memory stays")

    def _help(self, _: str) -> None:
        """This list."""
        for name, command in self._commands.items():
            about = inspect.getdoc(command) or ""
            argument, colon, text = about.partition(": ")
            if colon and (argument.isupper() or argument.startswith("[")):
                self._screen.line(f"{name} {argument}".ljust(20) + text)
            else:
                self._screen.line(name.ljust(20) + about)

    def _quit(self, _: str) -> None:
        """Leaves, as Ctrl-D does."""
        raise Leave


def piped(agent: Agent, lines: Iterable[str], report: Progress) -> bool:
    """Answers each line that is not empty, and prints nothing but the replies.

    A line that cannot be a message is told of on standard error, and the next one is read. Ctrl-C
    stops the turn and reads no more.

    Args:
        lines: bytes that are no text stand in them as lone surrogates.
        report: is told how many were answered.

    Returns:
        whether every line became a turn that ended by itself; where one did not, standard error
        says why.
    """
    sound = True
    answered = 0
    try:
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text:
                continue
            if (trouble := _answer(agent, text, number)) is not None:
                remark(trouble)
                sound = False
                continue
            answered += 1
            report(answered, None, "messages answered")
    except KeyboardInterrupt:
        remark("stopped; the conversation is kept")
        return False
    for one in agent.approvals.list():
        remark(f"{one.id} waits: {described(one)}; pagedaemon approvals answers it")
    return sound


def _answer(agent: Agent, text: str, number: int) -> str | None:
    """Prints the reply to a line. Returns what went wrong, in a line."""
    undecoded = [at for at, letter in enumerate(text) if "\udc80" <= letter <= "\udcff"]
    if undecoded:
        at = undecoded[0]
        return (
            f"line {number} was not sent: its byte 0x{ord(text[at]) - 0xDC00:02x} after {at} "
            "characters is no text; save the input as UTF-8"
        )
    try:
        turn = agent.send(text)
    except InvalidInput as error:
        return one_line(f"line {number} was not sent: {error}")
    if turn.reply is not None:
        click.echo(printable(turn.reply))
    return ending(turn)
