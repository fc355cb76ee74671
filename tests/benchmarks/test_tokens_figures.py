"""The benchmark of tokens runs from end to end, over a dialog of our own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("tokens.py")
TURNS = 60

DIALOG = [
    {
        "sample_id": "ours",
        "conversation": {
            "session_1_date_time": "9:05 am on 3 March, 2024",
            "session_1": [
                {"speaker": "Ines", "dia_id": "D1:1", "text": "I found a stray kitten."},
                *(
                    {
                        "speaker": ("Tom", "Ines")[number % 2],
                        "dia_id": f"D1:{number}",
                        "text": f"Boat {number} came in with {number * 7} crates of fish and rope.",
                    }
                    for number in range(2, TURNS)
                ),
            ],
        },
        "qa": [
            {"question": "Where was the stray kitten?", "category": 4, "evidence": ["D1:1"]},
            {"question": "What did boat 9 bring?", "category": 4, "evidence": ["D1:9"]},
        ],
    }
]


def test_what_a_question_adds_is_counted_beside_the_whole_conversation(tmp_path: Path) -> None:
    data, out = tmp_path / "dialog.json", tmp_path / "out"
    data.write_text(json.dumps(DIALOG), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--data", str(data), "--json", str(out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert figures["questions"] == 2
    for one in figures["ways"].values():
        assert one["recall@10"] == 1
        assert 0 < one["recalled"] < one["pasted"]
        assert one["recalled_p95"] >= one["recalled"]
        assert one["saved"] == pytest.approx(1 - one["recalled"] / one["pasted"])
        assert one["saved_least"] <= one["saved"]
        assert one["saved_with_fixed"] < one["saved"]
        assert 0 < one["cpu_ms"] <= one["cpu_p95_ms"]
    assert "share saved" in done.stdout
