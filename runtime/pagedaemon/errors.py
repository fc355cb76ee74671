"""Every error this package raises on purpose, as one small tree.

Who must act decides the branch: the developer (settings, input), the operator (store), the provider
(model) or the model itself (a refused edit or a failed tool, which it reads as a result and can try
again).

    PagedaemonError
    ├── ConfigError             settings that cannot work; nothing was started
    │   ├── NoModel             neither the agent nor the runtime names a model
    │   ├── ModelCannotSee      a picture for a model that takes none
    │   ├── MissingDependency   an optional package is needed and not installed
    │   └── ToolDefinitionError a Python function cannot become a tool
    ├── InvalidInput            a value refused at the edge; nothing was stored
    │   └── InvalidRecord       one of many records is refused; none was stored
    ├── NotFound                no such agent, block, conversation, message, passage, template
    ├── AlreadyExists           a name or label is taken
    │   └── KeyConflict         a send's key is taken by another message
    ├── AlreadyAnswered         an approval or an outcome that was settled: nothing was changed
    ├── Closed                  the runtime was closed, or belongs to another process after a fork
    ├── EditRefused             an edit that would lose or break something; the block is unchanged
    ├── ToolFailure             raised inside a tool to tell the model what went wrong
    ├── ContextOverflow         what must be in the request does not fit the model's window
    │   └── PicturesTooLarge    a message's pictures are more than their share; nothing was stored
    ├── ModelError              the model gave no usable reply
    │   ├── ModelUnavailable    timeouts, 5xx, connection lost: retried, with a cap
    │   │   ├── RateLimited     429: retried after the time the provider names
    │   │   └── ModelTimedOut   no whole answer in time, as where the request is very long
    │   ├── RequestRejected     400: never retried
    │   │   └── ContextTooLong  the provider counted more tokens than its window holds
    │   ├── AuthenticationFailed 401, 403: never retried
    │   ├── QuotaExceeded       spent budget: never retried
    │   ├── BadReply            the reply could not be put together
    │   └── ReplyInvalid        no reply of the type that was asked for came
    ├── EmbeddingError          no vectors could be had for a text; search by keywords goes on
    └── StoreError
        ├── StorageFull         the disk or the allowed size is used up
        ├── StorageUnavailable  the file cannot be read or written
        ├── StoreTooNew         written by a newer release; left untouched
        └── LeaseLost           another worker has taken the conversation over
"""

from __future__ import annotations

from typing import Literal

EditReason = Literal[
    "empty_text",
    "not_found",
    "ambiguous",
    "too_long",
    "read_only",
    "stale",
    "no_such_block",
    "no_such_line",
    "bad_text",
]


class PagedaemonError(Exception):
    """The root: `except PagedaemonError` catches everything this package raises on purpose."""


class ConfigError(PagedaemonError):
    """Settings that cannot work. Nothing was started."""


class NoModel(ConfigError):
    """Neither the agent nor the runtime names a model."""


class ModelCannotSee(ConfigError):
    """A picture was sent to an agent whose model takes none. Nothing was stored."""


class MissingDependency(ConfigError):
    """An optional package is needed; the message names what to install."""


class ToolDefinitionError(ConfigError):
    """A Python function cannot become a tool; the message names the parameter."""


class InvalidInput(PagedaemonError):
    """A value was refused at the edge. Nothing was stored."""


class InvalidRecord(InvalidInput):
    """One of many records was refused. None of them was stored.

    Attributes:
        index: its place among those that were given, from 0.
    """

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        super().__init__(f"record {index} (counted from 0), and so none was stored: {reason}")


class NotFound(PagedaemonError):
    """There is no such thing in this space."""


class AlreadyExists(PagedaemonError):
    """The name or label is taken."""


class KeyConflict(AlreadyExists):
    """A message was sent with the key of another one. It was not stored.

    Attributes:
        key: the key.
        turn_id: the turn of the message that has it.
    """

    def __init__(self, key: str, turn_id: str) -> None:
        self.key = key
        self.turn_id = turn_id
        super().__init__(
            f"the key {key!r} stands for another message of this conversation ({turn_id}): send "
            "what was sent with it to get that turn, or give this message a key of its own"
        )


class AlreadyAnswered(PagedaemonError):
    """What a person was to say was said before, or its time is over: of an approval, or of an
    unknown outcome. It is as it was."""


class Closed(PagedaemonError):
    """The runtime was closed, or the process was forked after it was opened: open a new one."""


class EditRefused(PagedaemonError):
    """A block edit that was not applied. The block is exactly as it was.

    Attributes:
        reason: what stood in the way, one of `EditReason`.
        label: the block's label.
        current: the block's value now, for another try. None where the block does not exist.
        nearest: lines of the current value most like the text that was asked for.
        limit: the block's limit, in characters.
        size: the size the value would have had, in characters (0 where it does not matter).
    """

    def __init__(
        self,
        reason: EditReason,
        label: str,
        message: str,
        *,
        current: str | None = None,
        nearest: tuple[str, ...] = (),
        limit: int = 0,
        size: int = 0,
    ) -> None:
        super().__init__(message)
        self.reason: EditReason = reason
        self.label = label
        self.current = current
        self.nearest = nearest
        self.limit = limit
        self.size = size


