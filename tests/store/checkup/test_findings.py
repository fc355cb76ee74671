"""What is told of two looks: what went between them, what stays, what came."""

from __future__ import annotations

from pagedaemon.store.checkup.findings import Finding, Report, Symptom, compared, looked

OPEN = Symptom("turn_open", "turn-1", "a turn that is open")
OTHER = Symptom("turn_open", "turn-2", "a turn that is open")
UNKNOWN = Symptom("outcome_unknown", "call-1", "nobody knows")
WAITING = Symptom("vectors_pending", "message-1", "a text that waits")


def test_what_is_wrong_in_the_same_way_is_one_finding() -> None:
    (finding,) = looked([OPEN, OTHER])
    assert finding.where == ("turn-1", "turn-2")
    assert (finding.kind, finding.state) == ("turn_open", "found")


def test_what_only_a_person_can_mend_is_left_from_the_first() -> None:
    assert [one.state for one in looked([OPEN, UNKNOWN])] == ["left", "found"]


def test_what_the_second_look_does_not_find_was_mended() -> None:
    found = compared([OPEN, OTHER], [OTHER])
    assert [(one.where, one.state) for one in found] == [
        (("turn-2",), "left"),
        (("turn-1",), "mended"),
    ]


def test_what_mending_has_brought_to_light_is_told() -> None:
    found = compared([OPEN], [UNKNOWN])
    assert [(one.kind, one.state) for one in found] == [
        ("outcome_unknown", "left"),
        ("turn_open", "mended"),
    ]


def test_why_it_could_not_be_mended_is_its_own_advice() -> None:
    needs = Symptom(OPEN.kind, OPEN.where, OPEN.what, "give it its model")
    (finding,) = compared([OPEN], [needs])
    assert finding == Finding("turn_open", OPEN.what, ("turn-1",), "left", "give it its model")


def test_a_report_is_sound_where_nothing_is_left_to_do() -> None:
    def is_sound(*findings: Finding) -> bool:
        return Report("default", findings).sound

    assert is_sound()
    assert is_sound(*compared([OPEN], []), *looked([WAITING]))
    assert not is_sound(*looked([OPEN]))
    assert not is_sound(*looked([UNKNOWN]))
