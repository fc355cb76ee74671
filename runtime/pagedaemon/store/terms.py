"""What a text or a query is cut into: words, phrases, pairs of characters, signs.

Scripts written without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese) are cut into
overlapping pairs of characters, because a tokenizer that knows no words would take a sentence for
one, and SQLite's trigrams cannot find a word of two letters.

A query's terms are those of FTS5: a word, or words that stand together, in double quotes; with a
star behind where the last may go on.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice

from pagedaemon.store.function_words import says_little

MOST_TERMS = 64
"""Words of a query that are looked for; later ones are left out."""

MOST_CHARACTERS = 10_000
"""Characters of a query that are read."""

LONGEST_WORD = 8
"""Characters. A longer run of an unspaced script is taken for a sentence, looked for by its pairs
alone."""


def match_expression(query: str) -> str | None:
    """A query's words as an FTS5 expression; None if nothing in it is searchable.

    Words are joined by OR and what stands in double quotes must stand together. All else is taken
    as blank space, so that no text is a syntax error or a command.
    """
    return " OR ".join(query_terms(query)) or None


def query_terms(query: str) -> list[str]:
    """The terms of a query, each once, in its order."""
    return list(islice(dict.fromkeys(_terms(_folded(query[:MOST_CHARACTERS]))), MOST_TERMS))


def telling_terms(query: str) -> list[str]:
    """The terms of a query that are no function words; all of them where it has no others."""
    terms = _terms(_folded(query[:MOST_CHARACTERS]), function_words=False)
    return list(islice(dict.fromkeys(terms), MOST_TERMS)) or query_terms(query)


def neighbours(query: str) -> list[str]:
    """The words of a query in their order, as often as they stand there, without function words
    but for single letters, as in "e-mail"."""
    text = _SHORTENED.sub(" ", _folded(query[:MOST_CHARACTERS]))
    kept = (word for word in _searchable(text) if len(word) == 1 or not says_little(word))
    return list(
        islice((word for word in kept if word not in _LONE and not has_unspaced(word)), MOST_TERMS)
    )


_LONE = ("a", "A", "i", "I")
"""Letters that are words."""

_SHORTENED = re.compile(r"(?<=\w)['\u2019](?:s|t|d|m|ll|re|ve)\b", re.IGNORECASE)
"""What an apostrophe leaves of a word."""


def signs(query: str) -> list[str]:
    """The signs of a query beyond ASCII, each run as it stands in texts: emoji, arrows, currencies.
    The index has none of them."""
    text = _folded(query[:MOST_CHARACTERS])
    if text.isascii():
        return []
    kept = (char if _is_sign(char) else " " for char in text.replace(_AS_PICTURE, ""))
    return list(islice(dict.fromkeys("".join(kept).split()), MOST_TERMS))


_AS_PICTURE = "\ufe0f"
"""Asks for a sign to be drawn in colour; it is written or not."""


def _is_sign(char: str) -> bool:
    if char.isascii():
        return False
    return unicodedata.category(char) in ("So", "Sc", "Sk", "Sm") or char == "\u200d"


def has_unspaced(text: str) -> bool:
    """Whether something in it is of a script that is written without spaces."""
    return _UNSPACED.search(text) is not None


def words_of(text: str) -> list[str]:
    """The words of a text as it is written, pairs of characters where it has no spaces."""
    return _WORD.findall(as_indexed(text))


_WORD = re.compile(r"[^\W_]+")


def as_indexed(text: str) -> str:
    """A text as the index is given it: with pairs of characters where it has no spaces."""
    return text if text.isascii() else _UNSPACED.sub(_apart, _folded(text))


def _apart(match: re.Match[str]) -> str:
    # The last character begins no pair; alone, it is found by those who look for it alone.
    run = match[0]
    return f" {' '.join([*_pairs(run), run[-1]])} "


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _folded(text: str) -> str:
    """Full-width letters, ligatures and the like become the ordinary ones; optional points go."""
    return text if text.isascii() else _POINTS.sub("", unicodedata.normalize("NFKC", text))


_UNSPACED = re.compile(
    "(["
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59"  # Thai
    "\u0e81-\u0edf"  # Lao
    "\u1000-\u1049\u1050-\u109f"  # Burmese
    "\u1100-\u11ff\uac00-\ud7fb"  # Hangul
    "\u1780-\u17d3"  # Khmer
    "\u3005-\u3007\u3021-\u3029\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"  # Han, the rarer ones
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Kana
    "]+)"
)

# Vowel points, written or not at the writer's pleasure.
_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]")

_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”')


def _terms(text: str, *, function_words: bool = True) -> Iterator[str]:
    at = 0
    for quoted in _QUOTED.finditer(text):
        yield from _loose(text[at : quoted.start()], function_words)
        yield from _phrase(quoted[1] or quoted[2] or "")
        at = quoted.end()
    yield from _loose(text[at:], function_words)


def _loose(text: str, function_words: bool) -> Iterator[str]:
    for word in _searchable(text):
        for part in filter(None, _UNSPACED.split(word)):
            if not _UNSPACED.match(part):
                if function_words or not says_little(part):
                    yield f'"{part}"'
            elif len(part) == 1:
                yield f'"{part}"*'
            else:
                pairs = _pairs(part)
                if 1 < len(pairs) < LONGEST_WORD:
                    yield f'"{" ".join(pairs)}"'
                yield from (f'"{pair}"' for pair in pairs)


def _phrase(text: str) -> Iterator[str]:
    parts = [part for word in _searchable(text) for part in _UNSPACED.split(word) if part]
    if not parts:
        return
    # A run at the end may go on in the text, so there it is looked for without the single last
    # character.
    last = parts[-1]
    open_end = _UNSPACED.match(last) is not None
    tokens = [as_indexed(part) for part in parts[:-1]]
    tokens.append(" ".join(_pairs(last)) or last if open_end else last)
    yield f'"{" ".join(tokens)}"' + ("*" if open_end and len(last) == 1 else "")


def _searchable(text: str) -> list[str]:
    """What the index's tokenizer would find, marks that stand alone left out."""
    if text.isascii():  # as most queries are, which takes a tenth of the time
        return _ASCII_WORD.findall(text)
    kept = (char if _is_letter(char) or _is_mark(char) else " " for char in text)
    return [word for word in "".join(kept).split() if any(map(_is_letter, word))]


_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")


def _is_letter(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LN" or category == "Co"


def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Mc")
