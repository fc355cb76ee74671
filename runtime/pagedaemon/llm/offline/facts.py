"""Which statements the offline model keeps, where they belong, and what they replace.

A statement is kept only if it has one of the plain forms below, or comes with "remember that" or
"from now on", so that "I'm tired" or "maybe I'll move to Rome" leaves no trace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pagedaemon.llm.offline.words import STOP, WORD, is_question, sentences, stripped

_ASKED = re.compile(
    r"^(?:please,? )?(?:remember|note|keep in mind|don't forget|do not forget|make a note)\b"
    r"(?! (?:when|how|what|who|where|why|the time)\b)(?: this)?[\s:,]*(?:that )?"
    r"|^from now on\b[\s:,]*",
    re.IGNORECASE,
)
_PUT = re.compile(
    r"^(?:please,? )?(?:save|add|write(?: down)?|put|store|archive)\b(?: this)?[\s:,]*(?:that )?",
    re.IGNORECASE,
)
_CLAUSES = re.compile(
    r"(?:[,;]?\s+(?:and|but)|[,;])\s+(?=(?:I|I'm|I've|my|we|our|call me|please call me)\b)",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:password|passcode|passphrase|credit card|card number|api key|secret key|pin code)\b",
    re.IGNORECASE,
)
_ADVERBS = r"(?:(?:also|really|now|still|always|usually|only|absolutely|just) )*"
_NAMED = re.compile(
    r"^(?:my (?:first |full )?name(?: is|'s)|(?:i am|i'm)(?: called)?"
    r"|(?:people |please )?call me|this is) (?P<value>.+)$",
    re.IGNORECASE,
)
_KEYED: tuple[tuple[re.Pattern[str], str, bool], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), key, exclusive)
    for pattern, key, exclusive in (
        (r"^(?:i am|i'm) (?P<value>\d{1,3})(?: years old)?$", "Age", True),
        (
            rf"^(?:i|i've|i have|i am|i'm) {_ADVERBS}(?:live|living|moved|relocated|based)"
            r"(?: now)? (?:in|to|at|near) (?P<value>.+)$",
            "Lives in",
            True,
        ),
        (r"^(?:i am|i'm|i come) from (?P<value>.+)$", "From", True),
        (rf"^i {_ADVERBS}work (?P<prep>as|at|for|in|on|with) (?P<value>.+)$", "Works", True),
        (rf"^(?:i am|i'm) {_ADVERBS}allergic to (?P<value>.+)$", "Allergic to", False),
        (rf"^i {_ADVERBS}like (?P<value>.+)$", "Likes", False),
        (rf"^i {_ADVERBS}love (?P<value>.+)$", "Loves", False),
        (rf"^i {_ADVERBS}prefer (?P<value>.+)$", "Prefers", False),
        (rf"^i {_ADVERBS}enjoy (?P<value>.+)$", "Enjoys", False),
        (
            rf"^i (?:don't|do not) {_ADVERBS}(?:like|enjoy) (?P<value>.+)$",
            "Dislikes",
            False,
        ),
        (rf"^i {_ADVERBS}(?:hate|dislike) (?P<value>.+)$", "Dislikes", False),
        (
            r"^(?:i have|i've got|i own) "
            r"(?P<value>(?:an?|one|two|three|four|five|six|\d+|several|many) .+)$",
            "Has",
            False,
        ),
        (
            r"^my (?P<key>[^\W\d_][\w' -]{0,39}?)(?: is| are|'s)(?: now)?(?: called| named)?"
            r" (?P<value>.+)$",
            "",
            True,
        ),
        (r"^(?:i am|i'm) (?P<value>(?:an? |the )?\S+(?: \S+){0,7})$", "Is", False),
    )
)
_OUR_RULE = re.compile(
    rf"^(?:our .+ (?:is|are) .+|we {_ADVERBS}(?:use|ship|meet|never|always)\b.*"
    rf"|we {_ADVERBS}(?P<verb>[a-z]+) (?:\S+ )?(?:on|at|in|with|every|by|using) .+)$",
    re.IGNORECASE,
)
_NO_RULE = frozenset(
    WORD.findall(
        "are came can could did do got had has have hope made may met might must need said saw"
        " should spoke talked think took want was went were will would"
    )
)
_POINTING = re.compile(r"^(?:her|him|how|it|that|them|this|what|when|you)\b", re.IGNORECASE)
_PASSING = re.compile(
    r"^(?:an? (?:bit|doubt|feeling|idea|little|lot|minute|moment|problem|question|request|second)\b"
    r"|the one\b|\w+ing\b)",
    re.IGNORECASE,
)
_MOODS = frozenset(
    WORD.findall(
        "able afraid bored busy confused curious done fine glad good great happy hungry ill late"
        " lost ok okay ready sad sick sorry sure tired well"
    )
    + WORD.findall(
        "about all also always at back here in just never not off on only really so still there to"
        " too very with"
    )
)
_NO_SUBJECT = frozenset(
    WORD.findall("bad bet fault feeling guess idea mistake pleasure point problem question turn")
)
_PARTICLES = frozenset(WORD.findall("al bin da de del den der di ibn la le ten ter van von y"))
_ORIGIN = re.compile(
    r"(?:ish|ese|ian|ean|ists?)$|^(?:African|American|Catholic|Cuban|Czech|Dane|Dutch|Finn|French"
    r"|German|Greek|Hindu|Mexican|Moroccan|Muslim|Pole|Swede|Swiss|Thai|Turk)$"
)
_PREPOSITIONS = frozenset(WORD.findall("are at by every for from in is on to with"))
_WEIGHTY = re.compile(
    r"\b(?:decid\w*|agree\w*|from now on|must|deadline|due|prefer\w*|plan\w*|promis\w*|remember"
    r"|important|never|always|maybe|probably|allerg\w*|birthday|because|instead|moved|changed)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement worth keeping."""

    line: str
    """As it will stand in a block."""
    place: str = ""
    """The label that was named, `archive`, or nothing."""
    shared: bool = False
    """About "us" and not about the person."""
    key: str = ""
    """What it is about, where the line is `Key: value`."""
    exclusive: bool = True
    """Whether there can be one only, so that a new one replaces the old."""


