"""The benchmark of search runs from end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SECONDS = 120


def test_search_is_measured_with_and_without_vectors(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    script = Path(__file__).with_name("search.py")
    arguments = ["--tiny", "--folder", str(tmp_path), "--json", str(out)]
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
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
