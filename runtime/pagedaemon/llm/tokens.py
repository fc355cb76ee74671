"""How many tokens a request will have, without asking anyone.

Two measures with one shape: a *count* by a real tokenizer, loaded at its first use, and a *bound*
by bytes, which costs nothing and is never below the count. What both miss, a provider's own
template and tokenizer, is learnt from the usage it reports (`Correction`).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pagedaemon.llm.protocol import WireMessage, WireTool
from pagedaemon.llm.ranks import EncodingName, encoding, encoding_name
from pagedaemon.media import size_in_data_url

PER_MESSAGE = 3
"""Tokens around each message. OpenAI Cookbook, "How to count tokens with tiktoken"."""

PER_NAME = 1
"""Tokens of a message's `name` beside its text (the same source)."""

PER_REQUEST = 3
"""Tokens that begin the reply, once per request (the same source)."""

PER_CALL = 8
"""Tokens around a tool call's name and arguments: our own, from the templates of open models."""

PER_TOOL = 8
"""Tokens around one tool's schema: our own, above what OpenAI's compact form costs."""

TOOLS = 16
"""Tokens around all schemas together, where there are any: our own."""

IMAGE_LOW = 85
"""Tokens of an image with `detail: "low"`. OpenAI, "Images and vision", models that count tiles."""

PER_TILE = 170
"""Tokens of each tile of any other image, on top of `IMAGE_LOW` (the same source)."""

TILE, LONG_SIDE, SHORT_SIDE = 512, 2_048, 768
"""Pixels: a tile's side, and what an image is scaled down to before it is cut (the same source)."""

IMAGE = 1_445
"""Tokens of an image whose size is not known, as behind a URL: the most there can be, 8 tiles."""

_LONGEST_RUN = 1_000
"""Characters without a break (or of white space alone) that are tokenized at once: tiktoken takes
quadratic time over one unbroken piece, and 0.1 % is lost by a cut."""

_LONG_RUN = re.compile(rf"(?<!\S)\S{{{_LONGEST_RUN + 1}}}|(?<!\s)\s{{{_LONGEST_RUN + 1}}}")
_CUT = re.compile(rf"\S{{{_LONGEST_RUN}}}(?=\S)|\s{{{_LONGEST_RUN}}}(?=\s)")

Measure = Callable[[str], int]


