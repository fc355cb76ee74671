"""What a user may send: text, or text with pictures and files among it, in the shapes that people
have at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pagedaemon.clock import new_id
from pagedaemon.errors import InvalidInput
from pagedaemon.media import Attachment, Detail, File, Image, attachment
from pagedaemon.messages import checked_text
from pagedaemon.resources import Prompts

Part: TypeAlias = str | Image | File | Mapping[str, Any]
"""Text, a picture, a file, or a part in OpenAI's or Anthropic's shape."""

Content: TypeAlias = str | Image | File | Sequence[Part]
"""What is said in one message."""

LONGEST_MESSAGE = 20_000_000
"""Characters of one message. Long ones are stored whole and shown to the model in pages."""

LARGEST_MESSAGE = 50_000_000
"""Bytes of one message's pictures and files together: what OpenAI takes in a request."""

MOST_PARTS = 100
"""Pictures and files in one message."""

_BETWEEN = "\n"

_ACCEPTED = (
    'a text, Image.from_path(...), File.from_path(...), {"type": "text", "text": ...}, '
    '{"type": "image_url", "image_url": {"url": ...}} or '
    '{"type": "image", "source": {"type": "base64", "data": ...}}'
)


def read_content(content: Content, prompts: Prompts) -> tuple[str, tuple[Attachment, ...]]:
    """A message's words, and what comes with them, in its order.

    A file's text becomes part of the words.

    Raises:
        InvalidInput: it is empty, too much, or holds what is neither text nor a picture nor a file.
    """
    if isinstance(content, str):
        return _checked_length(checked_text(content, "the message")), ()
    words, came = "", list[Attachment]()
    for part in map(_read, _parts(content)):
        if isinstance(part, Image):
            came.append(_picture(part, prompts, len(words)))
            continue
        if isinstance(part, File):
            came.append(attachment(part, new_id("attachment")))
            part = prompts.render("events/file", name=part.name, text=part.text)
        if part.strip():
            words = f"{words}{_BETWEEN}{part}" if words else part
    if len(came) > MOST_PARTS or sum(one.size for one in came) > LARGEST_MESSAGE:
        raise InvalidInput(
            f"a message has at most {MOST_PARTS} pictures and files of {LARGEST_MESSAGE:,} bytes "
            "together: send them in several messages"
        )
    if not came:
        checked_text(words, "the message")
    return _checked_length(words), tuple(came)


def _checked_length(words: str) -> str:
    if len(words) > LONGEST_MESSAGE:
        raise InvalidInput(f"a message has at most {LONGEST_MESSAGE} characters")
    return words


def _parts(content: object) -> Sequence[object]:
    if isinstance(content, Image | File):
        return (content,)
    if isinstance(content, bytes | Mapping) or not isinstance(content, Sequence):
        raise InvalidInput(
            f"the message must be text or a list of parts, not {type(content).__name__}; each part "
            f"is {_ACCEPTED}"
        )
    return content


def _read(part: object) -> str | Image | File:
    if isinstance(part, Image | File):
        return part
    if isinstance(part, Mapping):
        part = _from_shape(part)
    if isinstance(part, Image):
        return part
    if isinstance(part, str):
        return checked_text(part, "a part of the message", empty=True)
    raise InvalidInput(f"a part of a message is {_ACCEPTED}, not {type(part).__name__}")


def _from_shape(part: Mapping[str, Any]) -> str | Image:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if kind == "image_url":
        image = part.get("image_url")
        given: Mapping[str, Any] = image if isinstance(image, Mapping) else {"url": image}
        if isinstance(given.get("url"), str):
            return _linked(given["url"], given.get("detail"))
    source = part.get("source")
    if kind == "image" and isinstance(source, Mapping):
        if source.get("type") == "base64" and isinstance(source.get("data"), str):
            return Image.from_base64(source["data"])
        if source.get("type") == "url" and isinstance(source.get("url"), str):
            return _linked(source["url"], None)
    raise InvalidInput(f"a part of the type {kind!r} is not known in this shape: give {_ACCEPTED}")


def _linked(url: str, detail: Detail | None) -> Image:
    if url[:5].lower() == "data:":
        return Image.from_data_url(url, detail=detail)
    return Image.from_url(url, detail=detail)


def _picture(image: Image, prompts: Prompts, at: int) -> Attachment:
    placeholder = prompts.render(
        "events/picture", name=image.name, width=image.width, height=image.height
    )
    return attachment(image, new_id("attachment"), placeholder, at)
