"""What an agent is made of, as a caller gives it: each part checked before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pagedaemon.agent import Block
from pagedaemon.clock import zone
from pagedaemon.config import STYLES, Model, Settings
from pagedaemon.errors import ConfigError, InvalidInput, ToolDefinitionError
from pagedaemon.handles.arguments import checked_many
from pagedaemon.handles.blocks import AsyncBlock
from pagedaemon.handles.holding import checked_block
from pagedaemon.messages import checked_text
from pagedaemon.tools.tool import Tool

if TYPE_CHECKING:
    from pagedaemon.scheduler import Scheduler

GivenBlocks: TypeAlias = Sequence[Block | AsyncBlock]


def given_model(model: Model | str | None) -> Model | None:
    """A model by its name or its settings.

    Raises:
        ConfigError: it is neither.
    """
    if model is None or isinstance(model, Model):
        return model
    if not isinstance(model, str):
        raise ConfigError(
            f'model is a name such as "openai/gpt-5-mini" or a Model, not a {type(model).__name__}'
        )
    return Model(model)


def without_key(model: Model | None) -> Model | None:
    """A model as it is stored."""
    return None if model is None else model.model_copy(update={"api_key": None})


def settled(current: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    """The settings with the changes; a style may be given by its name.

    Raises:
        ConfigError: one of them cannot work.
        InvalidInput: instructions that cannot be stored.
    """
    given = dict(changes)
    style = given.get("style")
    if isinstance(style, str):
        if style not in STYLES:
            raise ConfigError(f"style is one of {', '.join(STYLES)} or a Style, not {style!r}")
        given["style"] = STYLES[style]
    settings = Settings(**{**current, **given})
    try:
        zone(settings.timezone)
    except InvalidInput as error:
        raise ConfigError(str(error)) from error
    if settings.instructions is not None:
        checked_text(settings.instructions, "instructions")
    return settings


def require_rules(scheduler: Scheduler, settings: Settings, tools: Mapping[str, str]) -> None:
    """Rules on tools that the agent has not, or that no turn can follow, are not stored.

    Raises:
        ConfigError: there are such.
    """
    if settings.rules:
        from pagedaemon.tools.memory_tools import memory_tools
        from pagedaemon.tools.rules import require_possible

        built_in = [tool.name for tool in memory_tools(scheduler.prompts, settings)]
        require_possible(settings.rules, [*built_in, *tools])


def checked_blocks(blocks: GivenBlocks) -> GivenBlocks:
    """The blocks, if each is one.

    Raises:
        InvalidInput: one is not, or one block stands in place of a list.
    """
    given = checked_many(blocks, "blocks", "blocks=[Block.human(...)]")
    return [checked_block(block) for block in given]


def checked_code(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools, if an agent can have them together.

    Raises:
        ToolDefinitionError: it cannot, one is no tool, or one tool stands in place of a list.
    """
    given = checked_many(tools, "tools", "tools=[search]", refusal=ToolDefinitionError)
    from pagedaemon.scheduler.bodies import checked_tools

    return checked_tools(given)
