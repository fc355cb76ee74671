"""Which messages leave the window: pure functions over a queue."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from pagedaemon.memory.eviction import Group, evictable, groups, oldest_to_leave
from pagedaemon.messages import Call, Kind, Message, Role

NOW = datetime(2026, 11, 30, 15, 53, tzinfo=UTC)


def message(
    seq: int,
    role: Role = "user",
    kind: Kind = "message",
    *,
    calls: int = 0,
    answers: str | None = None,
    pinned: bool = False,
) -> Message:
    return Message(
        id=f"m{seq}",
        seq=seq,
        role=role,
        kind=kind,
        text=f"text {seq}",
        created_at=NOW,
        calls=tuple(Call(f"c{seq}_{n}", "look", "{}", "{}") for n in range(calls)),
        call_id=answers,
        pinned=pinned,
    )


@st.composite
def queues(draw: st.DrawFn) -> list[Message]:
    """Turns of a question and replies with 0 to 3 calls, some pinned, perhaps a summary."""
    queue: list[Message] = []
    for _ in range(draw(st.integers(0, 8))):
        queue.append(message(len(queue) + 1, pinned=draw(st.booleans()) and draw(st.booleans())))
        for calls in draw(st.lists(st.integers(0, 3), max_size=3)):
            reply = message(len(queue) + 1, "assistant", "reply", calls=calls)
            queue.append(reply)
            for made in reply.calls:
                queue.append(message(len(queue) + 1, "tool", "result", answers=made.id))
    if draw(st.booleans()):
        queue.append(message(len(queue) + 1, "user", "summary"))
    return queue


@given(queues())
def test_groups_cover_the_queue_in_order_without_its_summary(queue: list[Message]) -> None:
    flat = [member for group in groups(queue) for member in group.messages]
    assert flat == [one for one in queue if one.kind != "summary"]


@given(queues(), st.integers(0, 40), st.integers(0, 6))
def test_a_call_and_its_results_leave_together_or_stay_together(
    queue: list[Message], excess: int, keep_last: int
) -> None:
    leaving = oldest_to_leave(
        evictable(queue, frozenset()), lambda one: 1, excess=excess, keep_last=keep_last
    )
    gone = {member.id for group in leaving for member in group.messages}
    for one in queue:
        answered = [other for other in queue if other.call_id in {c.id for c in one.calls}]
        assert len({other.id in gone for other in (one, *answered)}) == 1


@given(queues(), st.integers(0, 40))
def test_what_must_stay_and_what_is_pinned_stays(queue: list[Message], excess: int) -> None:
    keep = frozenset(one.id for one in queue[-1:])
    leaving = oldest_to_leave(evictable(queue, keep), lambda one: 1, excess=excess, keep_last=0)
    for group in leaving:
        assert not group.pinned
        assert not any(member.id in keep or member.kind == "summary" for member in group.messages)


@given(queues(), st.integers(1, 40), st.integers(0, 6))
def test_the_shortest_run_of_oldest_groups_that_frees_enough_leaves(
    queue: list[Message], excess: int, keep_last: int
) -> None:
    candidates = evictable(queue, frozenset())
    leaving = oldest_to_leave(candidates, lambda one: 1, excess=excess, keep_last=keep_last)
    assert leaving == candidates[: len(leaving)]
    freed = [len(group.messages) for group in leaving]
    assert sum(freed[:-1]) < excess
    kept = sum(len(group.messages) for group in candidates[len(leaving) :])
    # All it could have freed without the newest is gone, or enough is.
    assert sum(freed) >= excess or kept <= keep_last + 3
    if leaving:
        assert kept >= min(keep_last, kept + sum(freed))


def test_a_reply_with_a_pinned_result_is_pinned_as_a_whole() -> None:
    reply = message(1, "assistant", "reply", calls=2)
    group = Group(
        (
            reply,
            message(2, "tool", "result", answers="c1_0"),
            message(3, "tool", "result", answers="c1_1", pinned=True),
        )
    )
    assert groups(list(group.messages)) == [group]
    assert group.pinned
    assert group.last_seq == 3
    assert evictable(list(group.messages), frozenset()) == []


def test_nothing_leaves_where_nothing_is_too_much() -> None:
    queue = [message(1), message(2)]
    assert oldest_to_leave(groups(queue), lambda one: 10, excess=0, keep_last=0) == []
    assert oldest_to_leave(groups(queue), lambda one: 10, excess=-5, keep_last=0) == []
