"""What of a query is looked for, and how much of it a text covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.store.texts import Find, Put, matched, owners, store

from pagedaemon.store import asking, fulltext, recall
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.recall import MessageFilter
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
    return lambda agent="ada", **texts: database.write_now(lambda tx: store(tx, texts, agent))


@pytest.fixture
def find(database: Database) -> Find:
    """Names of the messages that a query finds, best first."""
    return lambda query: database.read_now(lambda tx: matched(tx, "message", query))


def test_words_that_too_many_have_count_only_beside_what_has_the_rarer_ones(
    put: Put, find: Find
) -> None:
    others = {f"ada{n}": "Ada: nothing much" for n in range(asking.LEAST_COMMON)}
    put(
        asked="Bob: so, where?",
        answer="Ada: by the lake",
        then="Bob: a kayak?",
        yes="Ada: yes",
        **others,
        late="Bob: the lake",
    )
    assert find("Ada kayak") == ["then", "yes", "answer"], "and none of all else that she said"
    assert find("kayak") == ["then"]
    assert len(find("Ada")) == len(others) + 2, "where there is no rarer word"
    assert len(find("Ada unheardof")) == len(others) + 2


def test_in_few_messages_no_word_is_too_common(put: Put, find: Find) -> None:
    put(a="Ada: by the lake", b="Ada: a kayak", c="Ada: nothing", d="Ada: much")
    assert set(find("Ada kayak")) == {"a", "b", "c", "d"}


def test_what_words_do_not_find_is_told_from_what_they_find_of_ones_own(
    put: Put, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MOST_MATCHES", 10)
    put("bob", **{f"b{n}": f"the harbour {n}" for n in range(40)})
    put(mine="our harbour", other="a lake")
    given = MessageFilter("ada")
    words = "unheardof harbour"

    def work(tx: Transaction) -> tuple[list[str], list[str]]:
        others = recall.passing(given).not_found(
            tx, recall.searched(given), words, without=(), offset=0, limit=9
        )
        return list(recall.searched(given).matches(tx, words).scores), others

    assert database.read_now(work) == (["mine"], ["other"])


_SAME = [
    ("4111111111111111", "4111 1111 1111 1111"),
    ("4111111111111111", "4111-1111-1111-1111"),
    ("DE44500105175407324931", "DE44 5001 0517 5407 3249 31"),
    ("GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19"),
    ("9783161484100", "978-3-16-148410-0"),
    ("0401234567", "040-12-34-56-7"),
    ("040 1234567", "040-12-34-56-7"),
    ("550e8400e29b41d4a716446655440000", "550e8400-e29b-41d4-a716-446655440000"),
    ("AB12C", "AB-12-C"),
    ("email", "e-mail"),
    ("wifi", "wi-fi"),
    ("Tshirt", "T-shirt"),
    ("Lodz", "Łódź"),
    ("Wladyslaw", "Władysław"),
    ("Koebenhavn", "København"),
    ("Kobenhavn", "København"),
    ("Ærø", "Aeroe"),
    ("Þingvellir", "Thingvellir"),
]


@pytest.mark.parametrize(("stored", "asked"), [*_SAME, *(pair[::-1] for pair in _SAME)])
def test_the_same_is_found_as_others_write_it_both_ways(
    put: Put, find: Find, stored: str, asked: str
) -> None:
    put(it=f"noted: {stored}", tea="a cup of tea")
    assert find(asked) == ["it"]
    assert find(f"{asked} please") == ["it"]


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("it rained at 20:12", "2012"),
        ("this is land of ours", "island"),
        ("a part of it", "apart"),
    ],
)
def test_what_only_looks_like_it_is_not(put: Put, find: Find, stored: str, asked: str) -> None:
    put(other="tea", it=stored)
    assert "it" not in find(asked)


def test_a_books_number_is_found_where_every_short_number_stands_somewhere(
    put: Put, find: Find
) -> None:
    short = {f"n{n}": " ".join(map(str, range(n, n + 100))) for n in range(0, 1000, 100)}
    put(**short, it="ISBN 978-3-16-148410-0")
    assert find("9783161484100") == ["it"]


def test_what_an_apostrophe_leaves_is_joined_to_nothing(put: Put, find: Find) -> None:
    put(it="the swing", other="Melanie")
    assert find("Melanie's wing") == ["other"]


class TestCoverage:
    """How much of a query a text covers: what can be compared between queries."""

    @pytest.fixture
    def covered(self, database: Database) -> Callable[..., dict[str, float]]:
        return lambda query, *names: database.read_now(
            lambda tx: asking.coverage(tx, "message", asking.weighed(tx, "message", query), names)
        )

    def test_all_words_are_one_none_are_nothing_and_rare_ones_count_more(
        self, put: Put, covered: Callable[..., dict[str, float]]
    ) -> None:
        put(all="the blue harbours", rare="harbour", often="the", none="tea")
        put("bob", more="the the", again="the sea")
        found = covered("The blue harbour", "all", "rare", "often", "none")
        assert found["all"] == pytest.approx(1)
        assert found["all"] > found["rare"] > found["often"] > found["none"] == 0

    def test_what_stands_nowhere_is_missed(
        self, put: Put, covered: Callable[..., dict[str, float]]
    ) -> None:
        put(one="harbour", two="tea")
        assert covered("harbour", "one")["one"] == pytest.approx(1)
        assert covered("harbour zeppelin", "one")["one"] == pytest.approx(1 / 2)

    def test_of_a_long_query_a_text_needs_the_rarest_words_alone(
        self, put: Put, covered: Callable[..., dict[str, float]]
    ) -> None:
        rare = " ".join(f"word{number}" for number in range(asking.MOST_WEIGHED))
        put(it=rare, **{f"x{number}": "the a of" for number in range(3)})
        assert covered(f"the {rare} a of", "it")["it"] == pytest.approx(1)

    @pytest.mark.parametrize("query", ["", "?!", "nowhere"])
    def test_a_query_that_finds_nothing_covers_nothing(
        self, put: Put, covered: Callable[..., dict[str, float]], query: str
    ) -> None:
        put(it="harbour")
        assert covered(query, "it") == {"it": 0.0}
        assert covered("harbour") == {}

    def test_scripts_without_spaces_are_covered_too(
        self, put: Put, covered: Callable[..., dict[str, float]]
    ) -> None:
        put(it="私は東京に住んでいます", other="お茶")
        found = covered("東京", "it", "other")
        assert found == {"it": pytest.approx(1), "other": 0.0}

    def test_what_a_quarter_of_many_texts_have_tells_nothing_of_any(
        self, put: Put, covered: Callable[..., dict[str, float]]
    ) -> None:
        put(it="Priya has a telescope", **{f"x{number}": "Priya sleeps" for number in range(5)})
        few = covered("telescope Priya", "it", "x0")
        assert few["it"] == pytest.approx(1)
        assert few["x0"] > 0, "of so few texts no share says anything"
        put("bob", **{f"y{number}": "tea" for number in range(14)})
        many = covered("telescope Priya", "it", "x0")
        assert many["it"] == pytest.approx(1)
        assert many["x0"] == 0
