"""The words of the full-text indexes as tables that can be read: nothing is stored for it."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Two new virtual tables; nothing that is there changes."""
    op.execute("CREATE VIRTUAL TABLE messages_vocab USING fts5vocab(messages_fts, 'row')")
    op.execute("CREATE VIRTUAL TABLE passages_vocab USING fts5vocab(passages_fts, 'row')")
