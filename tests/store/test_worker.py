"""A worker lives exactly as long as its process, for everyone who asks."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

import pagedaemon
from pagedaemon.errors import StorageUnavailable
from pagedaemon.store.worker import Worker

HOLDS = """
import sys
from pathlib import Path
from pagedaemon.store.worker import Worker
worker = Worker(Path(sys.argv[1]))
print(worker.id, flush=True)
sys.stdin.read()
"""

FORKS = """
import os, sys
from pathlib import Path
from pagedaemon.store.worker import Worker
worker = Worker(Path(sys.argv[1]))
child = os.fork()
if child == 0:
    worker.close()
    print(worker.id, os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
os.waitpid(child, 0)
"""

Start: TypeAlias = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a Python script with the workers' folder as its argument."""
    processes: list[subprocess.Popen[str]] = []

    def started(script: str) -> subprocess.Popen[str]:
        source = Path(pagedaemon.__file__).parents[1]
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source)},
        )
        processes.append(process)
        return process

    yield started
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> list[str]:
    """The words of the first line it prints."""
    assert process.stdout is not None
    return process.stdout.readline().split()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """This process, as a worker."""
    worker = Worker(tmp_path)
    yield worker
    worker.close()


def test_a_worker_is_alive_to_itself_and_to_others(worker: Worker, tmp_path: Path) -> None:
    other = Worker(tmp_path)
    assert worker.alive(worker.id)
    assert worker.alive(other.id)
    assert other.alive(worker.id)
    other.close()


def test_a_worker_nobody_has_heard_of_is_dead(worker: Worker) -> None:
    assert not worker.alive("0" * 32)


def test_a_closed_worker_is_dead_and_leaves_no_file(worker: Worker, tmp_path: Path) -> None:
    other = Worker(tmp_path)
    other.close()
    assert not worker.alive(other.id)
    assert [path.name for path in tmp_path.iterdir()] == [f"{worker.id}.lock"]


def test_closing_twice_does_nothing(worker: Worker, tmp_path: Path) -> None:
    other = Worker(tmp_path)
    other.close()
    other.close()
    assert not worker.alive(other.id)


def test_a_worker_is_alive_until_its_process_is_killed_and_dead_at_once(
    worker: Worker, start: Start, tmp_path: Path
) -> None:
    process = start(HOLDS)
    (owner,) = first_line(process)
    assert worker.alive(owner)
    process.kill()
    process.wait()
    assert not worker.alive(owner)
    assert not (tmp_path / f"{owner}.lock").exists(), "what a dead worker left is removed"
    assert not worker.alive(owner)


def test_a_worker_whose_process_stands_still_is_alive(worker: Worker, start: Start) -> None:
    process = start(HOLDS)
    (owner,) = first_line(process)
    process.send_signal(signal.SIGSTOP)
    assert worker.alive(owner)
    process.send_signal(signal.SIGCONT)


def test_asking_does_not_keep_a_dead_worker_alive_for_others(
    worker: Worker, start: Start, tmp_path: Path
) -> None:
    process = start(HOLDS)
    (owner,) = first_line(process)
    process.kill()
    process.wait()
    with (tmp_path / f"{owner}.lock").open("rb") as asked_by_another:
        fcntl.flock(asked_by_another, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert not worker.alive(owner)


def test_a_forked_child_does_not_keep_its_parent_alive(worker: Worker, start: Start) -> None:
    process = start(FORKS)
    owner, child = first_line(process)
    assert worker.alive(owner), "the child closing what it inherited does not end the parent"
    process.kill()
    process.wait()
    os.kill(int(child), 0)  # it still runs
    assert not worker.alive(owner)


def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageUnavailable, match="cannot be written"):
        Worker(tmp_path / "file" / "workers")
