"""A function as a tool: what it keeps, what it declares, what is refused."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from pagedaemon.errors import ToolDefinitionError
from pagedaemon.tools.tool import Tool, ToolContext, internal_tool, tool

CONTEXT = ToolContext(
    agent_id="agent-1",
    agent_name="ada",
    conversation_id="conversation-1",
    turn_id="turn-1",
    step_id="step-1",
    call_id="call-1",
    key="call-1",
    now=datetime(2026, 11, 30, tzinfo=UTC),
)


def weather(city: str) -> str:
    """Today's weather in a city."""
    return f"sunny in {city}"


def test_a_tool_is_still_the_function_it_was() -> None:
    assert tool(weather)("Rome") == "sunny in Rome"
    assert tool(weather)(city="Rome") == "sunny in Rome"


async def test_an_async_tool_is_still_awaited() -> None:
    @tool
    async def later(city: str) -> str:
        """Tomorrow's weather."""
        return f"rain in {city}"

    assert await later("Rome") == "rain in Rome"


def test_the_defaults_are_the_cautious_ones() -> None:
    made = tool(weather)
    assert (made.name, made.description) == ("weather", "Today's weather in a city.")
    assert (made.effect, made.returns) == ("once", "tool")
    assert (made.parallel, made.terminal, made.can) == (False, False, ())
    assert (made.timeout, made.max_result_chars) == (60.0, 20_000)


def test_settings_are_given_to_the_decorator_with_or_without_the_function() -> None:
    @tool(
        name="forecast",
        description="  Looks ahead.\n",
        effect="read",
        returns="external",
        timeout=1.5,
        max_result_chars=10,
        parallel=True,
        terminal=True,
        can=("egress",),
    )
    def function(days: int) -> str:
        """For developers.

        Args:
            days: How far.
        """
        return "?" * days

    assert (function.name, function.description) == ("forecast", "Looks ahead.")
    assert function.parameters["properties"]["days"]["description"] == "How far."
    assert (function.effect, function.returns) == ("read", "external")
    assert (function.timeout, function.max_result_chars) == (1.5, 10)
    assert (function.parallel, function.terminal, function.can) == (
        True,
        True,
        ("egress",),
    )
    assert tool(weather, effect="idempotent").effect == "idempotent"


def test_the_schema_hash_follows_name_and_parameters_only() -> None:
    def other(city: str) -> str:
        """Says something else."""
        return city

    def wider(city: str, days: int = 1) -> str:
        """Says something else."""
        return city * days

    plain = tool(weather)
    assert len(plain.schema_hash) == 64
    assert tool(other, name="weather", effect="read").schema_hash == plain.schema_hash
    assert tool(weather, name="forecast").schema_hash != plain.schema_hash
    assert tool(wider, name="weather").schema_hash != plain.schema_hash


def test_whether_a_call_is_awaited_is_seen_through_methods_partials_and_objects() -> None:
    class Thing:
        """A thing."""

        async def method(self) -> None:
            """Does it."""

        async def __call__(self) -> None:
            """Does it."""

        def plain(self) -> None:
            """Does it."""

    waits: list[Any] = [Thing().method, Thing(), functools.partial(Thing().method)]
    assert [tool(its, name="thing").is_async for its in waits] == [True] * 3
    does_not: list[Any] = [Thing().plain, functools.partial(Thing().plain), weather]
    assert [tool(its, name="thing").is_async for its in does_not] == [False] * 3


def test_the_context_is_bound_to_whatever_parameter_asks_for_it() -> None:
    @tool
    def who(greeting: str, by: ToolContext) -> str:
        """Says who asks."""
        return f"{greeting} {by.agent_name} {by.key}"

    assert who(**who.bound({"greeting": "hi"}, CONTEXT)) == "hi ada call-1"
    assert tool(weather).bound({"city": "Rome"}, CONTEXT) == {"city": "Rome"}


@pytest.mark.parametrize("name", ["look up", "büro", "", "a" * 65, "a.b", "tool🚀", "a\n"])
def test_a_name_that_providers_refuse_is_refused_at_once(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="64 letters"):
        tool(weather, name=name)


@pytest.mark.parametrize("name", ["a", "look-up_2", "a" * 64])
def test_a_name_that_providers_take_is_taken(name: str) -> None:
    assert tool(weather, name=name).name == name


def undescribed(city: str) -> str:
    return city


async def asks(arguments: object, tainted: bool) -> bool:
    """Cannot be waited for when a reply is read."""
    return tainted


def yields(city: str) -> Iterator[str]:
    """Yields."""
    yield city


@pytest.mark.parametrize(
    ("function", "settings", "message"),
    [
        (undescribed, {}, "'undescribed' has no description"),
        (weather, {"description": " "}, "'weather' has no description"),
        (weather, {"effect": "twice"}, "effect is read, idempotent or once"),
        (weather, {"effect": "internal"}, "effect is read, idempotent or once"),
        (weather, {"returns": "web"}, "returns is tool or external"),
        (weather, {"timeout": 0}, "timeout"),
        (weather, {"timeout": math.nan}, "timeout"),
        (weather, {"timeout": "10"}, "timeout is a number of seconds, not '10'"),
        (weather, {"timeout": True}, "timeout is a number of seconds"),
        (weather, {"timeout": None}, "timeout is a number of seconds"),
        (weather, {"max_result_chars": "many"}, "max_result_chars is a whole number"),
        (weather, {"max_result_chars": 1.5}, "max_result_chars is a whole number"),
        (weather, {"name": 7}, "name is a text"),
        (weather, {"description": 7}, "description is a text"),
        (weather, {"effect": ["read"]}, "effect is read, idempotent or once"),
        (weather, {"returns": []}, "returns is one of tool and external"),
        (weather, {"parallel": "no"}, "parallel is True or False"),
        (weather, {"terminal": 1}, "terminal is True or False"),
        (weather, {"can": "egress"}, "can is a tuple"),
        (weather, {"can": ("egres",)}, "egress, .* is none of them"),
        (weather, {"can": (1,)}, "is none of them"),
        (weather, {"approval": "ask"}, "approval is .never., .always. or a function"),
        (weather, {"approval": True}, "approval is"),
        (weather, {"approval": asks}, "no async one"),
        (weather, {"max_result_chars": 0}, "max_result_chars"),
        (yields, {}, "'yields' yields"),
        (lambda city: city, {"description": "A lambda."}, "'<lambda>'"),
        (functools.partial(weather, "Rome"), {}, "no name of its own"),
        (Tool, {}, "is not a function"),
        ("weather", {}, "is not a function"),
        (dict.fromkeys, {"description": "Built in."}, "'fromkeys'"),
        (math.hypot, {"description": "Built in."}, "'hypot'"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_its_reason(
    function: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=message):
        tool(function, **settings)


async def test_an_async_generator_is_refused() -> None:
    async def stream(city: str) -> Any:
        """Streams."""
        yield city

    with pytest.raises(ToolDefinitionError, match="yields"):
        tool(stream)


def test_an_internal_tool_hands_over_whatever_its_function_returns() -> None:
    effect = object()

    def pin(message: int) -> object:
        return effect if message else None

    made = internal_tool(pin, description="Pins.\n\nArgs:\n    message: Which.", terminal=True)
    assert (made.name, made.effect, made.terminal) == ("pin", "internal", True)
    assert made(**made.signature.read({"message": "7"})) is effect
