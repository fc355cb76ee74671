"""Keyword search: what is found, what is not, and that no query is an error."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select, text
from tests.store.texts import NOW, Find, Put, filled, matched, owners, store

from pagedaemon.store import fulltext, terms
from pagedaemon.store.database import Database, StorePool
from pagedaemon.store.fulltext import MATCHING, Said
from pagedaemon.store.tables import archives, messages, passages
from pagedaemon.store.terms import match_expression
from pagedaemon.store.transaction import Transaction


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    pool = StorePool()
    path = tmp_path_factory.mktemp("fulltext") / "space.db"
    database = Database.open(path, space="lin", pool=pool)
    database.write_now(owners)
    yield database
    database.close()
    pool.close()


@pytest.fixture(autouse=True)
def _emptied(database: Database) -> None:
    database.write_now(lambda tx: (tx.execute(delete(messages)), tx.execute(delete(passages))))


LITERAL = {"literal_binds": True}


@pytest.fixture
def put(database: Database) -> Put:
    """Stores messages, by name, and makes them searchable."""
    return lambda agent="ada", **texts: database.write_now(lambda tx: store(tx, texts, agent))


@pytest.fixture
def find(database: Database) -> Find:
    """Names of the messages that a query finds, best first."""

    def search(query: str) -> list[str]:
        return database.read_now(lambda tx: matched(tx, "message", query))

    return search


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("we were running late", "runs"),
        ("she runs every day", "running"),
        ("Two BERRIES left", "berry"),
        ("un café à Besançon", "CAFE besancon"),
        ("der Müller grüßt", "muller"),
        ("cafe\u0301 au lait", "café"),
        ("tiếng Việt", "tieng viet"),
        ("mail me at lin@example.com", "lin@example.com"),
        ("it is well-known", "well-known"),
        ("don't shout", "don't"),
        ("\uff21\uff22\uff23 company", "abc"),
        ("版本 iPhone15を買う", "iphone15"),
        ("year 2026, room 12b", "2026"),
        ("हिन्दी में लिखो", "हिन्दी"),
        ("كِتَاب جديد", "كتاب"),
        ("שָׁלוֹם לכולם", "שלום"),
    ],
)
def test_words_are_found_whatever_their_form(put: Put, find: Find, stored: str, query: str) -> None:
    put(it=stored, other="nothing of the kind")
    assert find(query) == ["it"]


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("東京に引っ越しました", "東京"),
        ("昨日は渋谷で買い物", "渋谷"),
        ("我住在上海浦东", "上海"),
        ("我喜欢吃苹果", "苹果"),
        ("来週ハワイに行く", "ハワイ"),
        ("ｶﾅを書く", "カナ"),
        ("서울에서 일해요", "서울"),
        ("나는 김치를 좋아해", "김치"),
        ("ฉันอยู่กรุงเทพ", "กรุงเทพ"),
        ("ผมชอบกินข้าว", "ข้าว"),
        ("𠮷野家で食べた", "𠮷野家"),
        ("ຂ້ອຍຢູ່ລາວ", "ລາວ"),
        ("ខ្ញុំនៅភ្នំពេញ", "ភ្នំពេញ"),
        ("ကျွန်တော်ရန်ကုန်မှာ", "ရန်ကုန်"),
        ("彼女の誕生日は五月", "彼女の誕生日はいつですか"),
        ("iPhone15を買う", "を買う"),
    ],
)
def test_words_of_scripts_without_spaces_are_found(
    put: Put, find: Find, stored: str, query: str
) -> None:
    put(it=stored, other="どこにもない話題 とは違う")
    assert find(query)[0] == "it"
    assert find(f'"{query[:2]}"')[0] == "it"


@pytest.mark.parametrize("stored", ["東京タワー", "北の東北", "江東", "東", "iPhone東is"])
def test_one_character_is_found_wherever_it_stands(put: Put, find: Find, stored: str) -> None:
    put(it=stored, other="西の京")
    assert find("東") == ["it"]
    assert find('"東"') == ["it"]


def test_the_whole_word_ranks_above_its_parts(put: Put, find: Find) -> None:
    put(parts="京都の大東京市場", whole="昨日は東京都庁へ", neither="大阪の話")
    assert find("東京都") == ["whole", "parts"]


def test_more_of_the_words_rank_higher(put: Put, find: Find) -> None:
    put(one="the ship sails", two="the ship sails on Thursday", none="the and the")
    assert find("ship thursday") == ["two", "one"]
    assert find("the ship")[:2] == ["one", "two"]


def test_any_of_the_words_will_do(put: Put, find: Find) -> None:
    put(a="only apples", b="only pears", c="only plums")
    assert sorted(find("apples or pears")) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('"moved to Berlin"', ["together"]),
        ("“moved to Berlin”", ["together"]),
        ('"Berlin moved"', []),
        ('nothing "moved to Berlin"', ["together"]),
        ('"moved to Berlin', ["apart", "together"]),
        ('""', []),
        ('"  "', []),
        ('"Tokyo 東京"', ["mixed"]),
        ('"東京 is"', ["mixed"]),
        ('"is 大"', ["mixed"]),
        ('"東京 大阪"', []),
    ],
)
def test_quoted_words_must_stand_together(
    put: Put, find: Find, query: str, found: list[str]
) -> None:
    put(
        together="Lin moved to Berlin in May",
        apart="Berlin is where she moved to",
        mixed="Tokyo 東京 is 大阪 not",
    )
    assert sorted(find(query)) == found


@pytest.mark.parametrize(
    "query",
    ["", " ", "😀🎉", "***", "-", "()", '"', '"😀"', "\x00", "\ud800", "\u0301", "؟\uff01。"],
)
def test_a_query_with_nothing_searchable_finds_nothing(put: Put, find: Find, query: str) -> None:
    put(it="some words 😀")
    assert match_expression(query) is None
    assert find(query) == []


@pytest.mark.parametrize(
    "query",
    [
        "apple') OR 1=1 --",
        "NEAR(apple",
        "NEAR(apple pear, 5)",
        "apple*",
        "-apple",
        "+apple ^apple",
        "id:apple",
        "text : apple",
        "{text}: apple",
        "apple AND",
        "NOT apple",
        "apple OR OR",
        "(apple",
        'apple"',
        "apple\x00pear",
        "apple \ud800",
        "apple; DROP TABLE messages",
        "%apple_",
    ],
)
def test_what_looks_like_syntax_is_only_words(put: Put, find: Find, query: str) -> None:
    put(it="an apple a day", other="a banana")
    assert find(query) == ["it"]


def test_operators_are_words_too(put: Put, find: Find) -> None:
    put(it="neither near nor far, and not here")
    assert find("NOT") == find("AND") == find("NEAR") == ["it"]
    assert find("app*") == []


def test_a_very_long_query_is_cut_and_answered(put: Put, find: Find) -> None:
    put(it="the first word counts")
    long = "first " + " ".join(f"word{number}" for number in range(100_000))
    assert find(long) == ["it"]
    expression = match_expression(long)
    assert expression is not None
    assert expression.count(" OR ") == terms.MOST_TERMS - 1


def test_new_words_replace_the_old(database: Database, put: Put, find: Find) -> None:
    put(it="about apples")
    database.write_now(
        lambda tx: fulltext.index_messages(tx, [Said("it", "ada-main", 1, NOW, "about pears")])
    )
    assert find("apples") == []
    assert find("pears") == ["it"]
    database.write_now(integrity)


def integrity(tx: Transaction) -> None:
    """FTS5's own check that index and content agree."""
    for index in ("messages_fts", "passages_fts"):
        tx.execute(text(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)"))


def test_what_is_taken_out_is_found_no_more(database: Database, put: Put, find: Find) -> None:
    put(a="apples here", b="apples there", c="東京の林檎")
    database.write_now(lambda tx: fulltext.unindex_messages(tx, ["a", "c", "unknown"]))
    assert find("apples") == ["b"]
    assert find("東京") == find("檎") == []
    database.write_now(integrity)
    database.write_now(lambda tx: fulltext.unindex_messages(tx, []))


def test_a_message_that_goes_by_a_cascade_takes_its_words_along(
    database: Database, put: Put, find: Find
) -> None:
    put(mine="apples", also="林檎を食べる")
    put("bob", his="apples")
    database.write_now(
        lambda tx: tx.execute(delete(messages).where(messages.c.conversation_id == "ada-main"))
    )
    assert find("apples") == ["his"]
    assert find("林檎") == []
    database.write_now(integrity)


def test_a_rolled_back_message_is_not_found(database: Database, find: Find) -> None:
    def broken(tx: Transaction) -> None:
        store(tx, {"it": "apples"})
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        database.write_now(broken)
    assert find("apples") == []
    database.write_now(integrity)


def test_nothing_of_what_was_taken_out_stays_in_the_file(database: Database, put: Put) -> None:
    put(secret="the password is xylophonequartz 秘密鍵", other="something else")
    assert on_disk(database.path, "xylophonequartz")
    database.write_now(lambda tx: tx.execute(delete(messages).where(messages.c.id == "secret")))
    database.write_now(fulltext.optimize)
    with closing(sqlite3.connect(database.path)) as raw:
        assert raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    for trace in ("xylophonequartz", "xylophonequartz"[:8], "秘密", "密鍵"):
        assert not on_disk(database.path, trace)


def on_disk(path: Path, trace: str) -> bool:
    files = [path, path.with_name(f"{path.name}-wal")]
    return any(trace.encode() in file.read_bytes() for file in files if file.exists())


def test_search_survives_vacuum(database: Database, put: Put, find: Find) -> None:
    put(**{f"m{number}": f"word{number}" for number in range(20)})
    database.write_now(lambda tx: tx.execute(delete(messages).where(messages.c.seq < 10)))
    with closing(sqlite3.connect(database.path)) as raw:
        raw.execute("VACUUM")
    assert find("word15") == ["m15"]
    assert find("word5") == []
    database.write_now(lambda tx: fulltext.unindex_messages(tx, ["m15"]))
    assert find("word15") == []
    database.write_now(integrity)


def test_passages_have_an_index_of_their_own(database: Database, put: Put, find: Find) -> None:
    put(message="apples are said")

    def keep(tx: Transaction) -> None:
        for name in ("p1", "p2"):
            tx.execute(filled(passages, id=name, archive_id="archive", text="apples are kept"))
            fulltext.index_passage(tx, name, "apples are kept")

    def found(tx: Transaction) -> list[str]:
        return sorted(matched(tx, "passage", "apples"))

    database.write_now(keep)
    assert database.read_now(found) == ["p1", "p2"]
    database.write_now(lambda tx: fulltext.unindex_passages(tx, ["p1"]))
    assert database.read_now(found) == ["p2"]
    database.write_now(lambda tx: tx.execute(delete(archives).where(archives.c.id == "none")))
    assert find("apples") == ["message"]
    database.write_now(integrity)


def test_filters_join_to_what_was_found_and_the_index_is_asked_once(
    database: Database, put: Put
) -> None:
    put(a="apples", b="pears")
    put("bob", c="apples")
    found = MATCHING["message"]
    mine = (
        select(messages.c.id, found.c.score)
        .select_from(messages.join(found, found.c.id == messages.c.id))
        .where(messages.c.agent_id == "bob")
    )
    asked = {"match": "text : apples"}
    rows = database.read_now(lambda tx: tx.all(mine, asked))
    assert [row[0] for row in rows] == ["c"]
    assert rows[0][1] > 0
    plan = database.read_now(
        lambda tx: tx.all(
            text(f"EXPLAIN QUERY PLAN {mine.params(asked).compile(compile_kwargs=LITERAL)}")
        )
    )
    assert "SCAN messages_fts VIRTUAL TABLE" in plan[0][3]
    # The words that too many have are looked for apart, once.
    (apart,) = (step[0] for step in plan if step[3].startswith("LIST SUBQUERY"))
    joined = [step[3] for step in plan[1:] if apart not in step[:2]]
    assert len(joined) == 2
    assert all("SEARCH" in step for step in joined)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=st.text())
