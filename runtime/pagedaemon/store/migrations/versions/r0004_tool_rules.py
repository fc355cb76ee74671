"""Tools that must be called before a turn ends are rules among others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_AGENTS = sa.table("agents", sa.column("id", sa.String), sa.column("settings", sa.JSON))


def upgrade() -> None:
    """Each agent's `required_tools` become `rules` of the kind `required`."""
    connection = op.get_bind()
    for agent_id, settings in connection.execute(sa.select(_AGENTS)).all():
        if "required_tools" not in settings:
            continue
        required = settings.pop("required_tools")
        settings["rules"] = [
            *settings.get("rules", ()),
            *({"rule": "required", "tool": tool} for tool in required),
        ]
        connection.execute(
            sa.update(_AGENTS).where(_AGENTS.c.id == agent_id).values(settings=settings)
        )
