"""The same as others may have written it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.store.writings import apart, joined


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
    ],
)
def test_a_word_is_cut_and_spelled_as_others_write_it(word: str, other: str) -> None:
    assert other in apart(word)


@pytest.mark.parametrize("word", ["rent", "Rent", "123", "PROD", "лес", "a"])
def test_a_word_that_is_written_one_way_has_no_other(word: str) -> None:
    assert apart(word) == []


def test_neighbours_are_joined_where_a_number_or_half_of_all_stand_nowhere() -> None:
    terms = ["set", "user", "name", "field"]
    found = dict(joined(terms, ["user", "field"]))
    assert found['"usernamefield"'] == ["user", "field"]
    assert list(joined(terms, ["user"])) == []
    assert dict(joined(["the", "part", "ABC", "1234"], ["1234"])) == {
        '"ABC1234"': ["1234"],
        '"partABC1234"': ["1234"],
    }


@given(st.text("019aäoeßsSTZ", min_size=1, max_size=30))
def test_whatever_the_word_its_other_forms_are_few_and_are_terms(word: str) -> None:
    found = apart(word)
    assert len(found) <= 2 * len(word) + 32
    assert all(one[0] == one[-1] == '"' and '"' not in one[1:-1] for one in found)
