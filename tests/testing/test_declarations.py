"""Tool declarations that providers refuse, each with the rule it breaks at each of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pagedaemon.testing import IllegalRequest, check_anthropic, check_gemini, check_openai

ASKED = [{"role": "user", "content": "Hello"}]
CHECKS = {"openai": check_openai, "anthropic": check_anthropic, "gemini": check_gemini}
TEXT = {"type": "string"}


def tool(name: str = "search", parameters: Any = None, **fields: Any) -> dict[str, Any]:
    function = {"name": name, "description": "Searches.", "parameters": parameters, **fields}
    return {"type": "function", "function": function}


def taking(**properties: Any) -> dict[str, Any]:
    return tool(parameters={"type": "object", "properties": properties})


class Illegal(NamedTuple):
    """Tools and the rule they break at each provider; "" where that provider accepts them."""

    what: str
    tools: list[dict[str, Any]]
    openai: str = ""
    anthropic: str = ""
    gemini: str = ""


ILLEGAL = [
    Illegal("no function", [{"type": "retrieval"}], "tool", "tool", "tool"),
    Illegal("no name", [tool("")], "name", "name", "name"),
    Illegal("a slash in the name", [tool("mcp/search")], "name", "name", "name"),
    Illegal("a colon in the name", [tool("mcp:search")], "name", "name", ""),
    Illegal("65 characters of name", [tool("s" * 65)], "name", "", "name"),
    Illegal("129 characters of name", [tool("s" * 129)], "name", "name", "name"),
    Illegal("a name twice", [tool(), tool()], "duplicate_tool", "duplicate_tool", "duplicate_tool"),
    Illegal("1,025 characters of description", [tool(description="d" * 1_025)], "description"),
    Illegal("129 tools", [tool(f"tool_{number}") for number in range(129)], "too_many_tools"),
    Illegal("no object", [tool(parameters=TEXT)], "schema", "schema", "schema"),
    Illegal("an object without properties", [tool(parameters={"type": "object"})], "schema"),
    Illegal(
        "a choice at the top",
        [tool(parameters={"type": "object", "properties": {}, "anyOf": [{"type": "object"}]})],
        "schema",
        "schema",
        "",
    ),
    Illegal("a blank in a parameter's name", [taking(**{"search for": TEXT})], "", "schema", ""),
    Illegal("a list of nothing known", [taking(tags={"type": "array"})], "schema", "", "schema"),
    Illegal(
        "a list of nothing known, deep down",
        [taking(box={"type": "object", "properties": {"tags": {"type": "array"}}})],
        "schema",
        "",
        "schema",
    ),
    Illegal("a reference", [taking(box={"$ref": "#/$defs/Box"})], "", "", "schema"),
    Illegal(
        "a reference in a list",
        [taking(a={"type": "array", "items": {"$ref": "#"}})],
        "",
        "",
        "schema",
    ),
    Illegal("a constant", [taking(kind={"type": "string", "const": "tea"})], "", "", "schema"),
    Illegal("an exclusive choice", [taking(a={"oneOf": [TEXT]})], "", "", "schema"),
    Illegal("anything", [taking(value={})], "", "", "schema"),
    Illegal(
        "an enum of numbers", [taking(n={"type": "integer", "enum": [1, 2]})], "", "", "schema"
    ),
    Illegal(
        "an enum with an empty text", [taking(n={"type": "string", "enum": [""]})], "", "", "schema"
    ),
    Illegal("an enum without type", [taking(n={"enum": ["a"]})], "", "", "schema"),
    Illegal(
        "an enum without type, in a choice",
        [taking(n={"anyOf": [{"enum": ["a"]}, {"type": "null"}]})],
        "",
        "",
        "schema",
    ),
    Illegal(
        "a required parameter that is not there",
        [tool(parameters={"type": "object", "properties": {}, "required": ["query"]})],
        "",
        "",
        "schema",
    ),
]

LEGAL = {
    "no parameters": [tool()],
    "an empty object": [taking()],
    "plain parameters": [taking(query=TEXT, page={"type": "integer", "default": 0})],
    "a list": [taking(tags={"type": "array", "items": TEXT})],
    "an optional text": [taking(tag={"anyOf": [TEXT, {"type": "null"}]})],
    "an optional text, short": [taking(tag={"type": ["string", "null"]})],
    "an enum of texts": [taking(role={"type": "string", "enum": ["user", "tool"]})],
    "no further properties": [
        taking(a={"type": "object", "properties": {}, "additionalProperties": False})
    ],
    "1,024 characters of description": [tool(description="d" * 1_024)],
    "128 tools": [tool(f"tool_{number}") for number in range(128)],
}


@pytest.mark.parametrize("provider", CHECKS)
@pytest.mark.parametrize("case", ILLEGAL, ids=lambda case: case.what)
def test_a_provider_refuses_by_its_own_rule(case: Illegal, provider: str) -> None:
    rule = getattr(case, provider)
    if not rule:
        CHECKS[provider](ASKED, case.tools)
        return
    with pytest.raises(IllegalRequest) as refusal:
        CHECKS[provider](ASKED, case.tools)
    assert refusal.value.rule == f"{provider}.{rule}"


@pytest.mark.parametrize("provider", CHECKS)
@pytest.mark.parametrize("tools", LEGAL.values(), ids=list(LEGAL))
def test_legal_tools_are_accepted(tools: list[dict[str, Any]], provider: str) -> None:
    CHECKS[provider](ASKED, tools)


def test_the_parameter_at_fault_is_named() -> None:
    nested = taking(box={"type": "object", "properties": {"tags": {"type": "array"}}})
    with pytest.raises(IllegalRequest, match=r"tools\[0\] \(search\)\.box\.tags: an array"):
        check_gemini(ASKED, [nested])
