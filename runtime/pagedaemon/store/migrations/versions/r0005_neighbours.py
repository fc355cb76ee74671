"""A message's index row holds its date and its neighbours' words too."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """The index of messages is made anew, of the words that are there."""
    connection = op.get_bind()
    raw = connection.connection.driver_connection
    assert raw is not None, "a connection is open"
    raw.create_function("day_words", 1, _day_words, deterministic=True)
    for name in ("added", "removed", "changed"):
        op.execute(f"DROP TRIGGER message_words_{name}")
    op.execute("DROP TABLE messages_fts")
    op.execute("ALTER TABLE message_words RENAME TO old_message_words")
    table, place, index, rank, *triggers = _FULLTEXT
    op.execute(table)
    op.execute(_FILL)
    op.execute("DROP TABLE old_message_words")
    for statement in (place, index, rank):
        op.execute(sa.text(statement))
    op.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")
    for statement in triggers:
        op.execute(sa.text(statement))


def _day_words(created_at: str) -> str:
    at = datetime.fromisoformat(created_at)
    return f"{_DAYS[at.weekday()]} {at.day} {_MONTHS[at.month - 1]} {at.year}"


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)

_FILL = """
    INSERT INTO message_words (number, id, conversation_id, seq, text, day, near)
    SELECT w.number, w.id, m.conversation_id, m.seq, w.text, day_words(m.created_at),
        coalesce(substr(lag(w.text) OVER beside, 1, 1000), '') || ' ' ||
        coalesce(substr(lead(w.text) OVER beside, 1, 1000), '')
    FROM old_message_words AS w JOIN messages AS m ON m.id = w.id
    WINDOW beside AS (PARTITION BY m.conversation_id ORDER BY m.seq)
"""


def _beside(row: str) -> str:
    """A statement for a trigger: whoever stands beside this row has its words, or no longer."""
    mine = "w.conversation_id = message_words.conversation_id AND w.seq"
    place = f"conversation_id = {row}.conversation_id AND seq"
    return f"""UPDATE message_words SET near =
            coalesce((SELECT substr(w.text, 1, 1000) FROM message_words AS w
                WHERE {mine} < message_words.seq ORDER BY w.seq DESC LIMIT 1), '') || ' ' ||
            coalesce((SELECT substr(w.text, 1, 1000) FROM message_words AS w
                WHERE {mine} > message_words.seq ORDER BY w.seq LIMIT 1), '')
        WHERE number IN (
            SELECT max(number) FROM message_words WHERE {place} = (
                SELECT max(seq) FROM message_words WHERE {place} < {row}.seq)
            UNION ALL
            SELECT max(number) FROM message_words WHERE {place} = (
                SELECT min(seq) FROM message_words WHERE {place} > {row}.seq)
        );"""


_FULLTEXT: tuple[str, ...] = (
    """
    CREATE TABLE message_words (
        number INTEGER NOT NULL PRIMARY KEY,
        id VARCHAR(64) NOT NULL UNIQUE REFERENCES messages (id) ON DELETE CASCADE,
        conversation_id VARCHAR(64) NOT NULL,
        seq INTEGER NOT NULL,
        text TEXT NOT NULL,
        day TEXT NOT NULL,
        near TEXT NOT NULL
    )
    """,
    """
    CREATE INDEX ix_message_words_place ON message_words (conversation_id, seq)
    """,
    """
    CREATE VIRTUAL TABLE messages_fts USING fts5(
        text,
        day,
        near,
        content='message_words',
        content_rowid='number',
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
    )
    """,
    """
    INSERT INTO messages_fts (messages_fts, rank) VALUES ('rank', 'bm25(1.0, 2.0, 2.0)')
    """,
    f"""
    CREATE TRIGGER message_words_added AFTER INSERT ON message_words BEGIN
        INSERT INTO messages_fts (rowid, text, day, near)
            VALUES (new.number, new.text, new.day, new.near);
        {_beside("new")}
    END
    """,
    f"""
    CREATE TRIGGER message_words_removed AFTER DELETE ON message_words BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, text, day, near)
            VALUES ('delete', old.number, old.text, old.day, old.near);
        {_beside("old")}
    END
    """,
    """
    CREATE TRIGGER message_words_changed AFTER UPDATE ON message_words BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, text, day, near)
            VALUES ('delete', old.number, old.text, old.day, old.near);
        INSERT INTO messages_fts (rowid, text, day, near)
            VALUES (new.number, new.text, new.day, new.near);
    END
    """,
    f"""
    CREATE TRIGGER message_words_reworded AFTER UPDATE OF text ON message_words BEGIN
        {_beside("new")}
    END
    """,
)
