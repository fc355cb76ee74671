"""The index of a model that is no longer used leaves the disk, and no other does."""

from __future__ import annotations

from pathlib import Path

from pagedaemon.store.index.generations import Generations, remove


def made(root: Path) -> Generations:
    """An index with something in it, held by whoever has this."""
    generations = Generations(root, {})
    generations.begin()
    (generations.folder / "chroma.sqlite3").write_bytes(b"vectors")
    return generations


def test_an_index_in_use_stays_whole_and_goes_once_it_is_let_go(tmp_path: Path) -> None:
    used = made(tmp_path / "used")
    assert not remove(tmp_path / "used")
    assert (used.folder / "chroma.sqlite3").read_bytes() == b"vectors"
    used._lock.close()
    assert remove(tmp_path / "used")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_gone_already(tmp_path: Path) -> None:
    assert remove(tmp_path / "never")
    assert list(tmp_path.iterdir()) == []


def test_a_neighbour_is_not_touched(tmp_path: Path) -> None:
    gone, other = made(tmp_path / "gone"), made(tmp_path / "other")
    gone._lock.close()
    assert remove(tmp_path / "gone")
    assert (other.folder / "chroma.sqlite3").read_bytes() == b"vectors"
    other._lock.close()
