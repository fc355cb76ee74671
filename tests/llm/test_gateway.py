"""A name leads to a model, or to an error that shows the ways."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pagedaemon.config import Model
from pagedaemon.errors import ConfigError, ModelUnavailable
from pagedaemon.llm.constrained import Constrained
from pagedaemon.llm.gateway import connect
from pagedaemon.llm.litellm import LiteLLMModel
from pagedaemon.llm.offline import OfflineModel
from pagedaemon.llm.openai import OpenAIModel
from pagedaemon.llm.protocol import ChatModel, Reply, Request
from pagedaemon.llm.retrying import Retrying
from pagedaemon.llm.text_calls import TextCalls
from pagedaemon.llm.thoughts import Thoughts
from pagedaemon.llm.wrapping import Wrapping

REQUEST = Request(messages=({"role": "user", "content": "Hi"},))


def around(model: ChatModel) -> list[type]:
    """What is put around a model, outermost first, and the model itself last."""
    kinds: list[type] = [type(model)]
    while isinstance(model, Retrying | Wrapping):
        model = model._model
        kinds.append(type(model))
    return kinds


def bare(model: ChatModel) -> ChatModel:
    """The model itself."""
    while isinstance(model, Retrying | Wrapping):
        model = model._model
    return model


class Own(OfflineModel):
    """A user's own model, which fails once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def complete(self, request: Request) -> Reply:
        """Fails the first time."""
        self.asked += 1
        if self.asked == 1:
            raise ModelUnavailable("not yet")
        return Reply(content="mine")


async def test_a_registered_name_goes_before_all_others_and_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Own()
    for name in ("mine", "offline", "openai/gpt-5-mini"):
        assert isinstance(connect(Model(name), {name: own}), Retrying)
    model = connect(Model("mine", retries=1), {"mine": own})
    assert (await model.complete(REQUEST)).content == "mine"
    assert own.asked == 2


async def test_retries_of_the_settings_hold_for_a_registered_model() -> None:
    own = Own()
    with pytest.raises(ModelUnavailable):
        await connect(Model("mine", retries=0), {"mine": own}).complete(REQUEST)
    assert own.asked == 1


def test_offline_is_the_rule_model() -> None:
    assert isinstance(connect(Model("offline"), {}), OfflineModel)


def test_openai_names_lead_to_an_endpoint_with_retries() -> None:
    model = connect(Model("openai/qwen3", base_url="http://localhost:8000/v1"), {})
    assert isinstance(model, Retrying)
    assert isinstance(bare(model), OpenAIModel)


@pytest.mark.parametrize("name", ["anthropic/claude-x", "litellm/openai/gpt-5-mini"])
def test_names_of_other_providers_lead_to_litellm_with_retries(name: str) -> None:
    model = connect(Model(name), {})
    assert isinstance(model, Retrying)
    assert isinstance(bare(model), LiteLLMModel)


def test_what_is_put_around_a_model_follows_from_its_settings() -> None:
    hosted = "openai/gpt-5-mini"
    local = Model("openai/qwen3", base_url="http://localhost:8000/v1")
    assert TextCalls not in around(connect(Model(hosted), {}))
    assert TextCalls in around(connect(Model(hosted, text_calls=True), {}))
    assert TextCalls in around(connect(local, {}))
    assert Thoughts not in around(connect(Model(hosted), {}))
    assert Thoughts in around(connect(local, {}))
    assert Thoughts in around(connect(Model(hosted, constrained=True), {}))
    assert Constrained not in around(connect(local, {}))
    assert Constrained in around(connect(Model(hosted, constrained=True), {}))
    assert Constrained in around(connect(Model("mine", constrained=True), {"mine": Own()}))


@pytest.mark.parametrize("name", ["gpt-5-mini", "openai", "OFFLINE", "a/", "litellm/"])
def test_other_names_show_the_ways(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(Model(name), {"mine": OfflineModel()})
    text = str(caught.value)
    for way in (name, "openai/", "offline", "base_url", "models={"):
        assert way in text


def test_an_openai_name_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigError):
        connect(Model("openai/"), {})


def test_connecting_loads_no_heavy_package() -> None:
    code = (
        "import sys\n"
        "from pagedaemon.config import Model\n"
        "from pagedaemon.llm.gateway import connect\n"
        "from pagedaemon.llm.tokens import TokenCounter\n"
        "connect(Model('openai/gpt-5-mini', constrained=True), {})\n"
        "connect(Model('anthropic/claude-x'), {})\n"
        "TokenCounter('gpt-5-mini').message_bound({'role': 'user', 'content': 'Hi'})\n"
        "heavy = {'openai', 'httpx2', 'litellm', 'tiktoken', 'tenacity', 'chromadb', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert done.stdout.strip() == "[]"
