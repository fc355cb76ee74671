"""What was learnt about token counts, by model."""

from __future__ import annotations

from sqlalchemy import insert, select, update

from pagedaemon.store.tables import token_factors
from pagedaemon.store.transaction import Transaction


def factors(tx: Transaction) -> dict[str, float]:
    """Per model: the learnt correction of our token counts."""
    table = token_factors.c
    rows = tx.all(select(table.model, table.factor).where(table.space == tx.space))
    return {row[0]: row[1] for row in rows}


def set_factor(tx: Transaction, model: str, factor: float) -> None:
    """Keeps a model's correction."""
    keys = (token_factors.c.model == model) & (token_factors.c.space == tx.space)
    if tx.execute(update(token_factors).where(keys).values(factor=factor)).rowcount == 0:
        tx.execute(insert(token_factors), {"model": model, "space": tx.space, "factor": factor})
