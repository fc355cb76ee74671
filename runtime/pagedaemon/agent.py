"""What an agent is, as data only: its blocks as the developer defines them, and its record as
stored."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from pagedaemon.config import Frozen, Model, Settings
from pagedaemon.errors import ConfigError, EditRefused, InvalidInput
from pagedaemon.messages import checked_text
from pagedaemon.resources import starter_block

DEFAULT_LIMIT = 4_000
"""Characters a block may hold where nothing else is said."""


class Block(Frozen):
    """A block as a developer defines it: a labelled text, pinned in the system prompt.

    `Block.load("persona/companion")` takes a starter from `blocks/`; `Block.human(...)` and
    `Block.persona(...)` take text. Limits count characters (Unicode code points).

    Raises:
        InvalidInput: a field that cannot be; the message names it.
        EditRefused: the value is longer than the limit.
    """

    refusal: ClassVar[type[ConfigError | InvalidInput]] = InvalidInput

    label: str = Field(min_length=1, max_length=60)
    """What the agent calls it, such as `persona`, `human`, `team`. Unique in an agent."""
    value: str = ""
    description: str = ""
    """What belongs in it; shown to the model."""
    limit: int = Field(default=DEFAULT_LIMIT, gt=0)
    """Characters the value may have. More is refused, never cut."""
    read_only: bool = False
    """Whether the agent may not edit it; the Python API may."""

    @field_validator("label", mode="before")
    @classmethod
    def _one_form(cls, label: Any) -> Any:
        return _normal(label) if isinstance(label, str) else label

    @field_validator("label")
    @classmethod
    def _label(cls, label: str) -> str:
        if not _is_label(label):
            raise ValueError(_LABELS)
        return label

    @field_validator("value", "description")
    @classmethod
    def _storable(cls, text: str) -> str:
        try:
            return checked_text(text, "it", empty=True)
        except InvalidInput as error:
            raise ValueError(str(error)) from error

    @model_validator(mode="after")
    def _within_limit(self) -> Self:
        check_length(self.label, self.value, self.limit)
        return self

    @classmethod
    def load(cls, name: str, **changes: Any) -> Block:
        """A starter block by its path in `blocks/` without ending, such as `persona/companion`.

        `changes` replace fields of it: `Block.load("human/basic", value="Name: Lin")`.

        Raises:
            NotFound: there is no such starter; the message lists what there is.
        """
        fields, value = starter_block(name)
        return cls(**{**fields, "value": value, **changes})

    @classmethod
    def persona(cls, value: str, **fields: Any) -> Block:
        """Who the agent is: the starter `persona/blank` with this text."""
        return cls.load("persona/blank", value=value, **fields)

    @classmethod
    def human(cls, value: str, **fields: Any) -> Block:
        """Whom the agent talks to: the starter `human/basic` with this text."""
        return cls.load("human/basic", value=value, **fields)


def check_length(label: str, value: str, limit: int, *, current: str | None = None) -> None:
    """Refuses a block's value that is over its limit.

    Args:
        current: its value as it is, where the block exists.

    Raises:
        EditRefused: it is.
    """
    if len(value) > limit:
        raise EditRefused(
            "too_long",
            label,
            f"block {label!r} holds {limit} characters; this would make it {len(value)}",
            current=current,
            limit=limit,
            size=len(value),
        )


_LABELS = "a label holds letters, digits, '_' and '-' only"


def _is_label(label: str) -> bool:
    return all(letter.isalnum() or letter in "_-" for letter in label)


def checked_label(label: object) -> str:
    """A block's label in its one form (NFC, no blanks around it): 1 to 60 letters, digits, '_' and
    '-'.

    Raises:
        InvalidInput: otherwise.
    """
    text = _normal(checked_text(label, "a label"))
    if len(text) > 60 or not _is_label(text):
        raise InvalidInput(f"{_LABELS}, at most 60 of them: {text[:60]!r}")
    return text


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """An agent as it is stored."""

    id: str
    name: str
    settings: Settings
    model: Model | None
    """None: the runtime's default model. Its key is never stored."""
    tools: Mapping[str, str]
    """Its Python tools: name to hash of the schema it was given with."""
    created_at: datetime
    updated_at: datetime


MAIN = "main"
"""The conversation every agent has."""


def checked_name(name: object, what: str) -> str:
    """A display name in its one form (NFC, no blanks around it): one line of 1 to 200 characters,
    any script.

    Control characters are refused, and so are those that turn the direction of text: they make a
    name look like another one.

    Raises:
        InvalidInput: otherwise.
    """
    text = _normal(checked_text(name, what))
    if len(text) > 200 or any(unicodedata.category(sign) in _BREAKS for sign in text):
        raise InvalidInput(
            f"{what} must be one line of at most 200 characters, without control characters"
        )
    if turned := _TURNING.intersection(text):
        raise InvalidInput(
            f"{what} has the invisible character U+{ord(min(turned)):04X}, which turns the "
            "direction of text: remove it"
        )
    return text


_BREAKS = frozenset({"Cc", "Zl", "Zp"})
"""Unicode's categories of control characters and of what ends a line or paragraph."""

_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""The characters with Unicode's property Bidi_Control (Unicode Standard Annex 9, section 2)."""


def _normal(text: str) -> str:
    """What looks the same is the same: composed (NFC), and without blanks around it."""
    return unicodedata.normalize("NFC", text.strip(" \t\u00a0\u3000"))
