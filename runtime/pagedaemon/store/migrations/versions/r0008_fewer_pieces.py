"""The full-text indexes are kept in fewer pieces.

Each write adds a piece, and a search looks into all of them: of a conversation of 680 messages into
18, which took a quarter more time than six do. FTS5 merges them for us, of each size as many as it
is told: 16 by default, now four; and where it is asked to merge (`fulltext`), two.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Two settings of each index; what is there is merged as more is written."""
    for index in ("messages_fts", "passages_fts"):
        op.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('crisismerge', 4)")
        op.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('usermerge', 2)")
