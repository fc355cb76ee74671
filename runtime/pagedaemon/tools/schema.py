"""From a Python signature to what a model is shown, and back from what it sent to Python values.

The JSON Schema is reduced to the common ground of the providers: no references, no titles, `anyOf`
as the only union (an optional value is `anyOf` with `null`, the form OpenAI, Anthropic and, through
litellm, Gemini take), enumerations with their type, objects closed unless they are open in Python.
What is lost on the way, such as the order of a tuple's types, is still checked when a call comes
in.

Values are read as JSON in pydantic's lax mode: `"3"` is an integer and `"true"` a boolean, since
small models quote both; an object, a number or a boolean given for text is an error, and so is an
unknown name. https://docs.pydantic.dev/latest/concepts/conversion_table/ is the full table (column
JSON).
"""

from __future__ import annotations

import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import SchemaError

from pagedaemon.errors import ToolDefinitionError
from pagedaemon.tools.docstrings import Docs

THOUGHTS = "inner_thoughts"
HEARTBEAT = "request_heartbeat"
RESERVED = (THOUGHTS, HEARTBEAT)
"""Parameters that agent styles add to every tool; a function may not have one of that name."""

_FORMATS = frozenset(
    "date-time date time duration email uuid uri ipv4 ipv6 hostname".split()  # noqa: SIM905
)
"""Formats that providers know. Others, such as `path`, make some of them refuse the schema."""

_DROPPED = frozenset({"title", "discriminator", "$defs", "examples", "deprecated", "propertyNames"})

_ORDER = ("type", "description", "enum", "anyOf", "items", "properties", "required")

_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    list: "array",
    dict: "object",
}

ANYTHING: Mapping[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": "object", "additionalProperties": True},
        {"type": "array", "items": {"type": "string"}},
    ]
}
"""How a value of any kind is shown, as of `Any` or of the items of a bare `list`: Gemini refuses a
schema that names no type. What comes is not held to it."""

MOST_PROBLEMS = 8
"""How many things wrong with one call the model is told at once."""


@dataclass(frozen=True, eq=False)
class Signature:
    """A function's parameters, as shown to a model and as its arguments are checked."""

    parameters: dict[str, Any]
    """JSON Schema of the object of arguments."""
    injected: tuple[str, ...]
    """Parameters that the runtime fills in and the model does not see."""
    _model: type[BaseModel]
    _names: Mapping[str, str]
    """Field of the model to parameter. Fields have names of their own, since a parameter may be
    called `json` or `_x`, which a model's field may not."""
    _optional: frozenset[str]

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as Python values, by parameter; what was left out is left to the function.

        Raises:
            pydantic.ValidationError: they do not fit; see `problems`.
        """
        model = self._model.model_validate_json(json.dumps(arguments))
        return {
            name: getattr(model, field)
            for field, name in self._names.items()
            if field in model.model_fields_set or name not in self._optional
        }


def read_signature(
    function: Callable[..., Any],
    *,
    tool: str,
    docs: Docs,
    injected: type,
    names: Mapping[str, Any],
) -> Signature:
    """The signature of a function, method, partial or callable object.

    Args:
        function: what will be called, with keyword arguments.
        tool: its name, for error messages.
        docs: descriptions of parameters; one in `Annotated[..., Field(description=...)]` goes
            first.
        injected: the type of parameters that the runtime fills in.
        names: what annotations may name beside the function's globals, such as local classes.

    Raises:
        ToolDefinitionError: a parameter cannot be shown to a model; names it.
    """
    namespace = {**getattr(plain_function(function), "__globals__", {}), **names}
    hints: dict[str, Any] = {}
    filled: list[str] = []
    optional: set[str] = set()
    for parameter in inspect.signature(function).parameters.values():
        _refuse_unusual(parameter, tool)
        hint = _hint(parameter, namespace, tool)
        if hint is injected or hint == injected | None:
            filled.append(parameter.name)
            continue
        hints[parameter.name] = hint
        if parameter.default is not inspect.Parameter.empty:
            optional.add(parameter.name)
    model, fields = _model(function, hints, optional, docs, tool)
    return Signature(_schema(model, hints, tool), tuple(filled), model, fields, frozenset(optional))


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it was written, under partials, methods, callable objects and decorators."""
    if isinstance(function, functools.partial):
        return plain_function(function.func)
    if isinstance(function, types.MethodType):
        return plain_function(function.__func__)
    if not (inspect.isroutine(function) or hasattr(function, "__wrapped__")):
        function = type(function).__call__
    written: Callable[..., Any] = inspect.unwrap(function)
    return written


