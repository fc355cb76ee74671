"""What holds for every test: the network is refused, and who asked for it is named."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pagedaemon.testing import Attempt, network_guard


@pytest.fixture(scope="session", autouse=True)
def network() -> Iterator[list[Attempt]]:
    """Refuses the network for the whole session; the attempts of all tests so far."""
    with network_guard() as attempts:
        yield attempts


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored, and children inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _stays_offline(network: list[Attempt]) -> Iterator[None]:
    before = len(network)
    yield
    # Also where the code under test caught the refusal.
    assert network[before:] == [], "this test tried to reach the network"
