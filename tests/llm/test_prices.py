"""What a call costs: by the settings, the provider or the list, and None where nobody knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pagedaemon.config import Limits, Model
from pagedaemon.errors import ConfigError
from pagedaemon.llm import prices
from pagedaemon.llm.prices import Priced, Prices, prices_of, require_prices
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.messages import Usage
from pagedaemon.testing import ScriptedModel

REQUEST = Request(({"role": "user", "content": "Hi" * 200},))
OWN = Model("mine", prices=(2, 10, 0.5))
LISTED = Model("anthropic/claude-sonnet-4-5")
USED = Usage(calls=1, prompt_tokens=1_000, completion_tokens=100, cached_tokens=400)


async def usage(settings: Model, reported: Usage | None) -> Usage | None:
    """The usage of a call where the provider reports that much."""
    script = [Reply(content="x" * 400, usage=reported)] * 2
    model = Priced(ScriptedModel(script, usage=None), settings)
    whole = (await model.complete(REQUEST)).usage
    parts = [part async for part in model.stream(REQUEST)]
    assert isinstance(parts[-1], Reply)
    assert parts[-1].usage == whole
    return whole


def test_cached_tokens_have_their_own_price() -> None:
    assert Prices(2, 10, 0.5).of(USED) == pytest.approx((600 * 2 + 400 * 0.5 + 100 * 10) / 1e6)


def test_more_cached_tokens_than_there_were_cost_no_less_than_nothing() -> None:
    odd = Usage(calls=1, prompt_tokens=10, cached_tokens=99)
    assert Prices(2, 10, 0.5).of(odd) == pytest.approx(10 * 0.5 / 1e6)


def test_prices_come_from_the_settings_then_from_the_list() -> None:
    assert prices_of(OWN) == Prices(2, 10, 0.5)
    listed = prices_of(LISTED)
    assert listed is not None
    assert 0 < listed.cached < listed.prompt < listed.completion
    assert prices_of(Model("litellm/anthropic/claude-sonnet-4-5")) == listed
    assert prices_of(Model("openai/gpt-5-mini")) is not None
    assert prices_of(Model("offline")) == Prices(0, 0, 0)


@pytest.mark.parametrize(
    "model",
    [
        Model("mine"),
        Model("nosuch/model"),
        Model("mistral/claude-sonnet-4-5"),
        Model("openai/gpt-5-mini", base_url="http://localhost:8000/v1"),
        Model("litellm/openai/gpt-5-mini", base_url="http://localhost:8000/v1"),
    ],
)
def test_what_nobody_knows_is_not_known(model: Model) -> None:
    assert prices_of(model) is None
    with pytest.raises(ConfigError, match=r"prices=\(prompt, completion, cached\)"):
        require_prices(model)


def test_without_the_list_only_the_settings_know(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(prices, "LIST", "gone.json")
    prices._listed.cache_clear()
    assert prices_of(LISTED) is None
    assert prices_of(OWN) is not None
    monkeypatch.undo()
    prices._listed.cache_clear()
    assert prices_of(LISTED) is not None


async def test_a_reply_says_what_it_cost() -> None:
    spent = await usage(OWN, USED)
    assert spent is not None
    assert spent.cost == pytest.approx(0.0024)
    assert spent.prompt_tokens == 1_000
    assert not spent.estimated


async def test_what_the_provider_charged_goes_before_the_list_and_settings_before_both() -> None:
    charged = Usage(calls=1, prompt_tokens=1_000, cost=0.5)
    assert await usage(LISTED, charged) == charged
    own = await usage(OWN, charged)
    assert own is not None
    assert own.cost == pytest.approx(0.002)


async def test_unreported_usage_of_a_priced_model_is_estimated_so_that_a_bound_holds() -> None:
    for reported in (None, Usage()):
        spent = await usage(OWN, reported)
        assert spent is not None
        assert spent.estimated
        assert spent.completion_tokens == 100
        assert spent.prompt_tokens > 100
        assert spent.cost is not None
        assert spent.cost > 0


async def test_where_no_price_is_known_usage_stays_as_it_was() -> None:
    assert await usage(Model("mine"), None) is None
    assert await usage(Model("mine"), USED) == USED


def test_known_costs_add_up() -> None:
    one, other, unknown = Usage(cost=0.25), Usage(cost=0.5), Usage(calls=1)
    assert (one + other).cost == 0.75
    assert (one + unknown).cost == 0.25
    assert (unknown + other).cost == 0.5
    assert (unknown + unknown).cost is None


@pytest.mark.parametrize("wrong", [(1, 2), (1, -2, 0), (float("nan"), 1, 1), "cheap"])
def test_prices_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="prices"):
        Model("mine", prices=wrong)


@pytest.mark.parametrize("wrong", [0, -1, float("inf")])
def test_a_bound_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigError, match="cost"):
        Limits(cost=wrong)


def test_the_list_is_read_without_importing_litellm() -> None:
    code = (
        "import sys\n"
        "from pagedaemon.config import Model\n"
        "from pagedaemon.llm.prices import prices_of\n"
        "assert prices_of(Model('anthropic/claude-sonnet-4-5')) is not None\n"
        "print('litellm' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert done.stdout.strip() == "False"
