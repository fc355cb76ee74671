"""The benchmark of search runs from end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SECONDS = 120


def measured(tmp_path: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """The figures of a tiny run, and what it prints."""
    out = tmp_path / "figures.json"
    script = Path(__file__).with_name("search.py")
    given = ["--tiny", "--folder", str(tmp_path), "--json", str(out), *arguments]
    done = subprocess.run(
        [sys.executable, str(script), *given],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def test_search_is_measured_with_and_without_vectors(tmp_path: Path) -> None:
    figures, _ = measured(tmp_path)
    (searched,) = figures["searches"]
    assert [searched[way]["via"] for way in ("keywords", "exact", "auto")] == [
        "keywords",
        "exact",
        "exact",
    ]
    assert all(searched[way]["cpu_ms"] > 0 for way in ("keywords", "exact", "auto"))
    assert searched["index"]["all"]["via"] == ["chroma"]
    for tag in ("all", "half", "hundredth", "rare"):
        assert searched["index"][tag]["recall@10"] >= 0.98
        assert searched["index"][tag]["recall@100"] >= 0.98
    assert searched["index"]["index_disk_mb"] > 0
    assert (searched["changes"]["unseen"], searched["changes"]["deleted_and_found"]) == (0, 0)
    anew = searched["embedder_changed"]
    assert anew["searches"] > 0
    assert (anew["wrong"], anew["silent"], anew["old_vectors_left"]) == (0, 0, 0)
    assert figures["inserts"]["without"]["per_second"] > 0
    assert figures["memory"]["embedding_mb"] > figures["memory"]["opened_mb"]


@pytest.mark.parametrize("growing", [(), ("--growing",)])
def test_searches_by_words_alone_are_measured_at_several_sizes(
    tmp_path: Path, growing: tuple[str, ...]
) -> None:
    figures, printed = measured(tmp_path, "--only", "keywords", "--sizes", "30", "300", *growing)
    assert [one["passages"] for one in figures["searches"]] == [30, 300]
    for one in figures["searches"]:
        assert all(one[sort]["cpu_ms"] > 0 for sort in ("drawn", "known", "single"))
        assert one["known"]["best"] >= 0.85, "what is newer may take the place of one in ten"
    assert "among 300 over 30, times" in printed