def facts(text: str, labels: Collection[str]) -> list[Fact]:
    """The statements worth keeping. Of two that exclude each other the later one counts.

    Args:
        labels: the blocks there are; one that is named is where the statement goes.
    """
    found: dict[tuple[str, str], Fact] = {}
    for sentence in sentences(text):
        if is_question(sentence) or _SECRET.search(sentence):
            continue
        place, rest = _place(stripped(sentence), labels)
        asked = _ASKED.match(rest)
        put = _PUT.match(rest) if place and asked is None else None
        preface = asked or put
        rest = rest[preface.end() :] if preface is not None else rest
        again = _ASKED.match(rest)  # "Please remember: from now on we …"
        rest = rest[again.end() :] if again is not None else rest
        for clause in _CLAUSES.split(rest):
            for fact in _facts_of(clause.strip(), place, preface is not None):
                subject = fact.key if fact.key and fact.exclusive else fact.line
                found[(fact.place, subject.lower())] = fact
    return list(found.values())


def _facts_of(clause: str, place: str, asked: bool) -> Sequence[Fact]:
    bare = clause.rstrip(" .!?,;\u3002\uff01\uff1f")
    if not bare or len(bare) > 300:
        return ()
    if re.match(r"(?:we|our)\b", bare, re.IGNORECASE):
        rule = _OUR_RULE.match(bare)
        verb = (rule["verb"] or "").lower() if rule is not None else ""
        standing = rule is not None and verb not in _NO_RULE and not verb.endswith("ed")
        return (Fact(_as_sentence(bare), place, shared=True),) if asked or standing else ()
    keyed = _name_of(bare) or _keyed(bare)
    if keyed:
        return tuple(
            Fact(f"{key}: {value}", place, key=key, exclusive=exclusive)
            for key, value, exclusive in keyed
        )
    return (Fact(_as_sentence(bare), place),) if asked else ()


