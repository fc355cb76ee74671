"""The benchmarks run from end to end, on a dialog and an endpoint made here; without their input
they say what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SECONDS = 120

_THINGS = ("kettle", "violin", "ladder", "compass", "blanket", "harbour", "lantern", "orchard")
_PLACES = ("Ghent", "Porto", "Turku", "Split", "Bergen", "Leeds", "Graz")

ENDPOINT = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

seen = []
kept = 0

class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_):
        pass

    def do_GET(self):
        pages = {"/captured": [{"body": body} for body in seen[-max(kept, 1):]], "/stats": {}}
        self.answer(json.dumps(pages[self.path]).encode(), "application/json")

    def do_POST(self):
        global kept
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/v1/chat/completions":
            seen.append(body)
            self.answer(stream(reply(body["messages"])), "text/event-stream")
        else:
            if self.path == "/reset":
                seen.clear()
            kept = body.get("capture", kept)
            self.answer(b"{}", "application/json")

    def answer(self, data, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

def reply(messages):
    edits = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            edits += 1
        words = message.get("content") or ""
        if message["role"] == "user" and not words.startswith('{"type"'):
            break
    if "[[chain:10]]" in words and edits < 10:
        given = {"label": "human", "content": f"fact {edits}", "request_heartbeat": True}
        return "core_memory_append", given
    return "send_message", {"message": "Well, thank you."}

def stream(call):
    name, given = call
    function = {"name": name, "arguments": json.dumps({"inner_thoughts": "", **given})}
    made = {"index": 0, "id": f"call_{len(seen)}", "type": "function", "function": function}
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [made]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    lines = [f"data: {json.dumps(chunk)}\\n\\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\\n\\n"]).encode()

server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
print(f"listening on http://127.0.0.1:{server.server_port}/v1", flush=True)
server.serve_forever()
"""


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PAGEDAEMON_")
    }
    return subprocess.run(
        [sys.executable, str(HERE / script), *map(str, arguments)],
        env={**environment, "PYTHONPATH": str(HERE.parents[1] / "runtime")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def a_dialog(turns: int) -> list[dict[str, Any]]:
    """Two people, two sessions, each turn with words of its own; the questions' evidence is
    written as untidily as in the real file."""
    said = [
        {
            "speaker": ("Noor", "Emil")[number % 2],
            "dia_id": f"D{1 + number % 2}:{1 + number // 2}",
            "text": f"My {_THINGS[number % 8]} number {number} came from {_PLACES[number % 7]}, "
            "and it took the whole of a long and rainy afternoon to carry it home again.",
        }
        for number in range(turns)
    ]
    said[3]["blip_caption"] = "a photo of a red umbrella"
    questions = [
        ("Which violin number 1 came, and from where?", "D2:1", 4),
        ("Who shared a photo of an umbrella?", "D:2:02; D1:1", 1),
        ("What was never said?", "D", 3),
        ("Where did the submarine come from?", "D1:1", 5),
    ]
    conversation = {
        "speaker_a": "Noor",
        "speaker_b": "Emil",
        "session_1": [turn for turn in said if turn["dia_id"].startswith("D1")],
        "session_1_date_time": "9:05 am on 1 March, 2024",
        "session_2": [turn for turn in said if turn["dia_id"].startswith("D2")],
        "session_2_date_time": "12:30 pm on 2 April, 2024",
    }
    asked = [
        {"question": text, "evidence": [evidence], "category": category}
        for text, evidence, category in questions
    ]
    return [{"sample_id": "made-up", "conversation": conversation, "qa": asked}]


def test_a_replay_loses_nothing_stays_in_its_budget_and_asks_with_the_tool(tmp_path: Path) -> None:
    data, out = tmp_path / "dialog.json", tmp_path / "figures.json"
    data.write_text(json.dumps(a_dialog(60)), encoding="utf-8")
    done = run("replay.py", "--data", data, "--json", out)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    (replayed,) = figures["conversations"]
    assert replayed["turns"] == 60
    assert replayed["lost"] == 0
    assert replayed["found_on_first_page"] == 1.0
    assert replayed["requests_over_budget"] == 0
    assert replayed["page_outs_by_agent"] + replayed["page_outs_by_runtime"] > 0
    # The question whose evidence names no turn is not asked.
    assert [(one["evidence"], one["searched"]) for one in figures["questions"]] == [
        (["D2:1"], 1),
        (["D2:2", "D1:1"], 1),
        (["D1:1"], 1),
    ]
    assert [one["evidence_on_first_page"] for one in figures["questions"]][:2] == [True, True]
    assert "all but adversarial" in done.stdout


def test_corrected_evidence_beside_the_data_takes_the_place_of_the_wrong_one(
    tmp_path: Path,
) -> None:
    data, out = tmp_path / "dialog.json", tmp_path / "figures.json"
    data.write_text(json.dumps(a_dialog(20)), encoding="utf-8")
    fixes = {"made-up": {"0": {"evidence": ["D1:3"]}}}
    data.with_name("dialog_fixes.json").write_text(json.dumps(fixes), encoding="utf-8")
    run("replay.py", "--data", data, "--json", out)
    assert json.loads(out.read_text(encoding="utf-8"))["questions"][0]["evidence"] == ["D1:3"]


def test_a_replay_without_pressure_says_that_nothing_was_paged_out(tmp_path: Path) -> None:
    data = tmp_path / "dialog.json"
    data.write_text(json.dumps(a_dialog(4)), encoding="utf-8")
    done = run("replay.py", "--data", data)
    assert done.returncode == 1
    assert "nothing was paged out" in done.stderr


def test_the_overhead_is_measured_against_an_endpoint(tmp_path: Path) -> None:
    endpoint, out = tmp_path / "endpoint.py", tmp_path / "figures.json"
    endpoint.write_text(ENDPOINT, encoding="utf-8")
    done = run("overhead.py", "--tiny", "--mock", endpoint, "--folder", tmp_path, "--json", out)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert figures["import"]["loaded_too_early"] == []
    assert figures["import"]["network"] == []
    assert figures["echo"]["commits"] == 2
    assert 0 < figures["echo"]["statements"] <= 15
    assert figures["chain"]["commits"] == 1
    assert figures["long_window"]["messages"] >= 60
    assert figures["prefix"]["kept_whole"] == 1
    assert 0 < figures["echo"]["cpu_ms_low"] <= figures["echo"]["cpu_ms"]


def test_throughput_is_measured_beside_what_the_disk_allows(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = run("throughput.py", "--tiny", "--folder", tmp_path, "--json", out)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    for what in ("turns", "created", "created_16", "conversations"):
        measured = figures[what]
        assert 0 < measured["per_second"] <= measured["best"], what
        assert measured["cpu_ms_each"] > 0, what
        # The commits that its own are compared with were made on the same disk, and took time.
        assert measured["fsync_ms"] > 0, what
        bare = measured["per_second"] / measured["bare_commits_per_second"]
        assert measured["ratio_to_bare"] == pytest.approx(bare), what
    # Who comes alone has a commit to itself; those who come at once may share theirs.
    assert 1 <= figures["created"]["commits_each"] < 2
    assert 0 < figures["created_16"]["commits_each"] < 2
    assert figures["idle"]["agents"] == 5
    assert min(figures["idle"][f"mb_{when}"] for when in ("before", "created", "after")) > 0
    assert "turns, 3 agents x 2" in done.stdout


def test_both_gateways_are_measured_beside_their_bare_clients(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = run("gateways.py", "--calls", "2", "--json", out)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert (figures["calls"], figures["messages"]) == (2, 101)
    taken = figures["milliseconds"]
    assert sorted(taken) == ["litellm, bare", "litellm, ours", "openai, bare", "openai, ours"]
    for gateway in ("openai", "litellm"):
        ours, bare = taken[f"{gateway}, ours"], taken[f"{gateway}, bare"]
        assert min(ours, bare) > 0
        assert figures[f"ratio_{gateway}"] == pytest.approx(ours / bare)
        assert f"{gateway}, ours" in done.stdout


@pytest.mark.parametrize(("script", "option"), [("replay.py", "--data"), ("overhead.py", "--mock")])
def test_without_its_input_a_benchmark_says_what_it_needs(
    tmp_path: Path, script: str, option: str
) -> None:
    done = run(script, option, tmp_path / "absent")
    assert done.returncode == 2
    assert str(tmp_path / "absent") in done.stderr
    assert option in done.stderr
    assert "Traceback" not in done.stderr
