"""What finding by meaning, pictures and prices need."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """From the first schema."""
    op.add_column(
        "agents",
        sa.Column("spent_cost", sa.Float(), nullable=False, server_default=sa.text("0")),
    )
    _attachments()
    _embeddings()
    _changes()


def _attachments() -> None:
    op.create_table(
        "attachments",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("turn_id", sa.String(64)),
        sa.Column("message_id", sa.String(64)),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("media_type", sa.String(100), nullable=False),
        sa.Column("name", sa.String(200)),
        sa.Column("url", sa.Text()),
        sa.Column("data", sa.LargeBinary()),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("width", sa.Integer()),
        sa.Column("height", sa.Integer()),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["turn_id"],
            ["turns.id"],
            name="fk_attachments_turn_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["message_id"],
            ["messages.id"],
            name="fk_attachments_message_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_attachments"),
    )
    op.create_index("ix_attachments_turn_id", "attachments", ["turn_id"])
    op.create_index("ix_attachments_message_id", "attachments", ["message_id"])
    op.create_index("ix_attachments_space", "attachments", ["space"])


def _embeddings() -> None:
    # Nothing wrote vectors under the first schema, and they can be made anew from the texts.
    op.drop_table("embeddings")
    op.create_table(
        "embeddings",
        sa.Column("owner_kind", sa.String(12), nullable=False),
        sa.Column("owner_id", sa.String(64), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("owner_kind", "owner_id", "chunk", "model", name="pk_embeddings"),
        sa.UniqueConstraint("space", "seq", name="uq_embeddings_space_seq"),
    )
    op.create_index("ix_embeddings_model_seq", "embeddings", ["space", "model", "seq"])
    op.create_index("ix_embeddings_space", "embeddings", ["space"])


def _changes() -> None:
    op.create_table(
        "vector_changes",
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("floor", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("space", name="pk_vector_changes"),
    )
    op.create_table(
        "vectors_removed",
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("owner_kind", sa.String(12), nullable=False),
        sa.Column("owner_id", sa.String(64), nullable=False),
        sa.Column("vector_seq", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("space", "seq", name="pk_vectors_removed"),
    )
    op.create_index("ix_vectors_removed_model_seq", "vectors_removed", ["space", "model", "seq"])
