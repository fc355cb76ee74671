"""What a call through each gateway takes beside the bare client, against a server on this machine.

    python tests/benchmarks/gateways.py [--calls 100] [--json figures.json]

Each way sends the same 101 messages and gets the same short answer, in turns, so that whatever else
the machine does falls on all alike. Figures are medians of wall time in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pagedaemon.config import Model
from pagedaemon.llm.litellm import LiteLLMModel, load
from pagedaemon.llm.openai import OpenAIModel
from pagedaemon.llm.protocol import Request

WORDS = "The quick brown fox jumps over the lazy dog. " * 8
MESSAGES: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": WORDS},
    *({"role": ("user", "assistant")[number % 2], "content": WORDS} for number in range(99)),
    {"role": "user", "content": "And now?"},
)
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "mock",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 9_000, "completion_tokens": 1, "total_tokens": 9_001},
}


async def serve() -> None:
    """The server: says where it listens, and answers until it is killed."""
    body = json.dumps(ANSWER).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            length = 0
            while (line := (await reader.readline()).decode().strip().lower()) != "":
                name, _, value = line.partition(":")
                length = int(value) if name == "content-length" else length
            await reader.readexactly(length)
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


async def measured(url: str, calls: int) -> dict[str, float]:
    """Milliseconds of a call, by way."""
    import openai

    litellm = load()
    plain: Any = list(MESSAGES)
    client = openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0)
    ours = OpenAIModel(Model("openai/mock", base_url=url, api_key="k"))
    through = LiteLLMModel(Model("hosted_vllm/mock", base_url=url, api_key="k"))
    request = Request(MESSAGES, (), 100)

    def bare_litellm() -> Awaitable[object]:
        asked: Awaitable[object] = litellm.acompletion(
            model="hosted_vllm/mock",
            messages=[dict(message) for message in MESSAGES],
            api_base=url,
            api_key="k",
            max_tokens=100,
            num_retries=0,
        )
        return asked

    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "openai, bare": lambda: client.chat.completions.create(
            model="mock", messages=plain, max_tokens=100
        ),
        "openai, ours": lambda: ours.complete(request),
        "litellm, bare": bare_litellm,
        "litellm, ours": lambda: through.complete(request),
    }
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(calls + 5):
        for way, asking in ways.items():
            began = time.perf_counter()
            await asking()
            if number >= 5:  # the first ones open connections and fill caches
                taken[way].append((time.perf_counter() - began) * 1e3)
    await client.close()
    await ours.aclose()
    await through.aclose()
    return {way: statistics.median(times) for way, times in taken.items()}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve())
        return
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            found = asyncio.run(measured(server.stdout.readline().strip(), given.calls))
        finally:
            server.kill()
    figures = {
        "calls": given.calls,
        "messages": len(MESSAGES),
        "milliseconds": found,
        "ratio_openai": found["openai, ours"] / found["openai, bare"],
        "ratio_litellm": found["litellm, ours"] / found["litellm, bare"],
    }
    for way, median in found.items():
        print(f"{way:16}{median:8.2f} ms")
    print(
        f"ours / bare: openai {figures['ratio_openai']:.2f}, litellm {figures['ratio_litellm']:.2f}"
    )
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
