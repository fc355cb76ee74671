"""Whether a model takes pictures, before it is asked."""

from __future__ import annotations

from functools import lru_cache

from pagedaemon.config import Model
from pagedaemon.llm.prices import listed

_OFFLINE = "offline"


def sees(model: Model) -> bool:
    """What `Model.vision` says. Where it says nothing: a model that litellm's list has, as the list
    says; another one if it is hosted. Behind a `base_url` of one's own nobody knows, and then no:
    a picture that a server refuses would stand in the way of every later request.

    The first look into the list takes about 50 ms.
    """
    if model.vision is not None:
        return model.vision
    name = model.name.removeprefix("litellm/")
    own = model.base_url is not None
    if name == _OFFLINE or (own and name.startswith("openai/")):
        return False
    known = _listed(name)
    return not own if known is None else known


@lru_cache(maxsize=256)
def _listed(name: str) -> bool | None:
    entry = listed(name)
    return None if entry is None else bool(entry.get("supports_vision"))
