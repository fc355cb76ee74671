"""A local model by its base URL: its window, calls it writes as text, replies held to a schema.

Runs against a tiny server in this file, on this machine only, that plays the part of a small model.
Try your own, such as Ollama's: `python examples/10_local_model.py http://localhost:11434/v1 qwen3`
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pagedaemon import Block, Model, Runtime


class SmallModel(BaseHTTPRequestHandler):
    """Answers as a small model behind an OpenAI-compatible server does."""

    def do_POST(self) -> None:
        """Saves the name it is told, and says hello when it reads it in the prompt."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        known = "Name: Lin" in asked["messages"][0]["content"]
        if "response_format" in asked:  # the reply must fit this schema, so it does
            content = json.dumps({"reply": "Good to see you again, Lin."})
        elif known:
            content = "Hello Lin, I shall remember your name."
        else:
            call = {"label": "human", "content": "Name: Lin"}
            made = {"name": "core_memory_append", "arguments": call}
            content = f"<tool_call>{json.dumps(made)}</tool_call>"
        message = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": 1_900, "completion_tokens": 20, "total_tokens": 1_920}
        answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        body = json.dumps({**answer, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing on standard error."""


@contextmanager
def small_server() -> Iterator[str]:
    """Its base URL, while it runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SmallModel) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def talk(url: str, name: str) -> None:
    """The same agent, with the model as it is and held to a schema."""
    # The window the server was started with: many local servers cut what is too long, silently.
    plain = Model(f"openai/{name}", base_url=url, context_window=8_192, max_output_tokens=512)
    # For models that break their JSON. The server must know `response_format: json_schema`.
    held = plain.model_copy(update={"constrained": True})

    with tempfile.TemporaryDirectory() as folder, Runtime(folder, model=plain) as runtime:
        # Plain replies and ordinary tool calls: what small models were trained on.
        ada = runtime.agents.ensure("ada", blocks=[Block.human("")], style="native")
        turn = ada.send("Hi, I'm Lin.")
        for step in turn.steps:
            print(f"step {step.seq}:", [(call.tool, call.arguments) for call in step.calls])
        print("ada:", turn.reply)
        print("human block:", ada.blocks["human"].value)
        print(f"usage: {turn.usage.prompt_tokens:,} + {turn.usage.completion_tokens} tokens")

        ada.update(model=held)
        print("ada, held to a schema:", ada.send("Hello again.").reply)


if len(sys.argv) > 2:
    talk(sys.argv[1], sys.argv[2])
else:
    with small_server() as address:
        talk(address, "small")
