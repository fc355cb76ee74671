"""What little English the offline model knows: sentences, questions, greetings, overlap of words.

Apostrophes are straight here: `plain` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!e\.g\.)(?<!i\.e\.)\s+"
    r"|(?<=[\u3002\uff01\uff1f])\s*|\n+"
)
_ASKING = re.compile(
    r"(?:(?:what(?! a\b)|when|where|who|whom|whose|which|why|how(?! (?:nice|lovely|great|sad)\b))\b"
    r"(?! (?:i|we|you|he|she|it|they|my|our|the)\b)"
    r"|(?:please )?(?:tell me|search|look up|look for|find|recall)\b)",
    re.IGNORECASE,
)
_INVERTED = re.compile(
    r"(?:do|does|did|is|are|was|were|can|could|have|has) (?:you|i|we|they|he|she|my|our|the)\b",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:can|could|would|will) you (?:please )?"
    r"(?=(?:remember|note|keep in mind) (?:that|this)\b|(?:save|add|put|store|write)\b)",
    re.IGNORECASE,
)
_SELF = re.compile(
    r"\b(?:(?:who|what) (?:exactly )?are you|about yourself"
    r"|are you (?:an?|the|real|human|alive|chatgpt|gpt|claude|gemini)\b"
    r"|(?:what|which) (?:kind of |language |ai )*model\b|what can you do|how do you work)",
    re.IGNORECASE,
)
_ABOUT_ME = re.compile(r"\b(?:about me|who am i|who i am|know me)\b", re.IGNORECASE)
_HELLO = re.compile(
    r"^(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening))\b"
    r"(?: there| [^\W\d_]\w*(?=[,!]))?[\s,!.:;-]*",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:thanks|thank you|okay|ok|yes|no|well|so|oh|by the way|btw|actually|also|and|but)"
    r"[,!.:;-]+\s*",
    re.IGNORECASE,
)
WORD = re.compile(r"[^\W_]+(?:[-'.][^\W_]+)*")
_SMALL_WORDS = (
    "a about again all also an and any anything as at be been before but by earlier ever for from"
    " if in into it its of on or so something than that the then there these this those to up yet"
)
_PEOPLE = "he her him his i i'm i've me my our she their them they us we you your"
_VERBS = (
    "am are can could did do does find get had has have is know look mention mentioned please"
    " recall remember remind said say search should talked tell told was were will with would"
)
_ASKERS = "how what what's when when's where where's which who who's whom whose why"
STOP = frozenset(
    word for group in (_SMALL_WORDS, _PEOPLE, _VERBS, _ASKERS) for word in WORD.findall(group)
)
_KEY_LINE = re.compile(r"^[^\W\d_][\w'\u2019 -]{0,40}:\s")


def plain(text: str) -> str:
    """The text with straight apostrophes."""
    return text.replace("\u2019", "'")


def sentences(text: str) -> list[str]:
    """The text in sentences, without empty ones."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def questions(text: str) -> list[str]:
    """The sentences that ask something."""
    return [sentence for sentence in sentences(text) if is_question(sentence)]


def is_question(sentence: str) -> bool:
    """By its mark, or by its first word."""
    if _POLITE.match(sentence):
        return False
    marked = sentence.rstrip(" \"')").endswith(("?", "\uff1f"))
    bare = stripped(sentence)
    return marked or any(form.match(bare) is not None for form in (_ASKING, _INVERTED))


def asks_what_it_is(text: str) -> bool:
    """Whether the model itself is asked about."""
    return _SELF.search(text) is not None


def asks_about_person(text: str) -> bool:
    """Whether someone wants to know what is known of them."""
    return _ABOUT_ME.search(text) is not None


def is_greeting(text: str) -> bool:
    """Nothing but a greeting."""
    return _HELLO.match(text) is not None and not stripped(text)


def content_words(text: str) -> list[str]:
    """The words that carry the meaning, once each, in order."""
    words: dict[str, str] = {}
    for word in WORD.findall(text):
        bare = re.sub(r"'s$", "", word)
        if word.lower() not in STOP and bare.lower() not in STOP:
            words.setdefault(bare.lower(), bare)
    return list(words.values())


def stem(word: str) -> str:
    """A word without its ending, so that "ships", "shipping" and "shipped" meet."""
    word = re.sub(r"'s$", "", word.lower())
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    word = re.sub(r"(.)\1$", r"\1", word.removesuffix("e"))
    return re.sub(r"y$", "i", word)


def stems(text: str) -> frozenset[str]:
    """The endings-free content words."""
    return frozenset(stem(word) for word in content_words(text))


def units(value: str) -> list[str]:
    """A block's value in statements, each a piece of it to the letter: `Key: value` lines, or
    sentences."""
    found: list[str] = []
    for line in value.split("\n"):
        text = line.strip().removeprefix("- ").strip()
        found.extend([text] if _KEY_LINE.match(text) else sentences(text))
    return found


def is_blank(unit: str) -> bool:
    """A line that only holds a place, such as `Name: unknown`."""
    return re.search(r":\s*(?:unknown|nothing yet|none|-)?\.?$", unit, re.IGNORECASE) is not None


def best_matching(question: str, candidates: Iterable[str]) -> list[str]:
    """The candidates that share most words with the question: at least half of its words."""
    wanted = set(stems(question))
    if len(wanted) > 1:
        wanted.discard(stem("name"))
    if not wanted:
        return []
    scored = [(len(wanted & stems(text)) / len(wanted), text) for text in candidates]
    best = max((score for score, _ in scored), default=0.0)
    return [text for score, text in scored if score == best] if best >= 0.5 else []


def stripped(sentence: str) -> str:
    """The sentence without its greeting, its "well," and its "could you please"."""
    bare = sentence.strip()
    while match := _HELLO.match(bare) or _FILLER.match(bare):
        bare = bare[match.end() :]
    return _POLITE.sub("", bare)
