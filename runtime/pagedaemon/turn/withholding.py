"""Pictures that a provider may have refused are shown as their placeholders from then on.

A link that has expired, or a picture that one provider takes and another does not, is in every
later request too: the conversation could not go on until it was found and taken out by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pagedaemon.errors import ContextTooLong, RequestRejected
from pagedaemon.media import pictures
from pagedaemon.messages import WITHHELD, Message
from pagedaemon.store import conversations as rows
from pagedaemon.store.transaction import Transaction
from pagedaemon.turn.state import OpenTurn


def suspected(turn: OpenTurn, error: Exception) -> tuple[Message, ...]:
    """The messages whose pictures may be why a provider refused a request, none where it had
    another reason. Providers do not say which picture it was.

    Those that this turn brought, and all links, which stop working without us. Where there are
    neither, all that were shown.
    """
    if not isinstance(error, RequestRejected) or isinstance(error, ContextTooLong):
        return ()
    if error.status == _NO_SUCH_MODEL:
        return ()
    shown = [message for message in turn.queue if _shows_pictures(turn, message)]
    likely = [message for message in shown if message.turn_id == turn.id or _is_linked(message)]
    return tuple(likely or shown)


_NO_SUCH_MODEL = 404


def explained(error: RequestRejected, withheld: Sequence[Message]) -> RequestRejected:
    """The refusal with what was done about it, and what the user can do."""
    numbers = ", ".join(f"#{message.seq}" for message in withheld)
    return RequestRejected(
        f"{error}. The request showed pictures, and one may be why: those of {numbers} are shown "
        "as placeholders from now on, so that the conversation goes on without them. Send again "
        "what was not to blame; pop() takes the last message out of the window",
        status=error.status,
    )


def withhold(tx: Transaction, withheld: Sequence[Message]) -> None:
    """Stores that these messages' pictures are not shown any more."""
    rows.set_data(tx, [_without(message) for message in withheld])


def hide(turn: OpenTurn, withheld: Sequence[Message]) -> None:
    """The same for the turn in memory, once it is committed."""
    ids = {message.id for message in withheld}
    for message in withheld:
        turn.body.renderer.forget(message)
    turn.queue = [_without(one) if one.id in ids else one for one in turn.queue]
    turn.window_version += 1


def _without(message: Message) -> Message:
    return replace(message, data={**message.data, WITHHELD: True})


def _shows_pictures(turn: OpenTurn, message: Message) -> bool:
    if not pictures(message.attachments):
        return False
    wire = turn.body.renderer.message(message)
    return wire is not None and isinstance(wire["content"], list)


def _is_linked(message: Message) -> bool:
    return any(one.url is not None for one in pictures(message.attachments))
