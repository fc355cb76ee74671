"""A word that stands nowhere finds what it may have meant, and no other word finds more than it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.texts import Find, Put, matched, owners, store

from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.spelling import (
    MANY,
    MESSAGES,
    MOST_READ,
    TOO_MANY,
    _apart_by_one,
    _is_slip,
    compounds,
    slips,
)
from pagedaemon.store.transaction import Transaction


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    pool = StorePool()
    database = Database.open(tmp_path / "space.db", space="lin", pool=pool)
    database.write_now(owners)
    yield database
    database.close()
    pool.close()


@pytest.fixture
def put(database: Database) -> Put:
    """Stores messages, by name, and makes them searchable."""
    return lambda **texts: database.write_now(lambda tx: store(tx, texts))


@pytest.fixture
def find(database: Database) -> Find:
    """Names of the messages that a query finds, best first."""
    return lambda query: database.read_now(lambda tx: matched(tx, "message", query))


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("the Kubernetes cluster is down", "kuberntes"),
        ("the Kubernetes cluster is down", "Kubernetse"),
        ("we adopted a golden retriever", "retreiver"),
        ("my appointment with the dentist", "dentisst"),
        ("she told three stories", "stroies"),
        ("Zürich im Frühling", "Zurihc"),
        ("a flight to Kraków", "Krakwo"),
        ("die Krankenversicherung zahlt", "Versicherung"),
        ("die Krankenversicherung zahlt", "Kranken"),
        ("die Versicherung zahlt", "Krankenversicherung"),
        ("Donaudampfschifffahrt", "Dampfschiff"),
        ("meine Telefonnummer", "Nummer"),
        ("die Grundschule am Ort", "Schule"),
        ("unsere neue Stehlampe", "Lampe"),
        ("die Geburtstagsfeier", "Feier"),
        ("eine Zahnbürste", "Bürste"),
        ("eine Lampe", "Stehlampe"),
        ("a day of snowboarding", "boarding"),
        ("a day of mountainbiking", "biking"),
        ("one of her love stories", "story"),
        ("in the countrysides", "sides"),
    ],
)
def test_one_slip_or_part_of_a_compound_is_found(
    put: Put, find: Find, stored: str, query: str
) -> None:
    put(it=stored, other="nothing of the kind")
    assert find(query) == ["it"]


@pytest.mark.parametrize(
    "query", ["plant", "planet", "kubirneetez", "ubernetes", "cat", "hauses", "12345", "abc1d"]
)
def test_what_is_further_away_is_not(put: Put, find: Find, query: str) -> None:
    put(it="the airport of Kubernetes, cut, plainly 12346 abc2d")
    assert find(query) == []


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("I sing in the choir", "crossing"),
        ("I sing in the choir", "housing"),
        ("a terrible din", "dinner"),
        ("a small thing", "clothing"),
        ("my hometown", "owner"),
        ("ten percent", "center"),
        ("we moved to Boston", "stone"),
        ("it took the rest of the day", "forest"),
    ],
)
def test_what_only_ends_alike_is_no_part(put: Put, find: Find, stored: str, query: str) -> None:
    put(it=stored)
    assert find(query) == []


def test_of_many_that_end_like_the_stem_of_a_word_those_of_most_texts_are_read(
    put: Put, find: Find
) -> None:
    heads = [f"{one}{other}x" for one in "bcdfghjk" for other in "aeiouy"]
    put(
        **{f"n{at}": f"{head}fei" for at, head in enumerate(heads)},
        one="Geburtstagsfeier",
        two="noch eine Geburtstagsfeier",
    )
    assert len(heads) > MOST_READ
    assert set(find("Feier")) == {"one", "two"}


def test_a_word_that_stands_somewhere_means_itself(put: Put, find: Find) -> None:
    put(plane="a plane", plant="a plant", planes="two plants and a planet")
    assert find("plane") == ["plane"]
    assert set(find("planr")) == {"plane", "plant", "planes"}


def test_beside_words_that_are_found_a_slip_counts_and_a_compound_does_not(
    put: Put, find: Find
) -> None:
    put(both="the golden retriever", one="golden days", long="Zollversicherung")
    assert find("golden retreiver") == ["both", "one"]
    assert set(find("golden versicherung")) == {"one", "both"}


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("abcde", "abcde", True),
        ("abcde", "abde", True),
        ("abcde", "abxcde", True),
        ("abcde", "abxde", True),
        ("abcde", "acbde", True),
        ("abcde", "abced", True),
        ("abcde", "acdbe", False),
        ("abcde", "abc", False),
        ("abcde", "axcye", False),
    ],
)
def test_one_edit_is_one_edit_in_both_directions(one: str, other: str, near: bool) -> None:
    assert (_apart_by_one(one, other), _apart_by_one(other, one)) == (near, near)


@given(st.text("abcd", max_size=6), st.data())
def test_every_edit_of_a_word_is_one_edit_away(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word)))
    put_in = f"{word[:at]}x{word[at:]}"
    changed = f"{word[:at]}x{word[at + 1 :]}"
    left_out = word[:at] + word[at + 1 :]
    swapped = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    for other in (put_in, changed, left_out, swapped):
        assert _apart_by_one(word, other)


@given(st.text("abc", min_size=5, max_size=8), st.text("abc", min_size=4, max_size=8))
def test_what_is_passed_over_at_a_glance_is_no_slip(word: str, rest: str) -> None:
    stem = f"{word[0]}{rest}"
    near = any(
        _apart_by_one(begin, stem)
        for begin in (word[:size] for size in range(max(5, len(word) - 3), len(word) + 1))
    )
    assert _is_slip(word, stem) or not near


def test_the_words_of_most_texts_come_first_and_few_in_all(database: Database, put: Put) -> None:
    put(**{f"m{n}": f"planet{chr(97 + n % 8)} planeta" for n in range(16)})
    found = database.read_now(lambda tx: slips(tx, MESSAGES, "planetz"))
    assert found[0] == ("planeta", 16)
    assert len(found) == 5
    assert database.read_now(lambda tx: compounds(tx, MESSAGES, "plan")) == [], "too short"


@given(
    st.sets(st.text("abxyzü", min_size=4, max_size=8), min_size=40, max_size=60),
    st.text("abxyz", min_size=5, max_size=8),
)
@settings(max_examples=40, deadline=None)
def test_slips_are_the_same_however_many_texts_there_are(
    tmp_path_factory: pytest.TempPathFactory, words: set[str], word: str
) -> None:
    pool = StorePool()
    path = tmp_path_factory.mktemp("slips") / "space.db"
    database = Database.open(path, space="lin", pool=pool)

    def work(tx: Transaction) -> None:
        owners(tx)
        near = {word[:2] + word[3:], word[0] + word[2] + word[1] + word[3:], f"{word[0]}q{word}"}
        store(tx, {f"m{at}": one for at, one in enumerate(sorted(words | near))})
        assert slips(tx, MESSAGES, word, MANY) == slips(tx, MESSAGES, word)

    database.write_now(work)
    database.close()
    pool.close()


def test_among_very_many_texts_what_stands_within_a_compound_is_not_looked_for(
    database: Database, put: Put
) -> None:
    put(one="Versicherungsvertrag", other="Krankenversicherung", part="Kranken")

    def parts(word: str, texts: int) -> set[str]:
        found = database.read_now(lambda tx: compounds(tx, MESSAGES, word, texts))
        return {part for part, _ in found}

    few, many = TOO_MANY, TOO_MANY + 1
    assert parts("versicherung", few) == {"krankenversicherung", "versicherungsvertrag"}
    assert parts("versicherung", many) == {"versicherungsvertrag"}
    assert parts("krankenversicherungen", many) == {"kranken", "krankenversicherung"}
