"""What passes between a process and its index: a JSON header and raw bytes, each with its length.

Nothing that arrives can run: the header is data, the bytes are little-endian 32-bit floats.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

_LENGTHS = struct.Struct("!II")


def write_frame(stream: IO[bytes], header: Mapping[str, Any], body: bytes = b"") -> None:
    """Sends one frame.

    Raises:
        OSError: the other end is gone.
        ValueError: the stream was closed.
    """
    written = json.dumps(header).encode()
    stream.write(_LENGTHS.pack(len(written), len(body)))
    stream.write(written)
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Waits for one frame; None where the other end closed, also in the middle of a frame.

    Raises:
        OSError, ValueError: the stream failed or was closed, or what came is no frame.
    """
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header_size, body_size = _LENGTHS.unpack(lengths)
    header = stream.read(header_size)
    body = stream.read(body_size)
    if len(header) < header_size or len(body) < body_size:
        return None
    parsed = json.loads(header)
    if not isinstance(parsed, dict):
        raise ValueError("a frame's header is a JSON object")
    return parsed, body