class TokenCounter:
    """Counts for one model, offline. Cheap to make; results are not cached here.

    Args:
        model: its name, with or without the provider. OpenAI's models are counted with their own
            encoding, all others with o200k_base.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._encoding: EncodingName | None = None

    def count(self, text: str) -> int:
        """Tokens of a text. Names of special tokens in it count as the plain text they are.

        The first use loads the tokenizer (0.3 s, 80 MB). Where there is none: `estimate`.
        """
        if self._encoding is None:
            self._encoding = encoding_name(self._model)
        tokenizer = encoding(self._encoding)
        if tokenizer is None:
            return estimate(text)
        return sum(len(tokenizer.encode_ordinary(piece)) for piece in _pieces(text))

    def bound(self, text: str) -> int:
        """The bytes of a text in UTF-8: no byte-level tokenizer makes more tokens of it."""
        return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))

    def message_tokens(self, wire: WireMessage) -> int:
        """Tokens of one message with what stands around it; `PER_REQUEST` comes once on top."""
        return _message(wire, self.count)

    def message_bound(self, wire: WireMessage) -> int:
        """The same by bytes."""
        return _message(wire, self.bound)

    def tools_tokens(self, tools: Sequence[WireTool]) -> int:
        """Tokens of the tools' schemas. 0 without tools.

        Counted as JSON with spaces, which is what open models' templates show; OpenAI's own form is
        shorter.
        """
        return _tools(tools, self.count)

    def tools_bound(self, tools: Sequence[WireTool]) -> int:
        """The same by bytes."""
        return _tools(tools, self.bound)


def image_tokens(width: int | None, height: int | None, detail: str | None = None) -> int:
    """Tokens of an image by OpenAI's rule for models that count tiles.

    Scaled down to fit a square of 2,048 pixels, then until its short side has 768, it is cut into
    square tiles of 512: 85, and 170 for each. `detail="low"` is 85 whatever the size; an unknown
    size counts as the largest (`IMAGE`). Other providers count otherwise, most of them less: what
    they report corrects it (`Correction`).

    Source: OpenAI, "Images and vision", "Calculating costs".
    """
    if detail == "low":
        return IMAGE_LOW
    if width is None or height is None:
        return IMAGE
    scale = min(1.0, LONG_SIDE / max(width, height), SHORT_SIDE / min(width, height))
    across, down = (max(1, math.ceil(round(side * scale) / TILE)) for side in (width, height))
    return min(IMAGE, IMAGE_LOW + PER_TILE * across * down)


def without_images(messages: Sequence[WireMessage]) -> tuple[list[WireMessage], int]:
    """Messages whose images are left out, and the tokens of these: for whoever estimates the rest
    by its length."""
    shown: list[WireMessage] = []
    tokens = 0
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            tokens += sum(_part(part, len) for part in content if _is_image(part))
            content = [part for part in content if not _is_image(part)]
            message = {**message, "content": content}
        shown.append(message)
    return shown, tokens


def estimate(text: str) -> int:
    """Tokens of a text by script, where no tokenizer is at hand; meant to err upwards.

    In tokens per character: ASCII letters and white space 1/4, other ASCII (digits, punctuation)
    2/3, two bytes (Cyrillic, Greek, Arabic, accented Latin) 1/2, three bytes (Chinese, Japanese,
    Korean, Thai, Devanagari) 1, four bytes (emoji) 2. Our own; compared with o200k_base in the
    tests.
    """
    return math.ceil(sum(count * _weight(letter) for letter, count in Counter(text).items()))


def _weight(letter: str) -> float:
    if letter.isascii():
        return 1 / 4 if letter.isalpha() or letter.isspace() else 2 / 3
    if letter < "\u0800":
        return 1 / 2
    return 1.0 if letter < "\U00010000" else 2.0


@dataclass(frozen=True, slots=True)
class Correction:
    """What providers' reports taught about our counts: a factor per model. A value; learning makes
    another.

    With r = reported / counted: up at once, `f' = r` for r > f, so that no request is refused for
    the same reason twice; down slowly, `f' = f + DECAY (r - f)`, because a short request with a
    heavy template says little about a long one. f never falls below 1: a count may be too high,
    never too low. An r above `HIGHEST` counts as that; an r below `LOWEST` is ignored, since it
    comes from servers that report only what was not in their cache.
    """

    factors: Mapping[str, float] = field(default_factory=dict)

    DECAY: ClassVar[float] = 0.1
    LOWEST: ClassVar[float] = 0.5
    HIGHEST: ClassVar[float] = 4.0

    def factor(self, model: str) -> float:
        """What counts for that model are multiplied with; 1.0 before anything was learnt."""
        return self.factors.get(model, 1.0)

    def corrected(self, model: str, tokens: int) -> int:
        """A count times the factor, rounded up."""
        return math.ceil(tokens * self.factor(model))

    def learn(self, model: str, reported: int, counted: int) -> Correction:
        """With one more report.

        Args:
            model: its name.
            reported: prompt tokens by the provider; 0 or less teaches nothing.
            counted: our own uncorrected count of the same request; 0 or less teaches nothing.
        """
        if reported <= 0 or counted <= 0:
            return self
        ratio = min(reported / counted, self.HIGHEST)
        if ratio < self.LOWEST:
            return self
        old = self.factor(model)
        new = ratio if ratio > old else max(1.0, old + self.DECAY * (ratio - old))
        return self if new == old else Correction({**self.factors, model: new})


def _pieces(text: str) -> list[str]:
    if len(text) <= _LONGEST_RUN or _LONG_RUN.search(text) is None:
        return [text]
    pieces: list[str] = []
    start = 0
    for match in _CUT.finditer(text):
        pieces.append(text[start : match.end()])
        start = match.end()
    pieces.append(text[start:])
    return pieces


def _message(wire: WireMessage, measure: Measure) -> int:
    tokens = PER_MESSAGE
    for key, value in wire.items():
        if value is None:
            continue
        if key == "content":
            tokens += _content(value, measure)
        elif key == "tool_calls":
            tokens += sum(_call(call, measure) for call in value)
        else:
            tokens += measure(value if isinstance(value, str) else _json(value))
            tokens += PER_NAME if key == "name" else 0
    return tokens


def _content(content: object, measure: Measure) -> int:
    if isinstance(content, str):
        return measure(content)
    if not isinstance(content, Sequence):
        return measure(_json(content))
    return sum(_part(part, measure) for part in content)


def _part(part: object, measure: Measure) -> int:
    if isinstance(part, Mapping):
        if _is_image(part):
            image = part.get("image_url")
            return _image(image if isinstance(image, Mapping) else {})
        if isinstance(part.get("text"), str):
            return measure(part["text"])
    return measure(part if isinstance(part, str) else _json(part))


def _is_image(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "image_url"


def _image(image: Mapping[str, Any]) -> int:
    size = size_in_data_url(str(image.get("url")))
    width, height = (None, None) if size is None else size
    return image_tokens(width, height, image.get("detail"))


def _call(call: Mapping[str, Any], measure: Measure) -> int:
    function = call["function"]
    own = PER_CALL + measure(function["name"]) + measure(function["arguments"])
    return own + measure(call.get("id", ""))


def _tools(tools: Sequence[WireTool], measure: Measure) -> int:
    if not tools:
        return 0
    return TOOLS + sum(PER_TOOL + measure(_json(tool)) for tool in tools)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
