"""Whether anything that a search found is likely to answer it.

Something is always nearest, and some word of a question stands somewhere. What nobody ever said is
known by both measures together: how much of the question's words the best hits cover, and how near
the nearest is. Each means the same in every search, which the score of a ranking does not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pagedaemon.memory.search import Near
from pagedaemon.store import fulltext
from pagedaemon.store.transaction import Transaction

LOOKED_AT = 5
"""The best hits that are looked at: a first page of the agent's."""

COVERED = 0.4
"""What coverage weighs; the rest is what nearness does."""

LEAST = 0.32
"""The least of both that counts as an answer, where the nearest is not near enough by itself.

Measured with the local embedder (`tests/benchmarks/unanswerable.py`): it takes 1 point of recall@10
on the open LoCoMo conversations. Of our own questions on what nobody spoke of, three in five find
nothing then, and of those where something near was said, one in ten: likeness does not tell whose
dog it is. More would cost more: at 0.39, and with no cosine that is enough, it would be 86 % and
35 %, for 5 points of recall.
"""

LEAST_COVERED = 0.19
"""The least coverage that does where there are no cosines. It takes 1 point too, and 71 % and 11 %
find nothing."""


def answered(
    tx: Transaction,
    kind: fulltext.Kind,
    words: str,
    best: Sequence[str],
    near: Near | None,
    *,
    speakers: Collection[str] = (),
) -> bool:
    """Whether what was found is likely to answer what was asked.

    Args:
        words: the query.
        best: ids of the first hits.
        speakers: who spoke in them. That somebody is named who speaks in a conversation says
            nothing of what was said there.
    """
    if not best:
        return False
    covered = fulltext.coverage(tx, kind, words, best, telling=True, without=speakers)
    most = max(covered.values(), default=0.0)
    if near is None or not near.cosines:
        return most >= LEAST_COVERED
    if near.floor is None or near.sure is None:
        return True  # nobody knows what the cosines of this model are worth
    nearest = max((near.cosines[one] for one in best if one in near.cosines), default=near.floor)
    above = max(0.0, (nearest - near.floor) / (1 - near.floor))
    return nearest >= near.sure or COVERED * most + (1 - COVERED) * above >= LEAST
