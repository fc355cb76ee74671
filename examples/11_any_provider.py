"""Another provider's model through litellm: its shapes, its price, and a bound on what is spent.

Runs against a tiny server in this file, on this machine only, that answers as Anthropic's API does.
With a key of yours, `Model("anthropic/claude-sonnet-4-5")` is all it takes; so are `gemini/…`,
`mistral/…`, `bedrock/…` and the other names that litellm knows.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pagedaemon import Block, Limits, Model, Runtime

# What the model does when asked the first, the second and the third time.
CALLS = (
    (
        "core_memory_append",
        {"label": "human", "content": "Lives in Porto", "request_heartbeat": True},
    ),
    ("send_message", {"message": "Porto, noted. By the river?"}),
    ("archival_memory_search", {"query": "river", "request_heartbeat": True}),
)
asked: list[dict[str, Any]] = []


def events(number: int) -> Iterator[dict[str, Any]]:
    """One reply as the API streams it."""
    name, arguments = CALLS[number]
    spoken = json.dumps({"inner_thoughts": "Let me see.", **arguments})
    used = {"input_tokens": 3_000, "output_tokens": 1}
    message = {"id": f"m{number}", "type": "message", "role": "assistant", "model": "claude"}
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": spoken}
    yield {"type": "message_start", "message": {**message, "content": [], "usage": used}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 100}}
    yield {"type": "message_stop"}


class Provider(BaseHTTPRequestHandler):
    """Plays the replies in order and keeps what it was asked."""

    def do_POST(self) -> None:
        """Streams the next reply."""
        asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        told = events(len(asked) - 1)
        body = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in told)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Says nothing on standard error."""


@contextmanager
def provider() -> Iterator[str]:
    """Its URL, while it runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


with provider() as url, tempfile.TemporaryDirectory() as folder:
    # The key is never stored. Left out, it is read from ANTHROPIC_API_KEY. litellm is loaded at the
    # first call, once for the process, which takes some seconds.
    claude = Model("anthropic/claude-sonnet-4-5", base_url=url, api_key="not-a-real-key")
    with Runtime(folder, model=claude) as runtime:
        ada = runtime.agents.ensure("ada", blocks=[Block.human("Name: Lin")])
        turn = ada.send("I live in Porto.")
        print("ada:", turn.reply)
        print("human block:", ada.blocks["human"].value.replace("\n", " / "))

        # What was sent is in the provider's shape; what is stored is not, so an agent may change
        # its model in the middle of a conversation.
        last = asked[-1]
        print("\nsent beside the messages:", sorted(set(last) - {"messages", "stream"}))
        for message in last["messages"]:
            print(f"  {message['role']:<9}", [part["type"] for part in message["content"]])

        # Prices are those of the list that litellm carries; yours go before: Model(prices=...).
        spent = turn.usage.cost
        assert spent is not None, "the model is on the list"
        print(f"\n{turn.usage.calls} calls cost ${spent:.4f}")
        ada.update(limits=Limits(cost=0.005))
        turn = ada.send("Where by the river?")
        print(
            f"stopped: {turn.stop_reason}, after {turn.usage.calls} call of ${turn.usage.cost:.4f}"
        )
        print(f"ada in all: ${ada.usage().cost:.4f}")
