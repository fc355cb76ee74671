"""The tables of one space, as they are at the head revision.

A store is made from this page and stamped; older ones are brought here by `store/migrations`. Every
row carries its space, so that the same tables serve one file per space and one database for many.
Instants are ISO 8601 text in UTC with microseconds (sortable as text, alike on every database).
Order never rests on them: conversations number their messages, turns their steps, steps their
calls.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class StoredValueError(ValueError):
    """A value in the file is not one that was ever written there. The store makes a
    `StorageUnavailable` of it."""


class Instant(TypeDecorator[datetime]):
    """A timezone-aware datetime, kept as ISO text in UTC with six digits of microseconds."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """To text; a naive datetime is a mistake of ours."""
        if value is None:
            return None
        assert value.tzinfo is not None, "a naive datetime reached the store"
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        """Back to an aware datetime in UTC."""
        if value is None:
            return None
        try:
            return datetime.fromisoformat(value)
        except (TypeError, ValueError) as error:
            raise StoredValueError(f"{value!r} is no time") from error


def _id(name: str = "id") -> Column[str]:
    return Column(name, String(64), primary_key=True)


def _space() -> Column[str]:
    return Column("space", String(64), nullable=False, index=True)


def _instant(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, Instant, nullable=nullable)


agents = Table(
    "agents",
    metadata,
    _id(),
    _space(),
    Column("name", String(200), nullable=False),
    Column("settings", JSON, nullable=False),
    Column("model", JSON(none_as_null=True)),
    Column("tools", JSON, nullable=False),
    Column("recall_count", Integer, nullable=False, default=0),
    Column("archival_count", Integer, nullable=False, default=0),
    Column("spent_calls", Integer, nullable=False, default=0),
    Column("spent_prompt_tokens", Integer, nullable=False, default=0),
    Column("spent_completion_tokens", Integer, nullable=False, default=0),
    Column("spent_cached_tokens", Integer, nullable=False, default=0),
    Column("spent_reasoning_tokens", Integer, nullable=False, default=0),
    Column("spent_estimated", Boolean, nullable=False, default=False),
    _instant("created_at"),
    _instant("updated_at"),
    Column("spent_cost", Float, nullable=False, default=0.0, server_default=text("0")),
    UniqueConstraint("space", "name"),
)
"""`spent_cost` is in US dollars, of the calls whose price is known."""

blocks = Table(
    "blocks",
    metadata,
    _id(),
    _space(),
    Column("name", String(200)),
    Column("label", String(60), nullable=False),
    Column("value", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("limit", Integer, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("trust", String(10), nullable=False),
    Column("owner_agent_id", String(64)),
    _instant("created_at"),
    _instant("updated_at"),
    UniqueConstraint("space", "name"),
)
"""A block that stands alone has a name, unique in its space; one made for an agent has an owner
instead and goes with it."""

agent_blocks = Table(
    "agent_blocks",
    metadata,
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("label", String(60), primary_key=True),
    Column("block_id", ForeignKey("blocks.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("position", Integer, nullable=False),
)

block_versions = Table(
    "block_versions",
    metadata,
    Column("block_id", ForeignKey("blocks.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    _space(),
    Column("value", Text, nullable=False),
    Column("operation", String(20), nullable=False),
    Column("actor", String(20), nullable=False),
    Column("agent_id", String(64)),
    Column("turn_id", String(64)),
    Column("step_id", String(64)),
    Column("trust", String(10), nullable=False),
    _instant("created_at"),
)

conversations = Table(
    "conversations",
    metadata,
    _id(),
    _space(),
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("epoch", Integer, nullable=False, default=0),
    Column("lease_owner", String(64)),
    _instant("lease_until", nullable=True),
    Column("last_seq", Integer, nullable=False, default=0),
    Column("last_turn", Integer, nullable=False, default=0),
    Column("window_version", Integer, nullable=False, default=0),
    Column("warned", Boolean, nullable=False, default=False),
    Column("folds", Integer, nullable=False, default=0),
    Column("summary_id", String(64)),
    _instant("created_at"),
    UniqueConstraint("agent_id", "name"),
)
"""`epoch` fences writers; `window_version` changes with every change of the window, so that a copy
in memory knows whether it is still right."""

turns = Table(
    "turns",
    metadata,
    _id(),
    _space(),
    Column(
        "conversation_id",
        ForeignKey("conversations.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("seq", Integer, nullable=False),
    Column("event", String(20), nullable=False),
    Column("key", String(200)),
    Column("body", JSON(none_as_null=True)),
    Column("body_hash", String(64)),
    Column("owner", String(64)),
    Column("status", String(10), nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("stop_reason", String(20)),
    Column("error", Text),
    Column("usage", JSON, nullable=False),
    Column("options", JSON, nullable=False),
    _instant("created_at"),
    _instant("started_at", nullable=True),
    _instant("ended_at", nullable=True),
    Column("told", JSON(none_as_null=True)),
    UniqueConstraint("conversation_id", "seq"),
    UniqueConstraint("conversation_id", "key"),
)
"""`body` holds what woke the turn until it is claimed; the message gets its number only then, so
that one that waits never stands between another turn's call and its result. `told` are its events,
in order; NULL in turns that were begun before it was there."""

# Partial on SQLite only: to name another database here loads its whole dialect with every import.
Index(
    "ix_turns_open",
    turns.c.conversation_id,
    turns.c.seq,
    sqlite_where=text("status != 'done'"),
)

messages = Table(
    "messages",
    metadata,
    _id(),
    _space(),
    Column("agent_id", String(64), nullable=False, index=True),
    Column(
        "conversation_id",
        ForeignKey("conversations.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("seq", Integer, nullable=False),
    Column("role", String(10), nullable=False),
    Column("kind", String(12), nullable=False),
    Column("text", Text, nullable=False),
    Column("calls", JSON(none_as_null=True)),
    Column("call_id", String(128)),
    Column("tool", String(128)),
    Column("status", Text, nullable=False, default=""),
    Column("digest", Text),
    Column("in_window", Boolean, nullable=False),
    Column("pinned", Boolean, nullable=False, default=False),
    Column("trust", String(10), nullable=False),
    Column("author", String(200)),
    Column("turn_id", String(64)),
    Column("step_id", String(64)),
    Column("data", JSON(none_as_null=True)),
    _instant("created_at"),
    UniqueConstraint("conversation_id", "seq"),
)
Index(
    "ix_messages_window",
    messages.c.conversation_id,
    messages.c.seq,
    sqlite_where=text("in_window"),
)
Index("ix_messages_agent_created", messages.c.agent_id, messages.c.created_at)
Index("ix_messages_turn", messages.c.turn_id)

attachments = Table(
    "attachments",
    metadata,
    _id(),
    _space(),
    Column("turn_id", ForeignKey("turns.id", ondelete="CASCADE"), index=True),
    Column("message_id", ForeignKey("messages.id", ondelete="CASCADE"), index=True),
    Column("position", Integer, nullable=False),
    Column("kind", String(10), nullable=False),
    Column("media_type", String(100), nullable=False),
    Column("name", String(200)),
    Column("url", Text),
    Column("data", LargeBinary),
    Column("size", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("width", Integer),
    Column("height", Integer),
    _instant("created_at"),
)
"""Pictures and files of a message (`kind` is image or file), in the order of `position`: the bytes
themselves, or where they are. `size` is in bytes, width and height are in pixels. Until the turn
that they wake is claimed there is no message, and they belong to the turn."""

steps = Table(
    "steps",
    metadata,
    _id(),
    _space(),
    Column("turn_id", ForeignKey("turns.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("heartbeat", String(12)),
    Column("status", String(10), nullable=False),
    Column("thoughts", Text, nullable=False, default=""),
    Column("replies", JSON, nullable=False),
    Column("note", Text, nullable=False, default=""),
    Column("context_hash", String(64)),
    Column("block_versions", JSON, nullable=False),
    Column("reply", JSON(none_as_null=True)),
    Column("model", String(200)),
    Column("usage", JSON, nullable=False),
    _instant("created_at"),
    UniqueConstraint("turn_id", "seq"),
)

calls = Table(
    "calls",
    metadata,
    _id(),
    _space(),
    Column("step_id", ForeignKey("steps.id", ondelete="CASCADE"), nullable=False),
    Column("turn_id", String(64), nullable=False, index=True),
    Column("seq", Integer, nullable=False),
    Column("wire_id", String(128), nullable=False),
    Column("tool", String(128), nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("raw", Text, nullable=False),
    Column("effect", String(12), nullable=False),
    Column("status", String(10), nullable=False),
    Column("heartbeat", Boolean, nullable=False, default=False),
    Column("result", Text),
    Column("verdict", JSON(none_as_null=True)),
    _instant("started_at", nullable=True),
    _instant("ended_at", nullable=True),
    UniqueConstraint("step_id", "seq"),
)

schedules = Table(
    "schedules",
    metadata,
    _id(),
    _space(),
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), nullable=False, index=True),
    Column(
        "conversation_id",
        ForeignKey("conversations.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("text", Text, nullable=False),
    _instant("due"),
    Column("every", Float),
    Column("trust", String(10), nullable=False),
    Column("step_id", String(64)),
    Column("turn_id", String(64)),
    _instant("created_at"),
    Index("ix_schedules_space_due", "space", "due"),
)
"""When agents are to be woken. `every` is in seconds, null for once; a row that is due once goes
when it is. `step_id` is the step that made it, `turn_id` the turn it queued last."""

pauses = Table(
    "pauses",
    metadata,
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    _space(),
    _instant("until", nullable=True),
)
"""Agents whose schedules are held, and until when; null for until they are resumed."""

approvals = Table(
    "approvals",
    metadata,
    _id(),
    _space(),
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), nullable=False, index=True),
    Column(
        "conversation_id",
        ForeignKey("conversations.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("turn_id", String(64), nullable=False),
    Column("call_id", String(64), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("tool", String(128), nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("schema_hash", String(64), nullable=False),
    Column("why", String(12), nullable=False),
    Column("is_tainted", Boolean, nullable=False),
    Column("status", String(10), nullable=False),
    Column("reason", Text),
    _instant("created_at"),
    _instant("expires_at"),
    _instant("answered_at", nullable=True),
    Column("answered_by", String(200)),
    Index("ix_approvals_space_status", "space", "status", "expires_at"),
)
"""Calls that wait for a person, and what was answered. `turn_id`, `call_id` and `seq` are those
of the call that the model made; what an answer brings about is a turn of its own."""

archives = Table(
    "archives",
    metadata,
    _id(),
    _space(),
    Column("name", String(200)),
    Column("owner_agent_id", String(64), index=True),
    Column("description", Text, nullable=False, default=""),
    _instant("created_at"),
    UniqueConstraint("space", "name"),
)

agent_archives = Table(
    "agent_archives",
    metadata,
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("archive_id", ForeignKey("archives.id", ondelete="CASCADE"), primary_key=True),
)

passages = Table(
    "passages",
    metadata,
    _id(),
    _space(),
    Column("archive_id", ForeignKey("archives.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("agent_id", String(64), index=True),
    Column("text", Text, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("kind", String(12), nullable=False, default="semantic"),
    Column("subject", Text),
    Column("attribute", Text),
    Column("scope", String(200)),
    Column("purposes", JSON, nullable=False),
    Column("importance", Float),
    Column("confidence", Float, nullable=False, default=1.0),
    Column("source_kind", String(12), nullable=False),
    Column("source_id", String(200)),
    Column("source_note", Text),
    Column("trust", String(10), nullable=False),
    Column("status", String(12), nullable=False, default="active"),
    Column("superseded_by", String(64)),
    Column("payload", JSON(none_as_null=True)),
    Column("position", Integer),
    Column("uses", Integer, nullable=False, default=0),
    _instant("created_at"),
    _instant("happened_at", nullable=True),
    _instant("used_at", nullable=True),
    _instant("expires_at", nullable=True),
    _instant("reconfirmed_at", nullable=True),
)
Index("ix_passages_archive_hash", passages.c.archive_id, passages.c.content_hash)
Index("ix_passages_archive_created", passages.c.archive_id, passages.c.created_at)

passage_tags = Table(
    "passage_tags",
    metadata,
    Column("passage_id", ForeignKey("passages.id", ondelete="CASCADE"), primary_key=True),
    Column("tag", String(100), primary_key=True),
    Index("ix_passage_tags_tag", "tag"),
)

provenance = Table(
    "provenance",
    metadata,
    Column("child_kind", String(12), primary_key=True),
    Column("child_id", String(64), primary_key=True),
    Column("parent_kind", String(12), primary_key=True),
    Column("parent_id", String(64), primary_key=True),
    Column("relation", String(20), nullable=False),
    _space(),
    Index("ix_provenance_parent", "parent_kind", "parent_id"),
)
"""What was made from what: a summary from messages, a passage from a message, a reflection from
passages."""

embeddings = Table(
    "embeddings",
    metadata,
    Column("owner_kind", String(12), primary_key=True),
    Column("owner_id", String(64), primary_key=True),
    Column("chunk", Integer, primary_key=True),
    Column("model", String(200), primary_key=True),
    _space(),
    Column("seq", Integer, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("vector", LargeBinary, nullable=False),
    UniqueConstraint("space", "seq"),
    Index("ix_embeddings_model_seq", "space", "model", "seq"),
)
"""Vectors of messages and passages, a row for each chunk of their text: little-endian 32-bit
floats. `seq` is the number of the change that stored it."""

vector_changes = Table(
    "vector_changes",
    metadata,
    Column("space", String(64), primary_key=True),
    Column("last", Integer, nullable=False),
    Column("floor", Integer, nullable=False),
)
"""Numbers the changes of a space's vectors: `last` is the number of the newest. What left up to
`floor` is no longer told, so a copy that is older than that must be made anew."""

vectors_removed = Table(
    "vectors_removed",
    metadata,
    Column("space", String(64), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("model", String(200), nullable=False),
    Column("owner_kind", String(12), nullable=False),
    Column("owner_id", String(64), nullable=False),
    Column("vector_seq", Integer, nullable=False),
    Index("ix_vectors_removed_model_seq", "space", "model", "seq"),
)
"""Which vectors left, under the number of that change: what copies of them follow."""

outbox = Table(
    "outbox",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    _space(),
    Column("kind", String(20), nullable=False),
    Column("owner_kind", String(12), nullable=False),
    Column("owner_id", String(64), nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("error", Text),
    _instant("created_at"),
)
"""Work to be done after a commit, outside it."""

token_factors = Table(
    "token_factors",
    metadata,
    Column("model", String(200), primary_key=True),
    Column("space", String(64), primary_key=True),
    Column("factor", Float, nullable=False),
)
"""Per model: reported prompt tokens over our estimate."""
