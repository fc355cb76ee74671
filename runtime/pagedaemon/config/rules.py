"""What an agent may call when, as data; `pagedaemon.tools.rules` judges by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from pagedaemon.config.frozen import Frozen

ToolName: TypeAlias = Annotated[str, Field(min_length=1)]

ToolResult: TypeAlias = Annotated[str, Field(min_length=1)]

ToolNames: TypeAlias = Annotated[tuple[ToolName, ...], Field(min_length=1)]


class ToolRule(Frozen):
    """Base of all rules on what an agent may call; `pagedaemon.tools.rules` judges by them.

    A call counts for a rule once it has run without failing; one whose outcome is unknown counts
    too, and one that failed or was refused does not. Each turn begins anew. Rules are on calls:
    plain text is none.
    """

    tool: ToolName
    """Which tool it is about: one of the agent's own or a built-in one."""

    # For type checkers each rule says its own: otherwise they make one up that takes no position.
    def __init__(self, tool: str = "", **fields: Any) -> None:
        super().__init__(**{"tool": tool, **fields})


class First(ToolRule):
    """Comes first in a turn: until it has run, nothing else is. Of several, one is enough."""

    rule: Literal["first"] = "first"

    if TYPE_CHECKING:

        def __init__(self, tool: str, *, rule: Literal["first"] = ...) -> None: ...


class Terminal(ToolRule):
    """Ends the turn, whatever else asked to go on. It may not be called before all that is
    required (`Required`) has run."""

    rule: Literal["terminal"] = "terminal"

    if TYPE_CHECKING:

        def __init__(self, tool: str, *, rule: Literal["terminal"] = ...) -> None: ...


class After(ToolRule):
    """Says what may be called next after it: `After("search", then=("fetch", "search"))`."""

    rule: Literal["after"] = "after"
    then: ToolNames

    if TYPE_CHECKING:

        def __init__(
            self, tool: str, *, then: Sequence[str], rule: Literal["after"] = ...
        ) -> None: ...


class Conditional(ToolRule):
    """Says what may be called next, by what it returned:
    `Conditional("classify", cases={"spam": ("bin",)}, default=("answer",))`."""

    rule: Literal["conditional"] = "conditional"
    cases: Annotated[dict[ToolResult, ToolNames], Field(min_length=1)]
    """From a result to what may follow it. A result is compared as a JSON value where both are
    JSON (`3`, `true`, `{"a": 1}`), else as text without the blank space around it."""
    default: ToolNames
    """What may follow any other result."""
    field: str | None = None
    """Where the result is a JSON object: compare this field of it. None: the whole result."""

    if TYPE_CHECKING:

        def __init__(
            self,
            tool: str,
            *,
            cases: Mapping[str, Sequence[str]],
            default: Sequence[str],
            field: str | None = None,
            rule: Literal["conditional"] = ...,
        ) -> None: ...


class AtMost(ToolRule):
    """May be called so many times in a turn, and no more: `AtMost("mail", calls=1)`."""

    rule: Literal["at_most"] = "at_most"
    calls: int = Field(gt=0)

    if TYPE_CHECKING:

        def __init__(self, tool: str, *, calls: int, rule: Literal["at_most"] = ...) -> None: ...


class Required(ToolRule):
    """Must have run before the turn may end: the agent thinks again until it has. A tool whose code
    is not loaded holds no turn."""

    rule: Literal["required"] = "required"

    if TYPE_CHECKING:

        def __init__(self, tool: str, *, rule: Literal["required"] = ...) -> None: ...


class NeedsApproval(ToolRule):
    """Waits for a person's approval at each call, whatever the tool itself says."""

    rule: Literal["needs_approval"] = "needs_approval"


Rule: TypeAlias = Annotated[
    First | Terminal | After | Conditional | AtMost | Required | NeedsApproval,
    Field(discriminator="rule"),
]
