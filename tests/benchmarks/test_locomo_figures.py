"""The benchmark of recall on dialogs runs from end to end, over a dialog of our own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import fusion

from pagedaemon.memory.ranking import DEFAULT

SCRIPT = Path(__file__).with_name("locomo.py")

DIALOG = [
    {
        "sample_id": "ours",
        "conversation": {
            "session_1_date_time": "9:05 am on 3 March, 2024",
            "session_1": [
                {"speaker": "Ines", "dia_id": "D1:1", "text": "I found a stray kitten."},
                {"speaker": "Tom", "dia_id": "D1:2", "text": "Will you keep it?"},
                {
                    "speaker": "Ines",
                    "dia_id": "D1:3",
                    "text": "Look!",
                    "blip_caption": "a tabby in a basket",
                },
            ],
            "session_2_date_time": "8:40 pm on 19 April, 2024",
            "session_2": [
                {"speaker": "Tom", "dia_id": "D2:1", "text": "My flat floods when it rains."},
                {"speaker": "Ines", "dia_id": "D2:2", "text": "Then move to the hills."},
            ],
        },
        "qa": [
            {"question": "What animal did Ines find?", "category": 4, "evidence": ["D1:1"]},
            {"question": "Why is Tom unhappy at home?", "category": 1, "evidence": ["D:2:1; D2:2"]},
            {"question": "Who is king?", "category": 5, "evidence": ["D1:1"]},
            {"question": "Where is the tabby?", "category": 2, "evidence": ["D1:2"]},
        ],
    }
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_every_way_is_judged_by_the_mended_evidence(tmp_path: Path) -> None:
    data, fixes, out = (tmp_path / name for name in ("dialog.json", "dialog_fixes.json", "out"))
    data.write_text(json.dumps(DIALOG), encoding="utf-8")
    fixes.write_text(json.dumps({"ours": {"3": {"evidence": ["D1:3"]}}}), encoding="utf-8")
    done = run("--data", str(data), "--json", str(out))
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert figures["questions"] == 3
    assert set(figures["ways"]) == {
        "ours, MiniLM",
        "ours, no model",
        "as tools, MiniLM",
        "as tools, no model",
        "A",
        "B",
    }
    for one in figures["ways"].values():
        assert set(one["by_category"]) == {"multi-hop", "temporal", "single-hop"}
        assert 0 <= one["recall@5"] <= one["recall@10"] <= one["recall@20"] <= 1
        low, high = one["recall@10 interval"]
        assert low <= one["recall@10"] <= high
        assert one["cpu_ms"] > 0
    assert figures["ways"]["ours, MiniLM"]["recall@10"] == 1
    assert figures["ways"]["ours, no model"]["by_category"]["temporal"] == 1
    assert figures["ways"]["B"]["recall@10 over B"] == 0
    assert figures["ways"]["ours, MiniLM"]["bytes_per_turn"] > 0
    assert "ours, MiniLM" in done.stdout


def test_weights_are_learned_and_judged_on_what_was_left_out(tmp_path: Path) -> None:
    data, out = tmp_path / "dialog.json", tmp_path / "out"
    other = {**DIALOG[0], "sample_id": "other"}
    data.write_text(json.dumps([*DIALOG, other]), encoding="utf-8")
    done = run("--data", str(data), "--json", str(out), "--fit")
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    for name in ("ours, MiniLM", "ours, no model"):
        kept, left = figures["ways"][name], figures["ways"][f"{name}, left out"]
        assert left["cpu_ms"] is None
        assert 0 < left["recall@10"] <= kept["recall@20"]
    assert set(figures["weights"]) == set(fusion.NAMES)
    assert all(weight >= 0 for weight in figures["weights"].values())
    data.write_text(json.dumps(DIALOG), encoding="utf-8")
    assert "two or more" in run("--data", str(data), "--fit").stderr


def ranked(group: str, *candidates: tuple[str, float, float], gold: str) -> fusion.Ranked:
    """Candidates as (key, base, own)."""
    weight = DEFAULT.own
    parts = tuple({"keywords": base, "own": weight * own} for _, base, own in candidates)
    return fusion.Ranked(group, tuple(key for key, _, _ in candidates), parts, frozenset({gold}))


def test_what_tells_the_gold_ones_gets_the_weight_and_what_misleads_none() -> None:
    sure = [ranked(str(n), ("a", 0.9, 0.5), ("b", 0.1, 0.5), gold="a") for n in range(2)]
    unsure = [ranked(str(n), ("a", 0.5, 0.9), ("b", 0.6, 0.1), gold="a") for n in range(4)]
    telling = [*sure, *unsure]
    misleading = [ranked(str(n), ("a", 0.6, 0.1), ("b", 0.5, 0.9), gold="a") for n in range(4)]
    own = fusion.NAMES.index("own") + 1
    assert fusion.learned(telling)[own] > 0.5
    assert fusion.learned(misleading)[own] == 0
    assert fusion.reranked(telling, fusion.learned(telling)) == [["a", "b"]] * 6
    assert fusion.left_out({"way": telling})["way"] == [["a", "b"]] * 6


def test_without_the_data_it_says_what_it_needs(tmp_path: Path) -> None:
    done = run("--data", str(tmp_path / "absent.json"))
    assert done.returncode == 2
    assert "--data" in done.stderr
    assert "LoCoMo" in done.stderr
