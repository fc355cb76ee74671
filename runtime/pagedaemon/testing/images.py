"""The rules that providers have for pictures in a history.

Sources: OpenAI, "Images and vision"; Anthropic, "Vision"; Google, Gemini API, "Image
understanding". Each takes base64 or a URL; which formats differs.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pagedaemon.pixels import sniffed
from pagedaemon.testing.history import IllegalRequest, is_list

FORMATS: Mapping[str, frozenset[str]] = {
    "openai": frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"}),
    "anthropic": frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"}),
    "gemini": frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
}
"""What each takes. Gemini refuses GIF."""

_DATA = re.compile(r"data:(?P<type>[a-z]+/[a-z0-9.+-]+);base64,(?P<data>[A-Za-z0-9+/]+={0,2})")
_LINK = re.compile(r"https?://[^\s/]\S*")
_DETAILS = (None, "auto", "low", "high")


def check_images(messages: Sequence[Mapping[str, Any]], provider: str) -> None:
    """Hold the pictures of a history against a provider's rules.

    Raises:
        IllegalRequest: `<provider>.` and `image_role` (only a user
            may show one), `image_shape`,
            `image_url` (neither http(s) nor a well-formed data URL), `image_type` (a format it does
            not take, or not the one that the bytes are).
    """
    for where, role, part in _images(messages):
        if role == "tool" and provider != "openai":
            continue  # what a result holds is converted in ways of its own
        if role != "user":
            raise IllegalRequest(f"{provider}.image_role", f"{where} is in a message of the {role}")
        image = part.get("image_url")
        if not isinstance(image, Mapping) or not isinstance(image.get("url"), str):
            raise IllegalRequest(f"{provider}.image_shape", f"{where} has no image_url.url")
        if image.get("detail") not in _DETAILS:
            raise IllegalRequest(f"{provider}.image_shape", f"{where}: {image['detail']!r}")
        _check_url(image["url"], where, provider)


def _images(
    messages: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for index, message in enumerate(messages):
        content = message.get("content")
        for place, part in enumerate(content if is_list(content) else ()):
            if isinstance(part, Mapping) and part.get("type") == "image_url":
                yield f"messages[{index}].content[{place}]", str(message.get("role")), part


def _check_url(url: str, where: str, provider: str) -> None:
    if _LINK.fullmatch(url):
        return
    data = _DATA.fullmatch(url)
    if data is None or len(data["data"]) % 4:
        raise IllegalRequest(f"{provider}.image_url", f"{where}: {url[:60]!r}")
    # "The image was specified using the image/png media type, but appears to be image/jpeg".
    kind, really = data["type"], sniffed(base64.b64decode(data["data"][:64]))
    if kind not in FORMATS[provider] or really not in (kind, None):
        raise IllegalRequest(
            f"{provider}.image_type", f"{where} is {kind} by name, {really} inside"
        )