def test_no_text_is_a_syntax_error(find: Find, query: str) -> None:
    assert find(query) == []


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    word=st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=30),
    before=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20),
    after=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20),
)
def test_any_word_is_found_in_any_company(
    database: Database, word: str, before: str, after: str
) -> None:
    # A mark that follows, or a vowel sign, would belong to the word and make it another.
    assume(match_expression(word) is not None)

    def stored_and_found(tx: Transaction) -> list[str]:
        tx.execute(delete(messages))
        store(tx, {"it": f"{before} . {word} . {after}"})
        return matched(tx, "message", word)

    assert database.write_now(stored_and_found) == ["it"]


def test_what_is_read_of_a_message_begins_with_its_own_text_even_if_that_is_blank(
    database: Database, put: Put
) -> None:
    put(question="Which boat?", blank=" ", answer="The blue one, " + "of wood " * 20)
    found = database.read_now(
        lambda tx: fulltext.read_texts(tx, "message", ["question", "blank", "answer", "gone"], 40)
    )
    assert {one: texts[0] for one, texts in found.items()} == {
        "question": "Which boat?",
        "blank": " ",
    }
    assert "Which boat?" in found["blank"][1]


class TestNeighbours:
    """What stands beside a message counts for it, and is never found in its place."""

    def near(self, database: Database) -> dict[str, list[str]]:
        statement = text("SELECT id, near FROM message_words ORDER BY seq")
        rows = database.read_now(lambda tx: tx.all(statement))
        return {row[0]: row[1].split() for row in rows}

    def test_the_words_beside_a_message_raise_it_and_do_not_find_it(
        self, put: Put, find: Find
    ) -> None:
        others = {f"m{n}": "nothing of it" for n in range(20)}
        put(a="lost in the attic", **others, b="lost at sea", c="a garden of roses", d="a shed")
        assert find("roses") == ["c"]
        assert find("lost roses")[-1] == "a", "both have the same words, and one a neighbour"
        assert find("lost shed").index("a") < find("lost shed").index("b"), "not two apart"

    def test_a_phrase_is_of_one_message(self, put: Put, find: Find) -> None:
        put(a="she bought", b="a red bicycle", c="last year", d="a bicycle that was red")
        assert find('"red bicycle"') == ["b"]
        assert find('"bought a red"') == []

    def test_a_date_in_words_raises_what_was_said_then(
        self, database: Database, find: Find, put: Put
    ) -> None:
        put(**{f"m{n}": "tea" for n in range(5)})
        then = datetime(2023, 5, 8, 23, 0, tzinfo=UTC)
        database.write_now(
            lambda tx: fulltext.index_messages(tx, [Said("m2", "ada-main", 3, then, "tea")])
        )
        assert fulltext.day_words(then) == "Monday 8 May 2023"
        assert find("tea on a monday in may 2023")[0] == "m2"
        assert find("monday") == []

    def test_what_comes_changes_and_goes_is_rewritten_beside_it(
        self, database: Database, put: Put
    ) -> None:
        put(a="apples", b="berries", c="cherries")
        assert self.near(database) == {
            "a": ["berries"],
            "b": ["apples", "cherries"],
            "c": ["berries"],
        }
        dates = [Said("b", "ada-main", 2, NOW, "dates")]
        database.write_now(lambda tx: fulltext.index_messages(tx, dates))
        assert self.near(database) == {"a": ["dates"], "b": ["apples", "cherries"], "c": ["dates"]}
        database.write_now(lambda tx: fulltext.unindex_messages(tx, ["b"]))
        assert self.near(database) == {"a": ["cherries"], "c": ["apples"]}
        database.write_now(lambda tx: tx.execute(delete(messages).where(messages.c.id == "c")))
        assert self.near(database) == {"a": []}
        database.write_now(integrity)

    def test_a_long_neighbour_counts_by_its_beginning(self, database: Database, put: Put) -> None:
        put(a="tea", b="word " * 3_000)
        assert len(self.near(database)["a"]) == 200

    def test_conversations_are_no_neighbours(self, database: Database, put: Put) -> None:
        put(a="apples")
        put("bob", b="berries")
        assert self.near(database) == {"a": [], "b": []}


