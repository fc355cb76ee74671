"""A small OpenAI-speaking endpoint on this machine, which answers what a test tells it to."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One answer of the endpoint, written piece by piece."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Sequence[bytes] = ()
    broken: bool = False
    """The connection is lost after the pieces, in the middle of the body."""
    pause: float = 0.0
    """Seconds before each piece."""


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class Endpoint:
    """Answers in the order of `will`; the last answer is repeated."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self.left = asyncio.Event()
        """Set when a client went away before its answer was whole."""
        self._answers: deque[Answer] = deque()

    def will(self, *answers: Answer) -> None:
        """Line up answers."""
        self._answers.extend(answers)

    def instead(self, *answers: Answer) -> None:
        """Forget what was lined up for these."""
        self._answers.clear()
        self.will(*answers)

    def answer_json(self, data: object, status: int = 200, **headers: str) -> None:
        """Line up one whole answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = {"content-type": "application/json", **named}
        self.will(Answer(status, kind, [json.dumps(data).encode()]))

    def answer_stream(
        self, *events: object, done: bool = True, broken: bool = False, pause: float = 0.0
    ) -> None:
        """Line up one stream of server-sent events."""
        pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
        if done:
            pieces.append(b"data: [DONE]\n\n")
        self.will(Answer(200, {"content-type": "text/event-stream"}, pieces, broken, pause))

    def plain(self, body: bytes, kind: str, status: int = 200, *, broken: bool = False) -> Answer:
        """An answer of exactly these bytes."""
        return Answer(status, {"content-type": kind}, [body] if body else [], broken)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the other side closes it."""
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line = await reader.readline()
        if not line:
            return False
        headers: dict[str, str] = {}
        while (header := (await reader.readline()).decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(line.decode().split()[1], headers, json.loads(body)))
        answer = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]
        head = [f"HTTP/1.1 {answer.status} Status", "transfer-encoding: chunked"]
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        writer.write(("\r\n".join(head) + "\r\n\r\n").encode())
        for piece in answer.pieces:
            await asyncio.sleep(answer.pause)
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if answer.broken:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def listening() -> AsyncIterator[Endpoint]:
    """An endpoint that is there for a while."""
    served = Endpoint()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(served.handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    yield served
    server.close()
    for task in tuple(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.wait_closed()
