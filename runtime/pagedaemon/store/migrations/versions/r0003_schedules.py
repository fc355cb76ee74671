"""What timers need: when agents are to be woken, and whose timers are held. And what each turn has
told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Two new tables and a column; nothing that is there changes."""
    op.add_column("turns", sa.Column("told", sa.JSON()))
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("conversation_id", sa.String(64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("due", sa.String(32), nullable=False),
        sa.Column("every", sa.Float()),
        sa.Column("trust", sa.String(10), nullable=False),
        sa.Column("step_id", sa.String(64)),
        sa.Column("turn_id", sa.String(64)),
        sa.Column("created_at", sa.String(32), nullable=False),
        _goes_with("schedules", "agent_id", "agents"),
        _goes_with("schedules", "conversation_id", "conversations"),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
    )
    op.create_index("ix_schedules_agent_id", "schedules", ["agent_id"])
    op.create_index("ix_schedules_space", "schedules", ["space"])
    op.create_index("ix_schedules_space_due", "schedules", ["space", "due"])
    op.create_table(
        "pauses",
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("until", sa.String(32)),
        _goes_with("pauses", "agent_id", "agents"),
        sa.PrimaryKeyConstraint("agent_id", name="pk_pauses"),
    )
    op.create_index("ix_pauses_space", "pauses", ["space"])


def _goes_with(table: str, column: str, parent: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{parent}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE"
    )
