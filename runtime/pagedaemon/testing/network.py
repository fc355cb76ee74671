"""Refuses the network in this process, and remembers who asked for it.

Covered is what goes through Python's `socket` module, in any thread: connecting, sending a
datagram, looking up a name. That includes asyncio's selector loop, ssl, httpx and urllib. Native
code that opens its own sockets, and other processes, are not reached.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_LOCAL_FAMILIES = frozenset(
    getattr(socket, name) for name in ("AF_UNIX", "AF_NETLINK") if hasattr(socket, name)
)
"""Sockets that end in this machine by their kind."""


class NetworkBlocked(RuntimeError):
    """Something tried to reach the network while it was refused.

    It is no `OSError` on purpose: code that takes a lost connection for ordinary would hide it.

    Attributes:
        attempt: what was tried.
    """

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(f"{attempt.call} to {attempt.address} was refused: the network is blocked")
        self.attempt = attempt


@dataclass(frozen=True, slots=True)
class Attempt:
    """One refused use of the network."""

    call: str
    """The function of `socket` that was called, such as `connect` or `getaddrinfo`."""
    address: str
    """What it was to reach: `host:port`, or the name that was looked up."""


class NetworkBlock:
    """A block that is in force until `release` is called. Made by `block_network`.

    Attributes:
        attempts: what was refused so far, oldest first. Of several blocks in force the newest that
            refuses records.
    """

    def __init__(self, *, allow_loopback: bool) -> None:
        self.attempts: list[Attempt] = []
        self._allow_loopback = allow_loopback

    def release(self) -> None:
        """Allow again what this block refused; a second call changes nothing."""
        with _lock:
            if self in _in_force:
                _in_force.remove(self)
                if not _in_force:
                    _uninstall()

    def _refuses(self, host: object) -> bool:
        return not (self._allow_loopback and _is_loopback(host))


def block_network(*, allow_loopback: bool = True) -> NetworkBlock:
    """Refuse the network from now on. Blocks may overlap and be released in any order.

    Args:
        allow_loopback: let connections to this machine pass (127.0.0.0/8, ::1, `localhost`, and the
            unspecified address, which reaches this machine too). Unix sockets always pass.
    """
    block = NetworkBlock(allow_loopback=allow_loopback)
    with _lock:
        if not _in_force:
            _install()
        _in_force.append(block)
    return block


@contextmanager
def network_guard(*, allow_loopback: bool = True) -> Iterator[list[Attempt]]:
    """Refuse the network inside a `with`; it gives the list that attempts are recorded in.

    Args:
        allow_loopback: as for `block_network`.

    Raises:
        NetworkBlocked: in whatever code tried, at the call that tried.
    """
    block = block_network(allow_loopback=allow_loopback)
    try:
        yield block.attempts
    finally:
        block.release()


_lock = threading.Lock()
_in_force: list[NetworkBlock] = []
_originals: list[tuple[Any, str, Any]] = []
"""What stood in each patched place; None where a class had it from its base."""


def _install() -> None:
    for name, address_at in (("connect", 0), ("connect_ex", 0), ("sendto", -1), ("sendmsg", 3)):
        if hasattr(socket.socket, name):  # Windows has no sendmsg
            _patch(socket.socket, name, _guarded_method(name, address_at))
    for name in (
        "getaddrinfo",
        "gethostbyname",
        "gethostbyname_ex",
        "gethostbyaddr",
        "getnameinfo",
    ):
        _patch(socket, name, _guarded_lookup(name))


def _patch(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    _originals.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, replacement)


def _uninstall() -> None:
    while _originals:
        owner, name, original = _originals.pop()
        if original is None:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _guarded_method(name: str, address_at: int) -> Callable[..., Any]:
    original = getattr(socket.socket, name)

    def method(self: socket.socket, *arguments: Any) -> Any:
        # sendmsg has its address fourth and optional; without one the socket is connected already.
        given = arguments[address_at:][:1]
        if given and given[0] is not None and self.family not in _LOCAL_FAMILIES:
            _check(name, given[0])
        return original(self, *arguments)

    return method


def _guarded_lookup(name: str) -> Callable[..., Any]:
    original = getattr(socket, name)

    def lookup(host: Any, *arguments: Any, **named: Any) -> Any:
        port = arguments[0] if arguments else named.get("port")
        _check(name, (host, port) if name == "getaddrinfo" else host)
        return original(host, *arguments, **named)

    return lookup


def _check(call: str, address: Any) -> None:
    host = address[0] if isinstance(address, tuple) else address
    with _lock:
        refusing = next((block for block in reversed(_in_force) if block._refuses(host)), None)
        if refusing is None:
            return
        attempt = Attempt(call, _shown(address))
        refusing.attempts.append(attempt)
    raise NetworkBlocked(attempt)


def _shown(address: Any) -> str:
    if not isinstance(address, tuple):
        return _name(address)
    host, port = _name(address[0]), address[1]
    return host if port is None else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _name(host: object) -> str:
    if isinstance(host, bytes | bytearray):
        return host.decode("ascii", "backslashreplace")
    return str(host)


def _is_loopback(host: object) -> bool:
    if host is None:  # getaddrinfo's own way to say "this machine"
        return True
    name = _name(host).lower()
    if name in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:  # any other name has to be looked up, and that alone leaves the machine
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    return address.is_loopback or address.is_unspecified