class ToolFailure(PagedaemonError):
    """Raise it inside a tool: its text becomes the error result that the model reads."""


class ContextOverflow(PagedaemonError):
    """What must be in the request does not fit, and nothing is left to page out.

    Attributes:
        budget: tokens the request may have.
        needed: tokens it would have.
        largest: (what, tokens) of the largest parts, largest first.
    """

    def __init__(self, budget: int, needed: int, largest: tuple[tuple[str, int], ...]) -> None:
        self.budget = budget
        self.needed = needed
        self.largest = largest
        parts = ", ".join(f"{what} {tokens}" for what, tokens in largest)
        super().__init__(
            f"The request needs {needed} tokens, the budget is {budget}. Largest parts: {parts}. "
            "Shorten one of them, detach a block or a tool, or use a model with a larger window."
        )


class PicturesTooLarge(ContextOverflow):
    """A message's pictures need more than one message's share of the window (`Paging.oversize`).
    Nothing was stored.

    Attributes:
        as of `ContextOverflow`, where `budget` is that share.
    """

    def __str__(self) -> str:
        parts = ", ".join(f"{what} {tokens}" for what, tokens in self.largest)
        return (
            f"The pictures of this message need {self.needed} tokens, and one message's share of "
            f"the window is {self.budget}: {parts}. Send fewer or smaller ones, or with "
            'detail="low", or use a model with a larger window.'
        )


class ModelError(PagedaemonError):
    """The model gave no usable reply. The user's message is kept."""


class ModelUnavailable(ModelError):
    """Timeout, 5xx or a lost connection, after the allowed retries."""


class RateLimited(ModelUnavailable):
    """429 after the allowed retries.

    Attributes:
        retry_after: seconds the provider asked to wait, or None.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelTimedOut(ModelUnavailable):
    """No whole answer in the time allowed, after the allowed retries. A very long request is one
    reason: then the window is emptied once, and the model asked again."""


class RequestRejected(ModelError):
    """The provider refused the request as such (400, 404, 422).

    Where it showed pictures, one may be why: some of them are then shown as placeholders in later
    requests, and the message says which.

    Attributes:
        status: of HTTP, where the provider said one.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ContextTooLong(RequestRejected):
    """The provider counted more tokens than its window holds."""


class AuthenticationFailed(ModelError):
    """The key is missing, wrong or not allowed to use this model (401, 403)."""


class QuotaExceeded(ModelError):
    """The account's budget is spent (402, or 429 with code insufficient_quota)."""


class BadReply(ModelError):
    """The reply could not be put together, for instance a stream cut off inside a tool call."""


class ReplyInvalid(ModelError):
    """A turn has ended without a reply of the type that was asked for (`reply_type`). What was said
    is kept.

    Attributes:
        turn_id: which turn.
        stop_reason: how it ended; `invalid_reply` where all tries were used up.
        text: the last reply that was refused; None where none was.
        problems: what was wrong with it.
    """

    def __init__(
        self, turn_id: str, stop_reason: str, text: str | None, problems: tuple[str, ...]
    ) -> None:
        self.turn_id = turn_id
        self.stop_reason = stop_reason
        self.text = text
        self.problems = problems
        why = "; ".join(problems) or "no such reply was given"
        super().__init__(
            f"turn {turn_id} ended ({stop_reason}) without a reply of the type asked for: {why}. "
            "Say in the message what you want, take a simpler type, or allow more tries "
            "(Limits.reply_retries)."
        )


class EmbeddingError(PagedaemonError):
    """The embedder gave no usable vectors. Nothing was stored; search by keywords goes on.

    Attributes:
        kind: `unavailable` where asking again later may help, `refused` where it will not before
            somebody changes something.
    """

    def __init__(
        self, message: str, *, kind: Literal["unavailable", "refused"] = "refused"
    ) -> None:
        super().__init__(message)
        self.kind: Literal["unavailable", "refused"] = kind


class StoreError(PagedaemonError):
    """The store could not do what was asked. Nothing of the transaction remains.

    Attributes:
        accepted: the turn whose message had been stored before. It is answered as soon as the store
            works again: sending it once more would double it. None where nothing was accepted.
    """

    accepted: str | None = None

    def __str__(self) -> str:
        told = super().__str__()
        if self.accepted is None:
            return told
        return (
            f"{told} The message was stored before that ({self.accepted}) and is answered when the "
            "store works again: do not send it once more."
        )


class StorageFull(StoreError):
    """The disk, or the size allowed for the file, is used up."""


class StorageUnavailable(StoreError):
    """The file cannot be read or written."""


class StoreTooNew(StoreError):
    """The store was written by a newer release. It was left untouched."""


class LeaseLost(StoreError):
    """Another worker has taken the conversation over; this one writes nothing more.

    The other one goes on with the turn: `accepted` says which, and `conversation.turn(...)` waits
    for its end.
    """

    def __str__(self) -> str:
        told = Exception.__str__(self)
        if self.accepted is None:
            return told
        return (
            f"{told} The message is stored, and the other worker answers it: wait for that with "
            f"conversation.turn({self.accepted!r}), and do not send it once more."
        )