def pieces(database: Database, index: str) -> int:
    """Into how many pieces a search of that index looks."""
    counted = text(f"SELECT count(DISTINCT segid) FROM {index}_idx")
    return int(database.read_now(lambda tx: tx.scalar(counted)))


def tell(database: Database, first: int, count: int) -> None:
    """Stores so many messages in one transaction."""
    said = {f"m{at}": f"text number {at} of many words" for at in range(first, first + count)}
    database.write_now(lambda tx: store(tx, said, first=first))


def test_what_is_stored_one_by_one_leaves_an_index_in_few_pieces(
    database: Database, find: Find
) -> None:
    for at in range(60):
        tell(database, at, 1)
        assert pieces(database, "messages_fts") <= 12
    assert find("number 59")[0] == "m59"
    database.write_now(integrity)


@pytest.mark.parametrize(("already", "most"), [(0, 1), (fulltext.MERGED_WHOLE, 4)])
def test_what_is_stored_at_once_leaves_an_index_in_fewer(
    database: Database, find: Find, already: int, most: int
) -> None:
    for first in range(0, already, 500):
        tell(database, first, 500)
    tell(database, already, fulltext.MANY_AT_ONCE)
    assert pieces(database, "messages_fts") <= most
    assert find(f"number {already + 5}")[0] == f"m{already + 5}"
    database.write_now(integrity)
