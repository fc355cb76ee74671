"""The benchmarks over our own sets run from end to end, over a few of their cases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pagedaemon.config import NEAR_REPEATS

HERE = Path(__file__).parent


def some(name: str, worlds: set[str], folder: Path) -> Path:
    """These worlds of a set."""
    lines = (HERE / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if json.loads(line)["in"] in worlds]
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(kept), encoding="utf-8")
    return path


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_now_and_then_are_reported_apart_for_each_way_and_group(tmp_path: Path) -> None:
    data, out = some("now_then", {"en-01", "en-02"}, tmp_path), tmp_path / "out.json"
    done = run("now_then", "--data", str(data), "--json", str(out))
    assert done.returncode == 0, done.stderr
    ways = json.loads(out.read_text(encoding="utf-8"))["ways"]
    assert list(ways) == ["MiniLM", "MiniLM, as found", "no model", "no model, as found"]
    for groups in ways.values():
        assert list(groups) == ["all", "cue", "no cue", "messages", "passages", "en"]
        assert groups["all"]["questions"] == 48
        assert groups["cue"]["questions"] + groups["no cue"]["questions"] == 48
        for one in groups.values():
            assert all(0 <= one[name] <= 1 for name in ("now first", "then recall@10"))
    for model in ("MiniLM", "no model"):
        whole, as_found = ways[model]["all"], ways[f"{model}, as found"]["all"]
        assert whole["now first"] > as_found["now first"], "the newer was put first"
        assert abs(whole["then recall@10"] - as_found["then recall@10"]) <= 0.1
    assert "no cue" in done.stdout


def test_what_nobody_said_is_reported_beside_what_it_costs(tmp_path: Path) -> None:
    data, out = some("unanswerable", {"talk-01", "talk-02"}, tmp_path), tmp_path / "out.json"
    locomo = [
        {
            "sample_id": "ours",
            "conversation": {
                "session_1_date_time": "9:05 am on 3 March, 2024",
                "session_1": [{"speaker": "Ines", "dia_id": "D1:1", "text": "I found a kitten."}],
            },
            "qa": [{"question": "What did Ines find?", "category": 4, "evidence": ["D1:1"]}],
        }
    ]
    dialogs = tmp_path / "dialogs.json"
    dialogs.write_text(json.dumps(locomo), encoding="utf-8")
    done = run("unanswerable", "--data", str(data), "--locomo", str(dialogs), "--json", str(out))
    assert done.returncode == 0, done.stderr
    ways = json.loads(out.read_text(encoding="utf-8"))["ways"]
    assert list(ways) == ["ours, MiniLM", "LoCoMo, MiniLM", "ours, no model", "LoCoMo, no model"]
    for name, one in ways.items():
        assert one["recall@10"] <= one["recall@10 of all"]
        if name.startswith("ours"):
            assert one["questions"] == 48
            assert one["far"] > one["near"]
            assert one["nothing"] > 0
        else:
            assert one["questions"] == 61, "its own, and those that nobody answered"
            assert one["far"] == one["nothing"] > 0
            assert one["near"] is None
    assert "nothing found" in done.stdout


@pytest.mark.parametrize("name", ["now_then", "unanswerable"])
def test_without_its_set_it_says_what_it_needs(name: str, tmp_path: Path) -> None:
    done = run(name, "--data", str(tmp_path / "absent"))
    assert done.returncode == 2
    assert "--data" in done.stderr


def test_no_pair_that_tells_of_two_things_is_taken_for_one_fact(tmp_path: Path) -> None:
    """At the default of `Settings.near_repeats`."""
    out = tmp_path / "out.json"
    done = run("near_repeats", "--json", str(out))
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    for group in ("all", "held out"):
        (usual,) = (one for one in figures[group] if one["least"] == NEAR_REPEATS)
        assert usual["different"]["near"] > 5, "the cosine alone does not tell them apart"
        assert usual["different"]["one"] == 0
        assert usual["same"]["one"] >= 0.8 * usual["same"]["near"]
        assert usual["same"]["told"] == usual["same"]["near"]
