"""What approvals need: the calls that wait for a person, and what was answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """A new table; nothing that is there changes."""
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("conversation_id", sa.String(64), nullable=False),
        sa.Column("turn_id", sa.String(64), nullable=False),
        sa.Column("call_id", sa.String(64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("tool", sa.String(128), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("schema_hash", sa.String(64), nullable=False),
        sa.Column("why", sa.String(12), nullable=False),
        sa.Column("is_tainted", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("expires_at", sa.String(32), nullable=False),
        sa.Column("answered_at", sa.String(32)),
        sa.Column("answered_by", sa.String(200)),
        _goes_with("agent_id", "agents"),
        _goes_with("conversation_id", "conversations"),
        sa.PrimaryKeyConstraint("id", name="pk_approvals"),
    )
    op.create_index("ix_approvals_agent_id", "approvals", ["agent_id"])
    op.create_index("ix_approvals_space", "approvals", ["space"])
    op.create_index("ix_approvals_space_status", "approvals", ["space", "status", "expires_at"])


def _goes_with(column: str, parent: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{parent}.id"], name=f"fk_approvals_{column}", ondelete="CASCADE"
    )
