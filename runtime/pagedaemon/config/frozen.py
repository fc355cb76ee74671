"""What all settings are: immutable, checked when they are made, and refused in words."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pagedaemon.errors import ConfigError, InvalidInput


class Frozen(BaseModel):
    """Base of all settings: immutable, and a misspelt field is an error.

    Raises:
        ConfigError: a value cannot work; the message names its field.
    """

    # Values are left out of every message: one of them may be a key.
    # Built when first used: most programs give a few of these only, and each costs milliseconds.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )

    refusal: ClassVar[type[ConfigError | InvalidInput]] = ConfigError
    """What is raised for a value that cannot work."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names that are often taken for a field of this, and where each is given."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise self.refusal(_readable(type(self), error)) from None


def _readable(kind: type[Frozen], error: ValidationError) -> str:
    wrong = []
    for one in error.errors(include_url=False, include_input=False):
        place = ".".join(map(str, one["loc"])) or "together"
        unknown = one["type"] == "extra_forbidden" and len(one["loc"]) == 1
        wrong.append(f"{place}: {_unknown(kind, place) if unknown else one['msg']}")
    return f"{kind.__name__} cannot be made: {'; '.join(wrong)}"


def _unknown(kind: type[Frozen], name: str) -> str:
    """What to say of a field that is none: where it is given, or which one was probably meant."""
    if name in kind.elsewhere:
        return kind.elsewhere[name]
    for field, about in kind.model_fields.items():
        inner = about.annotation
        if isinstance(inner, type) and issubclass(inner, Frozen) and name in inner.model_fields:
            return f"it stands in {field}: {field}={inner.__name__}({name}=...)"
    near = difflib.get_close_matches(name, kind.model_fields, n=1)
    if near:
        return f"there is no such field; did you mean {near[0]!r}?"
    return f"there is no such field, but {', '.join(kind.model_fields)}"
