"""Cuts long texts into chunks that an embedder reads whole.

Sizes are estimated from characters, so that a text has the same chunks whichever embedder is used
and no tokenizer is loaded for it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

LIMIT = 200
"""Estimated tokens of one chunk, at most. English prose is overestimated by about a half: its
chunks have some 130 MiniLM tokens, which is also the length this model was trained on."""

OVERLAP = 24
"""Estimated tokens, at most, that a chunk repeats of the one before it, so that a sentence that
straddles a cut is whole in one of them."""

_UNITS = re.compile(r"\s+|[A-Za-z]{1,16}|[\uac00-\ud7a3]|.", re.DOTALL)
_SHORT = 100
"""Characters that are surely one chunk: no character is estimated at more than two tokens."""

_CUTS = (
    re.compile(r"\n\s*\n\s*"),
    re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？｡]+[」』”’）]*|\n\s*"),  # noqa: RUF001
    re.compile(r"\s+|[、，；;,]"),  # noqa: RUF001
)
"""Where to cut, best first: paragraphs, sentences and lines, blanks."""


def chunks(text: str) -> list[str]:
    """The pieces of a text to be embedded, in order; a short text is one piece, a blank one none.

    Each piece is a part of the text as it stands; together they hold all of it. Neighbours overlap
    by at most `OVERLAP`. A piece has at most `LIMIT` estimated tokens. Ordinary text in any script
    then has at most 254 MiniLM tokens; any text at all has at most 510, the most that model can
    read. Never raises.
    """
    if not text or text.isspace():
        return []
    if len(text) <= _SHORT:
        return [text]
    ends = [unit.end() for unit in _UNITS.finditer(text)]
    # spent[i] is what the first i units cost; places[i] is where unit i begins.
    spent = [0, *accumulate(_cost(unit.group()) for unit in _UNITS.finditer(text))]
    places = [0, *ends]
    if spent[-1] <= LIMIT * 10:
        return [text]
    cuts = [{match.end() for match in cut.finditer(text)} for cut in _CUTS]
    found: list[str] = []
    start = 0
    while True:
        furthest = bisect_right(spent, spent[start] + LIMIT * 10) - 1
        if furthest == len(ends):
            found.append(text[places[start] :])
            return [chunk for chunk in found if not chunk.isspace()]
        # Not before the middle: many small chunks say less than few that are filled.
        middle = bisect_left(spent, spent[start] + LIMIT * 5)
        end = _last(range(middle, furthest + 1), places, cuts)
        found.append(text[places[start] : places[end]])
        earliest = bisect_left(spent, spent[end] - OVERLAP * 10)
        start = _first(range(earliest, end), places, cuts, end)


def _cost(unit: str) -> int:
    """Tenths of a token.

    MiniLM's vocabulary has most English words of up to 16 letters in one to three pieces, and never
    more pieces than characters: so 0.4 a letter is above ordinary text and never below two fifths
    of the truth. Any other character is a piece of its own at most, but for a Hangul syllable,
    which its normalisation takes apart into up to three.
    """
    if unit.isspace():
        return 0
    if "\uac00" <= unit <= "\ud7a3":
        return 20
    return max(10, 4 * len(unit))


def _last(within: range, places: list[int], cuts: list[set[int]]) -> int:
    """The last of those units that begins at the best kind of cut there is among them."""
    for kind in cuts:
        for unit in reversed(within):
            if places[unit] in kind:
                return unit
    return within[-1]


def _first(within: range, places: list[int], cuts: list[set[int]], otherwise: int) -> int:
    """The first of those units that begins a sentence, or else a word."""
    for kind in cuts[1:]:
        for unit in within:
            if places[unit] in kind:
                return unit
    return otherwise
