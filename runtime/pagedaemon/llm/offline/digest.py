"""The offline model's summaries: the weightiest sentences as they are, never a word of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pagedaemon.llm.offline.facts import weight
from pagedaemon.llm.offline.words import is_question, plain, sentences

DEFAULT_WORDS = 200
"""How long a summary may be where the request names no number of words."""

_KEPT = 1_000
"""Weight of what stood in notes before: it goes only when nothing else is left to go."""

_NOTES = re.compile(r"^<notes>\n(.*?)\n</notes>$", re.DOTALL | re.MULTILINE)
_MESSAGES = re.compile(r"^<messages>\n(.*)\n</messages>$", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"^#\d+ (?P<head>.+?): (?P<text>.*(?:\n  .*)*)", re.MULTILINE)
_WORDS = re.compile(r"at most (\d+) words")


def summary_of(request: str) -> str:
    """The answer to a request of `summary/request`: the earlier notes, then
    the sentences with names, numbers, decisions and facts. Text of no known form counts as one
    message."""
    messages = _MESSAGES.search(request)
    ahead = request if messages is None else request[: messages.start()]
    scored = [
        (_KEPT, line) for notes in _NOTES.findall(ahead) for line in notes.split("\n") if line
    ]
    transcript = messages[1] if messages is not None else "" if scored else request
    entries = [(f"{entry['head']}: ", entry["text"]) for entry in _ENTRY.finditer(transcript)]
    if not entries and transcript.strip():
        entries = [("", transcript)]
    for head, text in entries:
        scored.extend((weight(plain(line)), head + line) for line in sentences(text))
    named = _WORDS.search(request)
    return _within(scored, int(named[1]) if named is not None else DEFAULT_WORDS)


def notable(texts: Iterable[str], most: int) -> list[str]:
    """The sentences worth saving, in their order and once each; questions are not."""
    found: dict[str, int] = {}
    for text in texts:
        for sentence in sentences(text):
            if not is_question(plain(sentence)) and (score := weight(plain(sentence))) > 0:
                found.setdefault(sentence, score)
    best = sorted(found, key=lambda sentence: -found[sentence])[:most]
    return [sentence for sentence in found if sentence in best]


def _within(scored: Sequence[tuple[int, str]], most: int) -> str:
    """Lines of some weight, in order, as many of the weightiest as fit; else the first, cut."""
    chosen: set[int] = set()
    left = most
    for index in sorted(range(len(scored)), key=lambda index: -scored[index][0]):
        score, line = scored[index]
        length = len(line.split())
        if length <= left and (score > 0 or not chosen):
            chosen.add(index)
            left -= length
    if not chosen and scored:
        return " ".join(scored[0][1].split()[:most])
    return "\n".join(scored[index][1] for index in sorted(chosen))