def _refuse_unusual(parameter: inspect.Parameter, tool: str) -> None:
    name, kind = parameter.name, parameter.kind
    if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        reason = "takes any number of values: name each parameter"
    elif kind is inspect.Parameter.POSITIONAL_ONLY:
        reason = "is positional-only, and tools are called by name: remove the '/'"
    elif name in RESERVED:
        reason = "has a reserved name, which agents use for themselves: rename it"
    elif isinstance(parameter.default, FieldInfo):
        reason = "has Field(...) as its default: write Annotated[type, Field(...)] instead"
    elif parameter.annotation is not inspect.Parameter.empty:
        return
    elif name == "self":
        reason = "has no type: give the tool a bound method, tool(thing.method)"
    else:
        reason = "has no type annotation, so a model cannot be told what it takes"
    raise ToolDefinitionError(f"tool {tool!r}: parameter {name!r} {reason}")


def _hint(parameter: inspect.Parameter, namespace: dict[str, Any], tool: str) -> Any:
    one = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(one, namespace, include_extras=True)[parameter.name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ToolDefinitionError(
            f"tool {tool!r}: the annotation of parameter {parameter.name!r} cannot be read: {error}"
            ". The type must exist at run time, where the function is made a tool"
        ) from error


def _model(
    function: Callable[..., Any],
    hints: Mapping[str, Any],
    optional: set[str],
    docs: Docs,
    tool: str,
) -> tuple[type[BaseModel], dict[str, str]]:
    parameters = inspect.signature(function).parameters
    names: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for number, (name, hint) in enumerate(hints.items()):
        about = FieldInfo.from_annotation(hint).description or docs.parameters.get(name)
        shown: dict[str, Any] = {"alias": name, "description": about}
        if name in optional:
            shown["default"] = parameters[name].default
            if shown["default"] is None:  # what the function takes, the model may send
                hint = typing.Optional[hint]  # noqa: UP045 (a hint may be text within, without an `|`)
        # Without a default here, one in the annotation's own Field may stand.
        fields[f"p{number}"] = (hint, Field(**shown))
        names[f"p{number}"] = name
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    try:
        return create_model(tool, __config__=config, **fields), names
    except (PydanticUserError, SchemaError, TypeError) as error:
        raise _unfit(hints, tool, error) from error


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, but a type of a union that has no schema is an error, not left out."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        if kind == "skipped-choice":
            raise PydanticInvalidForJsonSchema(detail)
        # The other kind is a default without a JSON form: it is not shown, and the function has it.


def _schema(model: type[BaseModel], hints: Mapping[str, Any], tool: str) -> dict[str, Any]:
    try:
        raw = model.model_json_schema(schema_generator=_Generator)
    except (PydanticUserError, SchemaError, TypeError) as error:
        raise _unfit(hints, tool, error) from error
    definitions = raw.get("$defs", {})
    properties: dict[str, Any] = {}
    for name, schema in raw.get("properties", {}).items():
        try:
            properties[name] = normalised(schema, definitions)
        except RecursionError as error:
            raise ToolDefinitionError(
                f"tool {tool!r}: the type of parameter {name!r} contains itself ({error}), "
                "which most models cannot be shown: give it a fixed depth"
            ) from error
    result: dict[str, Any] = {"type": "object", "properties": properties}
    if required := raw.get("required"):
        result["required"] = required
    return {**result, "additionalProperties": False}


def _unfit(hints: Mapping[str, Any], tool: str, error: Exception) -> ToolDefinitionError:
    """The error that names the first parameter whose type alone cannot be shown."""
    culprit, cause = "?", error
    for name, hint in hints.items():
        try:
            TypeAdapter(hint).json_schema(schema_generator=_Generator)
        except (PydanticUserError, SchemaError, TypeError) as its_own:
            culprit, cause = name, its_own
            break
    first_line = str(cause).partition("\n")[0]
    return ToolDefinitionError(
        f"tool {tool!r}: the type of parameter {culprit!r} has no JSON Schema: {first_line}"
    )


def normalised(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    within: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A JSON Schema on the providers' common ground, with references replaced by what they name.

    Args:
        schema: as pydantic generates it.
        definitions: what its references name.
        within: the references it stands in.

    Raises:
        RecursionError: a reference names something it stands in; the message is its name.
    """
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        if name in within:
            raise RecursionError(name)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return normalised({**definitions[name], **beside}, definitions, (*within, name))
    inner = functools.partial(normalised, definitions=definitions, within=within)
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED or (key == "format" and value not in _FORMATS):
            continue
        if key == "pattern" and "(?" in value:
            continue  # lookaround, which constrained decoders do not know
        if key == "properties":
            result[key] = {name: inner(its) for name, its in value.items()}
        elif key in ("anyOf", "oneOf"):
            result["anyOf"] = _distinct(_flat([inner(choice) for choice in value]))
        elif key == "prefixItems":
            items = [*value, schema["items"]] if isinstance(schema.get("items"), Mapping) else value
            result["items"] = _either(_distinct([inner(item) for item in items]))
        elif key == "patternProperties":
            result["additionalProperties"] = _either([inner(its) for its in value.values()])
        elif key == "const":
            result["enum"] = [value]
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            result.setdefault(key, inner(value))
        else:
            result.setdefault(key, value)
    if result.get("type") == "object":
        _close(result, inner(schema.get("propertyNames", {})))
    result = _typed_enum(result)
    if result.get("type") == "array":
        result.setdefault("items", dict(ANYTHING))
    if "type" not in result and "anyOf" not in result:
        result = {**ANYTHING, **result}
    return {key: result[key] for key in sorted(result, key=_place)}


def _place(key: str) -> int:
    """Where a keyword stands: what a model should read first, first."""
    return _ORDER.index(key) if key in _ORDER else len(_ORDER)


def _close(schema: dict[str, Any], keys: Mapping[str, Any]) -> None:
    """Objects list their properties; one with enumerated keys lists those."""
    open_to = schema.get("additionalProperties")
    if "enum" in keys and isinstance(open_to, dict):
        schema["properties"] = {str(key): open_to for key in keys["enum"]}
        schema["additionalProperties"] = False
    elif open_to is None:
        schema.setdefault("properties", {})
        schema["additionalProperties"] = False


def _typed_enum(schema: dict[str, Any]) -> dict[str, Any]:
    """An enumeration says its type; one of several types is a union of enumerations.

    Gemini takes enumerations of texts only: numbers and booleans are named in the description, and
    checked when the call comes.
    """
    if "enum" not in schema:
        return schema
    by_type: dict[str, list[Any]] = {}
    for value in schema["enum"]:
        by_type.setdefault(_JSON_TYPES[type(value)], []).append(value)
    rest = {key: value for key, value in schema.items() if key not in ("enum", "type")}
    if len(by_type) > 1:
        return {"anyOf": [_choice(kind, values) for kind, values in by_type.items()], **rest}
    chosen = _choice(*by_type.popitem())
    told = [text for text in (rest.get("description"), chosen.get("description")) if text]
    return {**chosen, **rest, **({"description": " ".join(told)} if told else {})}


def _choice(kind: str, values: Sequence[Any]) -> dict[str, Any]:
    if kind == "string" and all(values):  # Gemini takes no empty text in an enumeration
        return {"type": kind, "enum": list(values)}
    if kind == "null":
        return {"type": kind}
    named = ", ".join(json.dumps(value) for value in values)
    return {"type": kind, "description": f"One of: {named}." if len(values) > 1 else f"{named}."}


def _flat(choices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    flat: list[dict[str, Any]] = []
    for choice in choices:
        flat.extend(choice["anyOf"] if choice.keys() == {"anyOf"} else [choice])
    return flat


def _distinct(schemas: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [schema for at, schema in enumerate(schemas) if schema not in schemas[:at]]


def _either(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": _flat(schemas)}


def shape(schema: Mapping[str, Any]) -> str:
    """A normalised schema in one line, such as ``{city: string, days?: integer}``."""
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if schema.get("anyOf") == ANYTHING["anyOf"]:
        return "any"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(shape(choice) for choice in schema["anyOf"]))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"[{shape(schema.get('items', {}))}]"
    if kind == "object":
        needed = schema.get("required", ())
        parts = [
            f"{name}{'' if name in needed else '?'}: {shape(its)}"
            for name, its in schema.get("properties", {}).items()
        ]
        open_to = schema.get("additionalProperties", False)
        if open_to is not False:
            parts.append(f"[name]: {shape(open_to if isinstance(open_to, Mapping) else {})}")
        return "{" + ", ".join(parts) + "}"
    return f"{kind} ({schema['format']})" if "format" in schema else kind


def problems(error: ValidationError, arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the arguments, one line each: where, what was expected, what came."""
    found = error.errors(include_url=False, include_context=False)
    lines = []
    for problem in found[:MOST_PROBLEMS]:
        absent = problem["type"] == "missing"
        line = f"{_path(problem['loc'], arguments, absent=absent)}: {problem['msg']}"
        if not absent:
            line += f", got {_short(problem['input'])}"
        lines.append(line)
    if len(found) > MOST_PROBLEMS:
        lines.append(f"and {len(found) - MOST_PROBLEMS} more")
    return lines


def _path(where: Sequence[int | str], arguments: Mapping[str, Any], *, absent: bool) -> str:
    """``people[0].name``; a step that is no part of the value is the choice of a union tried
    there."""
    path = ""
    at: Any = arguments
    for number, step in enumerate(where, start=1):
        if isinstance(at, list) and isinstance(step, int):
            path += f"[{step}]"
            at = at[step] if step < len(at) else None
        elif isinstance(at, Mapping) and (step in at or (absent and number == len(where))):
            path += f".{step}" if path else str(step)
            at = at.get(str(step))
        else:
            path += f" as {step}"
    return path


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"
