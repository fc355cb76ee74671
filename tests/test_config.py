"""Settings: what is refused, in which words, and what is filled in."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pagedaemon.config import (
    HOSTED_WINDOW,
    LOCAL_WINDOW,
    MEMGPT,
    NATIVE,
    After,
    AtMost,
    Conditional,
    Embedding,
    First,
    Limits,
    Model,
    Paging,
    Required,
    Settings,
    Style,
    Terminal,
    ToolRule,
)
from pagedaemon.errors import ConfigError


class TestModel:
    """Which model, and how it is reached."""

    def test_the_window_is_filled_in_by_where_the_model_is(self) -> None:
        assert Model("openai/x").window == HOSTED_WINDOW
        assert Model("openai/x", base_url="http://localhost/v1").window == LOCAL_WINDOW
        assert Model("openai/x", context_window=4_096).window == 4_096

    def test_the_budget_leaves_room_for_the_reply(self) -> None:
        assert Model("x", context_window=8_192).budget == 8_192 - 2_048
        assert Model("x", context_window=8_192, max_output_tokens=512).budget == 8_192 - 512
        # A reply never takes more than half.
        assert Model("x", context_window=1_000).budget == 500

    def test_a_text_is_a_model_wherever_one_is_stored(self) -> None:
        assert Model.model_validate("openai/x") == Model("openai/x")
        dumped = Model("openai/x", temperature=0.5).model_dump(mode="json")
        assert Model.model_validate(dumped) == Model("openai/x", temperature=0.5)

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"name": ""}, "name"),
            ({"name": None}, "name"),
            ({"context_window": 0}, "context_window"),
            ({"max_output_tokens": 0}, "max_output_tokens"),
            ({"temperature": 3}, "temperature"),
            ({"timeout": 0}, "timeout"),
            ({"retries": -1}, "retries"),
            ({"contextwindow": 5}, "contextwindow"),
        ],
    )
    def test_a_value_that_cannot_work_is_named(self, given: dict[str, Any], field: str) -> None:
        with pytest.raises(ConfigError, match=rf"Model cannot be made: {field}: ") as raised:
            Model(**{"name": "openai/x", **given})
        assert "pydantic" not in str(raised.value)

    def test_a_key_is_not_shown(self) -> None:
        model = Model("openai/x", api_key="sk-canary")
        assert "sk-canary" not in f"{model} {model!r} {model.model_dump_json()}"


class TestSettings:
    """An agent's settings."""

    def test_what_is_stored_comes_back_equal(self) -> None:
        settings = Settings(
            style=NATIVE,
            heartbeats="strict",
            timezone="Asia/Tokyo",
            limits=Limits(steps=3, tokens=1_000),
            paging=Paging(target=0.3, warn=0.6, evict=0.8),
            rules=(
                First(tool="weather"),
                After(tool="weather", then=("mail",)),
                Conditional(
                    tool="mail", cases={"sent": ("log",)}, default=("mail",), field="state"
                ),
                AtMost(tool="mail", calls=2),
                Terminal(tool="log"),
                Required(tool="log"),
            ),
        )
        assert Settings.model_validate(settings.model_dump(mode="json")) == settings

    @pytest.mark.parametrize(
        "given",
        [
            {"heartbeats": "sometimes"},
            {"tool_set": "none"},
            {"recall": "always"},
            {"recall_hits": 0},
            {"recall_hits": 11},
            {"style": {"name": "x"}},
            {"limits": {"steps": 0}},
            {"limits": {"seconds": 0}},
            {"limits": {"tokens": -5}},
            {"paging": {"target": 0.8}},
            {"paging": {"warn": 0.95}},
            {"paging": {"keep_last": 0}},
            {"rules": [{"rule": "never", "tool": "x"}]},
            {"rules": [{"rule": "first"}]},
            {"rules": [{"rule": "at_most", "tool": "x", "calls": 0}]},
            {"rules": [{"rule": "after", "tool": "x", "then": []}]},
            {"rules": [{"rule": "conditional", "tool": "x", "cases": {}, "default": ["x"]}]},
            {"rules": [{"rule": "conditional", "tool": "x", "cases": {"a": ["x"]}}]},
            {"unknown": 1},
        ],
    )
    def test_what_cannot_work_is_one_typed_error(self, given: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match="cannot be made"):
            Settings(**given)
        with pytest.raises(ConfigError, match="cannot be made"):
            Settings.model_validate(given)

    @pytest.mark.parametrize(
        ("given", "hint"),
        [
            ("heartbeat", "did you mean 'heartbeats'"),
            ("instruction", "did you mean 'instructions'"),
            ("persona", "Block.persona"),
            ("human", "Block.human"),
            ("blocks", "agents.create"),
            ("model", "agents.create"),
            ("tools", "agents.create"),
            ("system", "called instructions"),
            ("steps", r"limits=Limits\(steps=...\)"),
            ("evict", r"paging=Paging\(evict=...\)"),
            ("zzz", "style, heartbeats"),
        ],
    )
    def test_a_field_it_has_not_is_shown_the_way(self, given: str, hint: str) -> None:
        with pytest.raises(ConfigError, match=hint):
            Settings(**{given: "x"})

    def test_a_field_that_a_part_has_not_is_shown_the_way(self) -> None:
        with pytest.raises(ConfigError, match=r"Limits cannot be made: step: .*'steps'"):
            Settings(limits={"step": 3})

    def test_settings_do_not_change(self) -> None:
        with pytest.raises(ValueError, match="frozen"):
            Settings().timezone = "Asia/Tokyo"  # type: ignore[misc]


