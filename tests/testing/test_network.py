"""The network is refused inside the guard, whichever way it is asked for, and only there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pagedaemon.testing import Attempt, NetworkBlocked, block_network, network_guard

OUTSIDE = ("192.0.2.1", 443)
"""An address kept for documentation (RFC 5737): nobody answers there, should a guard fail."""

PUT_BACK = """
import socket
from pagedaemon.testing import NetworkBlocked, block_network, network_guard

def standing():
    return dict(vars(socket)), dict(vars(socket.socket))

before = standing()
with network_guard():
    assert standing() != before
    block_network().release()
    assert standing() != before
try:
    with network_guard():
        socket.getaddrinfo("example.com", 443)
except NetworkBlocked:
    pass
assert standing() == before
"""


@pytest.fixture
def tcp() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


@pytest.fixture
def udp() -> Iterator[socket.socket]:
    with socket.socket(type=socket.SOCK_DGRAM) as made:
        yield made


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_connecting_is_refused_and_recorded(tcp: socket.socket) -> None:
    with network_guard() as attempts:
        with pytest.raises(NetworkBlocked, match=r"connect to 192\.0\.2\.1:443") as refusal:
            tcp.connect(OUTSIDE)
        with pytest.raises(NetworkBlocked):
            tcp.connect_ex(OUTSIDE)
    assert attempts == [
        Attempt("connect", "192.0.2.1:443"),
        Attempt("connect_ex", "192.0.2.1:443"),
    ]
    assert refusal.value.attempt == attempts[0]


def test_datagrams_are_refused(udp: socket.socket) -> None:
    with network_guard() as attempts:
        with pytest.raises(NetworkBlocked):
            udp.sendto(b"x", OUTSIDE)
        with pytest.raises(NetworkBlocked):
            udp.sendto(b"x", 0, OUTSIDE)
        with pytest.raises(NetworkBlocked):
            udp.sendmsg([b"x"], [], 0, OUTSIDE)
    assert {attempt.address for attempt in attempts} == {"192.0.2.1:443"}


@pytest.mark.parametrize(
    "look_up",
    [
        lambda: socket.getaddrinfo("example.com", 443),
        lambda: socket.getaddrinfo(host="example.com", port=443),
        lambda: socket.gethostbyname("example.com"),
        lambda: socket.gethostbyname_ex("example.com"),
        lambda: socket.gethostbyaddr("example.com"),
        lambda: socket.getnameinfo(("example.com", 443), 0),
        lambda: socket.create_connection(("example.com", 443)),
        lambda: socket.getaddrinfo(b"example.com", 443),
        lambda: urllib.request.urlopen("http://example.com"),
    ],
)
def test_looking_up_a_name_is_refused(look_up: Callable[[], object]) -> None:
    with network_guard() as attempts, pytest.raises(NetworkBlocked, match=r"example\.com"):
        look_up()
    assert [attempt.address.partition(":")[0] for attempt in attempts] == ["example.com"]


async def test_asyncio_is_refused() -> None:
    with network_guard() as attempts:
        with pytest.raises(NetworkBlocked):
            await asyncio.open_connection("example.com", 443)
        with pytest.raises(NetworkBlocked):
            await asyncio.open_connection(*OUTSIDE)
        with socket.socket() as made:
            made.setblocking(False)
            with pytest.raises(NetworkBlocked):
                await asyncio.get_running_loop().sock_connect(made, OUTSIDE)
    assert [attempt.call for attempt in attempts] == ["getaddrinfo", "connect", "connect"]


def test_threads_are_refused(tcp: socket.socket) -> None:
    def reach_out() -> None:
        with pytest.raises(NetworkBlocked):
            tcp.connect(OUTSIDE)

    with network_guard() as attempts:
        thread = threading.Thread(target=reach_out)
        thread.start()
        thread.join()
    assert len(attempts) == 1


def test_the_refusal_is_no_lost_connection(tcp: socket.socket) -> None:
    with network_guard(), pytest.raises(NetworkBlocked) as refusal:
        tcp.connect(OUTSIDE)
    assert not isinstance(refusal.value, OSError)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.8.9.1", "0.0.0.0"])
def test_this_machine_can_be_reached(host: str) -> None:
    with network_guard() as attempts, socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection((host, port)).close()
    assert attempts == []


@pytest.mark.parametrize(
    "host", ["::1", "::ffff:127.0.0.1", "::", "LocalHost", "", b"localhost", None]
)
def test_every_spelling_of_this_machine_is_known(host: str | bytes | None) -> None:
    # A machine may have no IPv6.
    with network_guard() as attempts, contextlib.suppress(socket.gaierror):
        socket.getaddrinfo(host, 80)
    assert attempts == []


@pytest.mark.parametrize(
    "host", ["8.8.8.8", "::ffff:8.8.8.8", "2001:db8::1", "db.localhost", "127.0.0.1.example"]
)
def test_what_only_looks_like_this_machine_is_refused(host: str) -> None:
    with network_guard() as attempts, pytest.raises(NetworkBlocked):
        socket.getaddrinfo(host, 80)
    assert len(attempts) == 1


async def test_asyncio_reaches_this_machine(listener: socket.socket) -> None:
    with network_guard() as attempts:
        _, writer = await asyncio.open_connection("localhost", listener.getsockname()[1])
        writer.close()
        await writer.wait_closed()
    assert attempts == []


def test_this_machine_can_be_refused_too(listener: socket.socket) -> None:
    with network_guard(allow_loopback=False) as attempts:
        with pytest.raises(NetworkBlocked, match=r"127\.0\.0\.1"):
            socket.create_connection(listener.getsockname())
        with pytest.raises(NetworkBlocked, match="localhost"):
            socket.getaddrinfo("localhost", 80)
    assert len(attempts) == 2


def test_unix_sockets_always_pass(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with (
        network_guard(allow_loopback=False) as attempts,
        socket.socket(socket.AF_UNIX) as server,
        socket.socket(socket.AF_UNIX) as client,
    ):
        server.bind(path)
        server.listen()
        client.connect(path)
    assert attempts == []


def test_everything_is_put_back_afterwards() -> None:
    # In a process of its own: here the guard of the whole session is in force.
    subprocess.run(
        [sys.executable, "-c", PUT_BACK], check=True, env={"PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_blocks_end_in_any_order() -> None:
    first, second = block_network(), block_network(allow_loopback=False)
    first.release()
    with pytest.raises(NetworkBlocked):
        socket.getaddrinfo("localhost", 80)
    second.release()
    second.release()
    assert socket.getaddrinfo("localhost", 80)


def test_only_the_newest_block_that_refuses_records(tcp: socket.socket) -> None:
    with network_guard() as outer, network_guard() as inner, pytest.raises(NetworkBlocked):
        tcp.connect(OUTSIDE)
    assert (len(outer), len(inner)) == (0, 1)
