"""The same as others may have written it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.store.writings import apart, grouped, groups, hyphenated, joined, runs, stroked


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("1299", '"1 299"'),
        ("1234567", '"1 234 567"'),
        ("123456", '"123 456"'),
        ("01701234567", '"170 1234567"'),
        ("01701234567", '"0170 1234567"'),
        ("ABC1234", '"ABC 1234"'),
        ("45min", '"45 min"'),
        ("userNameField", '"user Name Field"'),
        ("HTTPServer2", '"HTTP Server 2"'),
        ("Schroedinger", '"schrodinger"'),
        ("Weissenburg", '"weißenburg"'),
        ("Mueller", '"muller"'),
        ("Straße", '"strasse"'),
        ("Müller", '"mueller"'),
        ("Mu\u0308ller", '"mueller"'),
        ("Koebenhavn", '"københavn"'),
        ("København", '"kobenhavn"'),
        ("Łódź", '"lódź"'),
        ("Aarhus", '"arhus"'),
        ("9783161484100", '"978 3 16 148410 0"'),
        ("0306406152", '"0 306 40615 2"'),
        ("080442957X", '"0 8044 2957 X"'),
    ],
)
def test_a_word_is_cut_and_spelled_as_others_write_it(word: str, other: str) -> None:
    assert other in apart(word)


@pytest.mark.parametrize("word", ["rent", "Rent", "123", "PROD", "лес", "a"])
def test_a_word_that_is_written_one_way_has_no_other(word: str) -> None:
    assert apart(word) == []


@pytest.mark.parametrize(
    ("word", "phrase"),
    [
        ("9783161484101", '"978 3 16 148410 1"'),
        ("9773161484107", '"977 3 16 148410 7"'),
        ("0306406153", '"0 306 40615 3"'),
        ("978316148410X", '"978 3 16 148410 X"'),
    ],
)
def test_what_is_no_number_of_a_book_is_not_cut_as_one(word: str, phrase: str) -> None:
    assert phrase not in apart(word)


def test_neighbours_are_joined_where_a_number_or_half_of_all_stand_nowhere() -> None:
    terms = ["set", "user", "name", "field"]
    found = dict(joined(terms, ["user", "field"], strange=True))
    assert found['"usernamefield"'] == ["user", "field"]
    assert list(joined(terms, ["user"], strange=False)) == []
    assert dict(joined(["the", "part", "ABC", "1234"], ["1234"], strange=False)) == {
        '"ABC1234"': ["1234"],
        '"partABC1234"': ["1234"],
    }


def test_a_single_letter_is_joined_to_what_stands_nowhere() -> None:
    assert dict(joined(["my", "new", "e", "mail"], ["mail"], strange=False)) == {
        '"email"': ["mail"],
        '"newemail"': ["mail"],
    }


def test_a_sum_is_joined_without_its_cents_where_it_has_none() -> None:
    found = dict(joined(["1", "299", "00"], ["299", "00"], strange=True))
    assert found['"1299"'] == ["299", "00"]
    assert dict(joined(["1", "299", "50"], ["299", "50"], strange=True))['"1299"'] == ["299"]


@pytest.mark.parametrize(
    "text",
    [
        "DE44 5001 0517 5407 3249 31",
        "GB29 NWBK 6016 1331 9268 19",
        "550e8400 e29b 41d4 a716 446655440000",
        "1 2 3 4 5 6 7 8 9",
    ],
)
def test_all_groups_of_a_number_are_joined(text: str) -> None:
    words = text.split()
    assert f'"{"".join(words)}"' in dict(joined(words, words[:1], strange=False))


def test_many_words_are_no_groups_of_a_number() -> None:
    words = ["flight", "1234567", "to", "Oslo", "on", "12"]
    assert max(len(term) for term, _ in joined(words, ["1234567"], strange=False)) == 17


def test_a_run_of_numbers_may_be_one_as_each_of_them_may() -> None:
    words = ["call", "040", "1234567", "or", "12", "34"]
    assert list(runs(words, ["1234567", "12"])) == [
        ("1234567", ["1234567"]),
        ("0401234567", ["1234567"]),
    ]


def test_a_number_is_cut_into_groups_that_stand_somewhere_the_fewest_first() -> None:
    assert groups("123") == ['"1"', '"12"', '"2"', '"23"', '"3"']
    known = {'"1"', '"12"', '"34"', '"234"', '"3"', '"4"', '"2"'}
    assert list(grouped("1234", known)) == [
        '"12 34"',
        '"1 234"',
        '"12 3 4"',
        '"1 2 34"',
        '"1 2 3 4"',
    ]
    assert list(grouped("1235", known)) == []


@given(st.lists(st.text("0129ab", min_size=1, max_size=12), min_size=2, max_size=9))
def test_whatever_the_groups_a_number_is_cut_into_them(parts: list[str]) -> None:
    number = "".join(parts)
    known = {f'"{part}"' for part in parts}
    assert f'"{" ".join(parts)}"' in set(grouped(number, known))
    assert known - {f'"{number}"'} <= set(groups(number))


@pytest.mark.parametrize(
    ("word", "pair"),
    [
        ("wifi", '"wi fi"'),
        ("email", '"e mail"'),
        ("Tshirt", '"T shirt"'),
        ("notebook", '"note book"'),
    ],
)
def test_a_word_may_be_a_pair(word: str, pair: str) -> None:
    assert pair in hyphenated(word)


@pytest.mark.parametrize(
    ("word", "pair"),
    [("island", '"is land"'), ("apart", '"a part"'), ("tailor", '"tail or"'), ("rat", '"r at"')],
)
def test_function_words_make_no_pair(word: str, pair: str) -> None:
    assert pair not in hyphenated(word)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("Lodz", '"łodz"'),
        ("Wladyslaw", '"władysław"'),
        ("Lublin", '"lubłin"'),
        ("Dakovo", '"đakovo"'),
    ],
)
def test_strokes_are_put_in_one_place_or_all(word: str, other: str) -> None:
    assert other in stroked(word)


@given(st.text("019aäoeßsSTZ", min_size=1, max_size=30))
def test_whatever_the_word_its_other_forms_are_few_and_are_terms(word: str) -> None:
    found = apart(word)
    assert len(found) <= 2 * len(word) + 64
    found += hyphenated(word) + stroked(word)
    assert all(one[0] == one[-1] == '"' and '"' not in one[1:-1] for one in found)
