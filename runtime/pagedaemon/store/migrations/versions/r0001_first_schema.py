"""The first schema. Written out: it stays as it is, whatever becomes of the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """From an empty file."""
    _agents()
    _blocks()
    _conversations()
    _turns()
    _messages()
    _steps()
    _archives()
    _passages()
    _beside_them()
    for statement in _FULLTEXT:
        op.execute(statement)
    op.execute("PRAGMA application_id = 1885824109")


def _goes_with(table: str, column: str, parent: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{parent}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE"
    )


def _agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("model", sa.JSON()),
        sa.Column("tools", sa.JSON(), nullable=False),
        sa.Column("recall_count", sa.Integer(), nullable=False),
        sa.Column("archival_count", sa.Integer(), nullable=False),
        sa.Column("spent_calls", sa.Integer(), nullable=False),
        sa.Column("spent_prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("spent_completion_tokens", sa.Integer(), nullable=False),
        sa.Column("spent_cached_tokens", sa.Integer(), nullable=False),
        sa.Column("spent_reasoning_tokens", sa.Integer(), nullable=False),
        sa.Column("spent_estimated", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        sa.UniqueConstraint("space", "name", name="uq_agents_space_name"),
    )
    op.create_index("ix_agents_space", "agents", ["space"])


def _blocks() -> None:
    op.create_table(
        "blocks",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200)),
        sa.Column("label", sa.String(60), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.Column("read_only", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("trust", sa.String(10), nullable=False),
        sa.Column("owner_agent_id", sa.String(64)),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_blocks"),
        sa.UniqueConstraint("space", "name", name="uq_blocks_space_name"),
    )
    op.create_index("ix_blocks_space", "blocks", ["space"])
    op.create_table(
        "agent_blocks",
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("label", sa.String(60), nullable=False),
        sa.Column("block_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        _goes_with("agent_blocks", "agent_id", "agents"),
        _goes_with("agent_blocks", "block_id", "blocks"),
        sa.PrimaryKeyConstraint("agent_id", "label", name="pk_agent_blocks"),
    )
    op.create_index("ix_agent_blocks_block_id", "agent_blocks", ["block_id"])
    op.create_table(
        "block_versions",
        sa.Column("block_id", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("operation", sa.String(20), nullable=False),
        sa.Column("actor", sa.String(20), nullable=False),
        sa.Column("agent_id", sa.String(64)),
        sa.Column("turn_id", sa.String(64)),
        sa.Column("step_id", sa.String(64)),
        sa.Column("trust", sa.String(10), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        _goes_with("block_versions", "block_id", "blocks"),
        sa.PrimaryKeyConstraint("block_id", "version", name="pk_block_versions"),
    )
    op.create_index("ix_block_versions_space", "block_versions", ["space"])


def _conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(64)),
        sa.Column("lease_until", sa.String(32)),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("last_turn", sa.Integer(), nullable=False),
        sa.Column("window_version", sa.Integer(), nullable=False),
        sa.Column("warned", sa.Boolean(), nullable=False),
        sa.Column("folds", sa.Integer(), nullable=False),
        sa.Column("summary_id", sa.String(64)),
        sa.Column("created_at", sa.String(32), nullable=False),
        _goes_with("conversations", "agent_id", "agents"),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
        sa.UniqueConstraint("agent_id", "name", name="uq_conversations_agent_id_name"),
    )
    op.create_index("ix_conversations_space", "conversations", ["space"])


def _turns() -> None:
    op.create_table(
        "turns",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("conversation_id", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(20), nullable=False),
        sa.Column("key", sa.String(200)),
        sa.Column("body", sa.JSON()),
        sa.Column("body_hash", sa.String(64)),
        sa.Column("owner", sa.String(64)),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("stop_reason", sa.String(20)),
        sa.Column("error", sa.Text()),
        sa.Column("usage", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("started_at", sa.String(32)),
        sa.Column("ended_at", sa.String(32)),
        _goes_with("turns", "conversation_id", "conversations"),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.UniqueConstraint("conversation_id", "key", name="uq_turns_conversation_id_key"),
        sa.UniqueConstraint("conversation_id", "seq", name="uq_turns_conversation_id_seq"),
    )
    op.create_index(
        "ix_turns_open",
        "turns",
        ["conversation_id", "seq"],
        sqlite_where=sa.text("status != 'done'"),
    )
    op.create_index("ix_turns_space", "turns", ["space"])


def _messages() -> None:
    op.create_table(
        "messages",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("conversation_id", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("calls", sa.JSON()),
        sa.Column("call_id", sa.String(128)),
        sa.Column("tool", sa.String(128)),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text()),
        sa.Column("in_window", sa.Boolean(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("trust", sa.String(10), nullable=False),
        sa.Column("author", sa.String(200)),
        sa.Column("turn_id", sa.String(64)),
        sa.Column("step_id", sa.String(64)),
        sa.Column("data", sa.JSON()),
        sa.Column("created_at", sa.String(32), nullable=False),
        _goes_with("messages", "conversation_id", "conversations"),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
        sa.UniqueConstraint("conversation_id", "seq", name="uq_messages_conversation_id_seq"),
    )
    op.create_index("ix_messages_agent_created", "messages", ["agent_id", "created_at"])
    op.create_index("ix_messages_agent_id", "messages", ["agent_id"])
    op.create_index("ix_messages_space", "messages", ["space"])
    op.create_index("ix_messages_turn", "messages", ["turn_id"])
    op.create_index(
        "ix_messages_window",
        "messages",
        ["conversation_id", "seq"],
        sqlite_where=sa.text("in_window"),
    )


def _steps() -> None:
    op.create_table(
        "steps",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("turn_id", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("heartbeat", sa.String(12)),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("thoughts", sa.Text(), nullable=False),
        sa.Column("replies", sa.JSON(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("context_hash", sa.String(64)),
        sa.Column("block_versions", sa.JSON(), nullable=False),
        sa.Column("reply", sa.JSON()),
        sa.Column("model", sa.String(200)),
        sa.Column("usage", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        _goes_with("steps", "turn_id", "turns"),
        sa.PrimaryKeyConstraint("id", name="pk_steps"),
        sa.UniqueConstraint("turn_id", "seq", name="uq_steps_turn_id_seq"),
    )
    op.create_index("ix_steps_space", "steps", ["space"])
    op.create_table(
        "calls",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("step_id", sa.String(64), nullable=False),
        sa.Column("turn_id", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("wire_id", sa.String(128), nullable=False),
        sa.Column("tool", sa.String(128), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("effect", sa.String(12), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("heartbeat", sa.Boolean(), nullable=False),
        sa.Column("result", sa.Text()),
        sa.Column("verdict", sa.JSON()),
        sa.Column("started_at", sa.String(32)),
        sa.Column("ended_at", sa.String(32)),
        _goes_with("calls", "step_id", "steps"),
        sa.PrimaryKeyConstraint("id", name="pk_calls"),
        sa.UniqueConstraint("step_id", "seq", name="uq_calls_step_id_seq"),
    )
    op.create_index("ix_calls_space", "calls", ["space"])
    op.create_index("ix_calls_turn_id", "calls", ["turn_id"])


def _archives() -> None:
    op.create_table(
        "archives",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200)),
        sa.Column("owner_agent_id", sa.String(64)),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_archives"),
        sa.UniqueConstraint("space", "name", name="uq_archives_space_name"),
    )
    op.create_index("ix_archives_owner_agent_id", "archives", ["owner_agent_id"])
    op.create_index("ix_archives_space", "archives", ["space"])
    op.create_table(
        "agent_archives",
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("archive_id", sa.String(64), nullable=False),
        _goes_with("agent_archives", "agent_id", "agents"),
        _goes_with("agent_archives", "archive_id", "archives"),
        sa.PrimaryKeyConstraint("agent_id", "archive_id", name="pk_agent_archives"),
    )


def _passages() -> None:
    op.create_table(
        "passages",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("archive_id", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(64)),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("subject", sa.Text()),
        sa.Column("attribute", sa.Text()),
        sa.Column("scope", sa.String(200)),
        sa.Column("purposes", sa.JSON(), nullable=False),
        sa.Column("importance", sa.Float()),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("source_kind", sa.String(12), nullable=False),
        sa.Column("source_id", sa.String(200)),
        sa.Column("source_note", sa.Text()),
        sa.Column("trust", sa.String(10), nullable=False),
        sa.Column("status", sa.String(12), nullable=False),
        sa.Column("superseded_by", sa.String(64)),
        sa.Column("payload", sa.JSON()),
        sa.Column("position", sa.Integer()),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("happened_at", sa.String(32)),
        sa.Column("used_at", sa.String(32)),
        sa.Column("expires_at", sa.String(32)),
        sa.Column("reconfirmed_at", sa.String(32)),
        _goes_with("passages", "archive_id", "archives"),
        sa.PrimaryKeyConstraint("id", name="pk_passages"),
    )
    op.create_index("ix_passages_agent_id", "passages", ["agent_id"])
    op.create_index("ix_passages_archive_created", "passages", ["archive_id", "created_at"])
    op.create_index("ix_passages_archive_hash", "passages", ["archive_id", "content_hash"])
    op.create_index("ix_passages_archive_id", "passages", ["archive_id"])
    op.create_index("ix_passages_space", "passages", ["space"])
    op.create_table(
        "passage_tags",
        sa.Column("passage_id", sa.String(64), nullable=False),
        sa.Column("tag", sa.String(100), nullable=False),
        _goes_with("passage_tags", "passage_id", "passages"),
        sa.PrimaryKeyConstraint("passage_id", "tag", name="pk_passage_tags"),
    )
    op.create_index("ix_passage_tags_tag", "passage_tags", ["tag"])


def _beside_them() -> None:
    op.create_table(
        "provenance",
        sa.Column("child_kind", sa.String(12), nullable=False),
        sa.Column("child_id", sa.String(64), nullable=False),
        sa.Column("parent_kind", sa.String(12), nullable=False),
        sa.Column("parent_id", sa.String(64), nullable=False),
        sa.Column("relation", sa.String(20), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint(
            "child_kind", "child_id", "parent_kind", "parent_id", name="pk_provenance"
        ),
    )
    op.create_index("ix_provenance_parent", "provenance", ["parent_kind", "parent_id"])
    op.create_index("ix_provenance_space", "provenance", ["space"])
    op.create_table(
        "embeddings",
        sa.Column("owner_kind", sa.String(12), nullable=False),
        sa.Column("owner_id", sa.String(64), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("owner_kind", "owner_id", "chunk", "model", name="pk_embeddings"),
    )
    op.create_index("ix_embeddings_space", "embeddings", ["space"])
    op.create_table(
        "outbox",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("owner_kind", sa.String(12), nullable=False),
        sa.Column("owner_id", sa.String(64), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_outbox"),
    )
    op.create_index("ix_outbox_space", "outbox", ["space"])
    op.create_table(
        "token_factors",
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("factor", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("model", "space", name="pk_token_factors"),
    )


_FULLTEXT: tuple[str, ...] = (
    """
    CREATE TABLE message_words (
        number INTEGER NOT NULL PRIMARY KEY,
        id VARCHAR(64) NOT NULL UNIQUE REFERENCES messages (id) ON DELETE CASCADE,
        text TEXT NOT NULL
    )
    """,
    """
    CREATE VIRTUAL TABLE messages_fts USING fts5(
        text,
        content='message_words',
        content_rowid='number',
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
    )
    """,
    """
    CREATE TRIGGER message_words_added AFTER INSERT ON message_words BEGIN
        INSERT INTO messages_fts (rowid, text) VALUES (new.number, new.text);
    END
    """,
    """
    CREATE TRIGGER message_words_removed AFTER DELETE ON message_words BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, text)
            VALUES ('delete', old.number, old.text);
    END
    """,
    """
    CREATE TRIGGER message_words_changed AFTER UPDATE ON message_words BEGIN
        INSERT INTO messages_fts (messages_fts, rowid, text)
            VALUES ('delete', old.number, old.text);
        INSERT INTO messages_fts (rowid, text) VALUES (new.number, new.text);
    END
    """,
    """
    CREATE TABLE passage_words (
        number INTEGER NOT NULL PRIMARY KEY,
        id VARCHAR(64) NOT NULL UNIQUE REFERENCES passages (id) ON DELETE CASCADE,
        text TEXT NOT NULL
    )
    """,
    """
    CREATE VIRTUAL TABLE passages_fts USING fts5(
        text,
        content='passage_words',
        content_rowid='number',
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
    )
    """,
    """
    CREATE TRIGGER passage_words_added AFTER INSERT ON passage_words BEGIN
        INSERT INTO passages_fts (rowid, text) VALUES (new.number, new.text);
    END
    """,
    """
    CREATE TRIGGER passage_words_removed AFTER DELETE ON passage_words BEGIN
        INSERT INTO passages_fts (passages_fts, rowid, text)
            VALUES ('delete', old.number, old.text);
    END
    """,
    """
    CREATE TRIGGER passage_words_changed AFTER UPDATE ON passage_words BEGIN
        INSERT INTO passages_fts (passages_fts, rowid, text)
            VALUES ('delete', old.number, old.text);
        INSERT INTO passages_fts (rowid, text) VALUES (new.number, new.text);
    END
    """,
)
