"""What each provider demands of the tools a request offers.

Sources: OpenAI, "Function calling" guide and the `FunctionDefinition` of its API reference;
Anthropic, "Define tools"; Google, `FunctionDeclaration` and `Schema` of the Gemini API reference.
Rules that stand in an API's refusals only are marked where they are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pagedaemon.testing.history import IllegalRequest, is_list

OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""As in its refusal "tools.0.custom.name: String should match pattern"; it was 64 until 2025."""
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
ANTHROPIC_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

OPENAI_TOOLS = 128
OPENAI_DESCRIPTION = 1_024
"""Characters; longer is refused as "string too long" (`tools[0].function.description`)."""

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})
_NULL_TOO = _TYPES | {"null"}
_BRANCHES = ("anyOf", "oneOf", "allOf", "prefixItems")

# fmt: off
_GEMINI_FIELDS = frozenset({
    "type", "format", "title", "description", "nullable", "enum", "items", "minItems",
    "maxItems", "properties", "propertyOrdering", "required", "minProperties",
    "maxProperties", "minimum", "maximum", "minLength", "maxLength", "pattern", "example",
    "anyOf", "default",
})
# fmt: on
_GEMINI_DROPPED = frozenset(
    {
        "additionalProperties",
        "$schema",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "uniqueItems",
        "examples",
    }
)
"""Fields its Schema does not know which converters leave out. They only narrow a value; what would
change its shape ($ref, oneOf, const …) must not get lost in silence."""


def check_openai_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    """Hold tool declarations against OpenAI's rules.

    Raises:
        IllegalRequest: `openai.` and `too_many_tools`, `tool`, `name`, `duplicate_tool`,
            `description` or `schema`.
    """
    if len(tools) > OPENAI_TOOLS:
        raise IllegalRequest("openai.too_many_tools", f"{len(tools)} tools; {OPENAI_TOOLS} may be")
    for where, function in _declared(tools, "openai", OPENAI_NAME):
        length = len(function.get("description") or "")
        if length > OPENAI_DESCRIPTION:
            raise IllegalRequest(
                "openai.description",
                f"{where} is described in {length} characters; {OPENAI_DESCRIPTION} may be",
            )
        schema = function.get("parameters")
        if schema is None:
            continue
        _demand_object(schema, where, "openai.schema")
        # Both in refusals only ("Invalid schema for function …").
        if not isinstance(schema.get("properties"), Mapping):
            raise IllegalRequest("openai.schema", f"{where}: an object schema without properties")
        barred = [key for key in ("oneOf", "anyOf", "allOf", "enum", "not") if key in schema]
        if barred:
            raise IllegalRequest("openai.schema", f"{where}: {barred[0]} at the top level")
        for place, node in _nodes(schema, where):
            if node.get("type") == "array" and "items" not in node:
                raise IllegalRequest("openai.schema", f"{place}: an array schema without items")


def check_anthropic_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    """Hold tool declarations against Anthropic's rules.

    Raises:
        IllegalRequest: `anthropic.` and `tool`, `name`, `duplicate_tool` or `schema`.
    """
    for where, function in _declared(tools, "anthropic", ANTHROPIC_NAME):
        schema = function.get("parameters")
        if schema is None:
            continue
        _demand_object(schema, where, "anthropic.schema")
        barred = [key for key in ("oneOf", "anyOf", "allOf") if key in schema]
        if barred:
            raise IllegalRequest("anthropic.schema", f"{where}: {barred[0]} at the top level")
        for key in schema.get("properties", {}):
            # In a refusal only: "Property keys should match pattern".
            if not ANTHROPIC_PROPERTY.fullmatch(key):
                raise IllegalRequest("anthropic.schema", f"{where}: the parameter name {key!r}")


def check_gemini_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    """Hold tool declarations against Gemini's rules.

    Raises:
        IllegalRequest: `gemini.` and `tool`, `name`, `duplicate_tool` or `schema`.
    """
    for where, function in _declared(tools, "gemini", GEMINI_NAME):
        schema = function.get("parameters")
        if schema is None:
            continue
        _demand_object(schema, where, "gemini.schema")
        for place, node in _nodes(schema, where):
            _check_gemini_node(node, place)


def _check_gemini_node(node: Mapping[str, Any], place: str) -> None:
    unknown = sorted(set(node) - _GEMINI_FIELDS - _GEMINI_DROPPED)
    if unknown:
        raise IllegalRequest("gemini.schema", f"{place}: its Schema has no field {unknown[0]!r}")
    kinds = node.get("type")
    listed = list(kinds) if is_list(kinds) else [kinds]
    if "anyOf" not in node and not all(kind in _NULL_TOO for kind in listed):
        raise IllegalRequest("gemini.schema", f"{place}: no type it knows, but {kinds!r}")
    if kinds == "array" and not isinstance(node.get("items"), Mapping):
        raise IllegalRequest("gemini.schema", f"{place}: an array schema without items")
    if "enum" in node:
        # "only allowed for STRING type", and "enum[0]: cannot be empty".
        values = node["enum"]
        texts = is_list(values) and all(isinstance(value, str) and value for value in values)
        if not texts or "string" not in listed:
            raise IllegalRequest("gemini.schema", f"{place}: an enum of anything but texts")
    missing = [key for key in node.get("required", ()) if key not in node.get("properties", {})]
    if missing:
        raise IllegalRequest("gemini.schema", f"{place}: {missing[0]!r} is required, not defined")


def _declared(
    tools: Sequence[Mapping[str, Any]], provider: str, pattern: re.Pattern[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        function = tool.get("function")
        if tool.get("type") != "function" or not isinstance(function, Mapping):
            raise IllegalRequest(f"{provider}.tool", f"{where} is no function")
        name = function.get("name")
        if not isinstance(name, str) or not pattern.fullmatch(name):
            raise IllegalRequest(f"{provider}.name", f"{where} is called {name!r}")
        if name in seen:
            raise IllegalRequest(f"{provider}.duplicate_tool", f"{where}: a second {name!r}")
        seen.add(name)
        yield f"{where} ({name})", function


def _demand_object(schema: object, where: str, rule: str) -> None:
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise IllegalRequest(rule, f"{where}: its parameters are not of type object")


def _nodes(schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield place, schema
    for key, value in (schema.get("properties") or {}).items():
        if isinstance(value, Mapping):
            yield from _nodes(value, f"{place}.{key}")
    if isinstance(schema.get("items"), Mapping):
        yield from _nodes(schema["items"], f"{place}[]")
    for branch in _BRANCHES:
        for index, value in enumerate(schema.get(branch) or ()):
            if isinstance(value, Mapping):
                yield from _nodes(value, f"{place}.{branch}[{index}]")
