"""A disk that is full at any write of a turn (fault O6): the error is typed, nothing of the step
lands, and once there is room everything goes on, each thing once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cases.disk import FullAt, Workload, work
from tests.cases.filling import NOT_PERMITTED, Try
from tests.crash.forking import folder

ROOT = Path(__file__).parents[2]


def ran(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")])},
        timeout=300,
        check=False,
    )


async def test_full_at_any_statement_that_writes_is_typed_and_loses_nothing() -> None:
    with folder() as place:
        disk = FullAt(None)
        with disk.database():
            assert await work(Workload(place / "none"), disk) is None
        assert len(disk.seen) > 20
        for number, statement in enumerate(disk.seen):
            disk = FullAt(number)
            with disk.database():
                full = await work(Workload(place / str(number)), disk)
            assert full is not None, (number, statement)


@pytest.mark.parametrize("spare", [0, 5_000], ids=["nothing fits", "one page fits"])
def test_full_at_any_commit_is_typed_and_loses_nothing(spare: int) -> None:
    with folder() as place:
        ended = ran("tests.cases.disk", str(place), str(spare))
    assert ended.returncode == 0, ended.stderr[-4000:]
    reached = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(reached) >= 4
    assert all(one["full"] for one in reached), reached


@pytest.fixture(scope="module")
def tries() -> dict[str, list[Try]]:
    """What came of each, by kind. Every one has been looked at by `Workload.check`."""
    with folder() as place:
        ended = ran("tests.cases.filling", str(place))
    if ended.returncode == NOT_PERMITTED:
        # Not a failure in CI either: many run in containers that may do neither, and there the
        # other two full disks are still filled.
        pytest.skip(
            "this needs to mount a tmpfs: on Linux, with CAP_SYS_ADMIN or with user "
            f"namespaces ({ended.stderr.strip()})"
        )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: dict[str, list[Try]] = {}
    for line in map(json.loads, ended.stdout.splitlines()):
        found.setdefault(line.pop("kind"), []).append(line)
    return found


class TestASmallFileSystem:
    """A tmpfs of a megabyte and a quarter, filled from one place after another on."""

    def test_every_statement_that_writes_and_every_commit_finds_no_space(
        self, tries: dict[str, list[Try]], capsys: pytest.CaptureFixture[str]
    ) -> None:
        (first, *filled) = tries["statement"]
        writes = first["writes"]
        ends = [number for number, what in enumerate(writes) if what.startswith("COMMIT")]
        assert [one["place"] for one in filled] == list(range(len(writes)))
        for one in filled:
            # What changes only pages that are at hand is written by the next, or by its commit.
            end = next(end for end in ends if end >= one["place"])
            assert one["full"], (one, writes[one["place"]])
            assert one["place"] <= one["met"] <= end, (one, writes[one["place"]])
        met = {one["met"] for one in filled if not one["reads"]}
        assert len(met) > len(writes) * 2 // 3
        assert met.issuperset(ends)
        assert len(ends) >= 4
        with capsys.disabled():
            print(
                f"\nno space left: {len(met)} of {len(writes)} writes met it themselves, "
                f"{len(ends)} of them commits; the others at what wrote for them"
            )

    def test_a_commit_that_finds_space_for_some_of_its_pages_lands_whole_or_not_at_all(
        self, tries: dict[str, list[Try]]
    ) -> None:
        assert len(tries["commit"]) >= 8
        for one in tries["commit"]:
            assert (one["full"], one["met"]) == (True, one["place"]), one

    def test_a_call_whose_result_found_no_space_is_told_as_unknown(
        self, tries: dict[str, list[Try]]
    ) -> None:
        unknown = {
            (one["leaving"], one["unknown"]) for one in [*tries["statement"][1:], *tries["commit"]]
        }
        assert unknown == {(False, 0), (False, 1), (True, 0), (True, 1)}

    @pytest.mark.parametrize("kind", ["opening", "making"])
    def test_a_store_that_finds_no_space_to_open_is_typed_and_opens_with_more(
        self, tries: dict[str, list[Try]], kind: str
    ) -> None:
        full = [one["full"] for one in tries[kind]]
        assert len(full) > 4
        assert full == [True] * (len(full) - 1) + [False]

    def test_a_log_that_cannot_be_moved_into_the_file_is_kept_and_read(
        self, tries: dict[str, list[Try]]
    ) -> None:
        moved = tries["moving"]
        assert [(one["full"], one["left"]) for one in moved] == [
            *[(True, True)] * (len(moved) - 1),
            (False, False),
        ]
        assert len(moved) > 1

    def test_a_shared_memory_file_that_cannot_grow_with_the_log_is_typed(
        self, tries: dict[str, list[Try]]
    ) -> None:
        grown = tries["shared memory"]
        assert all(one["full"] for one in grown)
        assert "SQLITE_IOERR_SHMSIZE" in {one["code"] for one in grown}
