"""The key of a send, by which the same message sent again is known: it is one turn for ever."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from pagedaemon.store.journal.shapes import Wake


@dataclass(frozen=True, slots=True)
class Key:
    """What a sender calls a message, unique in its conversation."""

    text: str
    body_hash: str
    """Of what is sent, in hexadecimal: another message under the same key is a mistake."""


def key_of(text: str, wake: Wake) -> Key:
    """The key of what wakes an agent. Ids that are made anew for each send are no part of it.

    Args:
        text: one line of 1 to 200 characters.
    """
    came = [one.described() for one in wake.attachments]
    for one in came:
        del one["id"]
    body = [wake.kind, wake.text, wake.label, wake.author, wake.reply_schema, came]
    written = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return Key(text, hashlib.sha256(written.encode()).hexdigest())
