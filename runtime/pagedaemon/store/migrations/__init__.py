"""How older stores are brought to the head revision: Alembic's environment and one file per
revision."""
