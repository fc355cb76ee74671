"""What pagedaemon is tested with, for testing your own agents: no key, no network, no waiting.

    from pagedaemon.testing import ScriptedModel, call, say, view

    model = ScriptedModel([
        call("core_memory_append", label="human", content="Name: Lin", heartbeat=True),
        say("Nice to meet you, Lin."),
    ])
    ... # give it to a runtime as the model, send a message, then look at what the model was asked:
    assert "Name: Lin" in view(model.requests[1]).blocks["human"]

- `ScriptedModel` plays replies (`say`, `call`, `raw_call`, `text`, `both`, `cut`) or asks a
  function, which reads its request through `view`. Each request must satisfy three providers'
  rules, or the test fails.
- `check_openai`, `check_anthropic`, `check_gemini` and `check_request` are those rules, for any
  history.
- `FakeEmbedder` makes vectors without a model: texts that share words are near each other. It can
  be taught synonyms and told to fail.
- `FakeClock` stands still until told otherwise.
- `png` makes a small picture to send.
- `network_guard` and `block_network` refuse the network in this process and say who asked for it.

Nothing in the product imports this package.
"""

from __future__ import annotations

from pagedaemon.testing.clock import FakeClock
from pagedaemon.testing.embedder import FakeEmbedder
from pagedaemon.testing.history import IllegalRequest
from pagedaemon.testing.network import (
    Attempt,
    NetworkBlock,
    NetworkBlocked,
    block_network,
    network_guard,
)
from pagedaemon.testing.pictures import png
from pagedaemon.testing.replies import both, call, cut, raw_call, say, text
from pagedaemon.testing.scripted import (
    ScriptedModel,
    ScriptExhausted,
    estimated_tokens,
    estimated_usage,
)
from pagedaemon.testing.validators import (
    PROVIDERS,
    check_anthropic,
    check_gemini,
    check_openai,
    check_request,
)
from pagedaemon.testing.views import RequestView, view

__all__ = [
    "PROVIDERS",
    "Attempt",
    "FakeClock",
    "FakeEmbedder",
    "IllegalRequest",
    "NetworkBlock",
    "NetworkBlocked",
    "RequestView",
    "ScriptExhausted",
    "ScriptedModel",
    "block_network",
    "both",
    "call",
    "check_anthropic",
    "check_gemini",
    "check_openai",
    "check_request",
    "cut",
    "estimated_tokens",
    "estimated_usage",
    "network_guard",
    "png",
    "raw_call",
    "say",
    "text",
    "view",
]