def _name_of(clause: str) -> list[tuple[str, str, bool]]:
    match = _NAMED.match(clause)
    if match is None:
        return []
    words = match["value"].split()
    name: list[str] = []
    for word in words:
        if word[0].islower() and not (name and word in _PARTICLES):
            break
        name.append(word.strip(",.!"))
    told = re.match(r"my (?:first |full )?name\b", clause, re.IGNORECASE)
    if told and not name and len(words) == 1:
        name = words
    rest = words[len(name) :]
    surely = bool(told) or "call me" in clause.lower()
    plain = not rest or rest[0] in ("from", "by", "and")
    if not name or not name[0][0].isalpha() or len(name) > 4:
        return []
    if not surely and (not plain or len(name) > 3 or _ORIGIN.search(name[-1])):
        return []
    found = [("Name", " ".join(name), True)]
    if len(rest) > 1 and rest[0] == "from":
        found.append(("From", " ".join(rest[1:]), True))
    return found


def _keyed(clause: str) -> list[tuple[str, str, bool]]:
    for pattern, key, exclusive in _KEYED:
        match = pattern.match(clause)
        if match is None:
            continue
        value = match["value"].strip()
        parts = match.groupdict()
        if "key" in parts:
            key = parts["key"].strip().capitalize()
            if parts["key"].split()[-1].lower() in _NO_SUBJECT:
                return []
        elif _POINTING.match(value) or (key in ("Is", "Has") and _is_passing(value)):
            return []
        if "prep" in parts:
            key = f"{key} {parts['prep'].lower()}"
        return [(key, re.sub(r" (?:now|please)$", "", value), exclusive)]
    return []


def _is_passing(value: str) -> bool:
    first = WORD.match(value.lower())
    return _PASSING.match(value) is not None or (first is not None and first[0] in _MOODS)


def _place(sentence: str, labels: Collection[str]) -> tuple[str, str]:
    """The place a sentence names for itself, and the sentence without naming it.

    "For the team: …" names one only after "remember" or "add"; "in the team block" always does.
    """
    if re.match(r"(?:please,? )?archive\b", sentence, re.IGNORECASE):
        return "archive", sentence
    told = _ASKED.match(sentence) or _PUT.match(sentence)
    spelled = {label: re.escape(label) for label in labels}
    spelled.setdefault("archive", "(?:archive|archival|long-term)")
    for label, words in spelled.items():
        noun = r"(?: (?:block|notes|memory))" + ("?" if told else "")
        place = rf"\s*\b(?:in|into|to|for|on) (?:the |our |my |your )?{words}{noun}(?!\w)"
        match = re.search(place + r"[\s,:]*(?:that )?", sentence, re.IGNORECASE)
        if match is not None:
            return label, f"{sentence[: match.start()]} {sentence[match.end() :]}".strip()
    return "", sentence


def same_subject(new: Fact, unit: str) -> bool:
    """Whether a unit of a block says the same kind of thing, so that the new fact takes its place.

    Lines of one key do. Sentences do that begin alike up to a preposition or "is", and then differ:
    "We ship on Fridays." and "We ship on Thursdays.".
    """
    if new.key:
        return new.exclusive and unit.lower().startswith(f"{new.key.lower()}:")
    ours, theirs = _plain_words(new.line), _plain_words(unit)
    alike = 0
    while alike < min(len(ours), len(theirs)) and ours[alike] == theirs[alike]:
        alike += 1
    return alike >= 3 and ours[alike - 1] in _PREPOSITIONS


def weight(sentence: str) -> int:
    """How much a sentence deserves keeping: numbers, names, decisions, facts. 0 is small talk."""
    words: list[str] = WORD.findall(sentence)
    names = sum(word[0].isupper() and word.lower() not in STOP for word in words[1:])
    signs = (
        any(letter.isdigit() for letter in sentence),
        _WEIGHTY.search(sentence) is not None,
        bool(facts(sentence, ())),
    )
    other_script = bool(words) and not sentence.isascii()
    return min(names, 3) + 2 * sum(signs) + int(other_script)


def _as_sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _plain_words(text: str) -> list[str]:
    dropped = ("now", "always", "usually", "only", "still")
    return [word for word in map(str.lower, WORD.findall(text)) if word not in dropped]