class TestStyle:
    """Agent styles are data."""

    def test_only_what_continues_on_a_heartbeat_carries_the_flag(self) -> None:
        assert MEMGPT.heartbeat_flag
        assert not NATIVE.heartbeat_flag

    def test_a_style_of_ones_own_is_checked_too(self) -> None:
        with pytest.raises(ConfigError, match="Style cannot be made: reply"):
            Style(name="x", reply="song", continue_on="call", thoughts="provider")


class TestRules:
    """Rules as they are written."""

    def test_the_tool_may_come_first_without_its_name(self) -> None:
        assert First("load") == First(tool="load")
        assert AtMost("mail", calls=1) == AtMost(tool="mail", calls=1)
        assert Required("log").tool == "log"
        assert Terminal("log").rule == "terminal"
        assert After("search", then=("fetch",)).then == ("fetch",)
        cases = {"spam": ("bin",)}
        assert Conditional("sort", cases=cases, default=("answer",)).cases == cases
        with pytest.raises(TypeError, match="tool"):
            First("load", tool="log")  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("rule", "given", "field"),
        [
            (First, {}, "tool"),
            (First, {"tool": 5}, "tool"),
            (AtMost, {"tool": "mail"}, "calls"),
            (Required, {"tool": "log", "calls": 1}, "calls"),
        ],
    )
    def test_what_is_missing_or_wrong_is_named(
        self, rule: type[ToolRule], given: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(ConfigError, match=rf"{rule.__name__} cannot be made: {field}: "):
            rule(**given)

    def test_rules_of_plain_data_are_held_to_the_same(self) -> None:
        given: list[dict[str, Any]] = [{"rule": "first", "tool": "load"}]
        assert Settings(rules=given).rules == (First("load"),)
        with pytest.raises(ConfigError, match="First cannot be made: tool"):
            Settings(rules=[{"rule": "first"}])


def test_importing_builds_no_validator() -> None:
    code = (
        "import pagedaemon\n"
        "from pagedaemon import config\n"
        "kinds = config.Frozen.__subclasses__()\n"
        "assert config.Settings in kinds\n"
        "print([kind.__name__ for kind in kinds if kind.__pydantic_complete__])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")


@pytest.mark.parametrize("kind", [Model, Embedding])
@pytest.mark.parametrize(
    "url", ["", "nope", "ftp://host/v1", "http://", "http://host:port/v1", "http://a host/v1"]
)
def test_an_address_that_leads_nowhere_is_refused_when_it_is_given(
    kind: type[Model] | type[Embedding], url: str
) -> None:
    with pytest.raises(ConfigError, match=r"base_url.*http"):
        kind("openai/x", base_url=url)


@pytest.mark.parametrize("url", ["http://localhost:8000/v1", "https://[::1]:9/", "HTTP://host"])
def test_an_address_is_kept_as_it_is_given(url: str) -> None:
    assert Model("openai/x", base_url=url).base_url == url


@pytest.mark.parametrize("value", [object(), float("nan"), {"deep": {1, 2}}, "\ud800"])
def test_further_fields_that_are_no_json_are_refused_when_they_are_given(value: object) -> None:
    with pytest.raises(ConfigError, match=r"extra.*JSON"):
        Model("openai/x", extra={"z": value})
