"""From options to an open space: the store, the user's own code (`--app`), the agent, its model."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pydantic import SecretStr

from pagedaemon.agent import Block
from pagedaemon.config import Model
from pagedaemon.errors import ConfigError, NotFound
from pagedaemon.resources import starter_names
from pagedaemon.sync.handles import Agent
from pagedaemon.sync.runtime import Runtime, Space
from pagedaemon.tools.tool import Tool

DEFAULT_STORE = "./memory"


@dataclass(frozen=True)
class Place:
    """Where a command looks.

    `app` names what the user's own code gives, as `module:name`; the module is looked for in the
    working directory first. The name stands for a `Runtime`, for a function without arguments that
    returns one, or for one tool or a list of tools. A `Runtime` brings its own store and tools; the
    tools of a list are given to the runtime that is opened, and to the agent that is talked to.
    """

    store: str | None
    space: str
    app: str | None

    @contextmanager
    def opened(self, *, make: bool = False) -> Iterator[tuple[Space, Sequence[Tool]]]:
        """The space, and the tools that `app` names.

        Args:
            make: whether a store, or a space in it, may come into being. Only then are turns taken
                up that a crash left open.

        Raises:
            NotFound: there is no such store or space, and none may come into being.
            ConfigError: `app` leads to nothing that can be used.
        """
        given = [] if self.app is None else _loaded(self.app)
        if isinstance(given, Runtime):
            if self.store is not None:
                raise ConfigError("--store cannot be used with an --app that opens its own store")
            runtime = given
        else:
            folder = Path(self.store or DEFAULT_STORE)
            if not make and not (folder / "spaces" / self.space).is_dir():
                raise NotFound(
                    f"there is no space {self.space!r} in {folder}: `pagedaemon chat` makes one, "
                    "and --store says where to look"
                )
            runtime = Runtime(folder, tools=given, recover=make)
        with runtime:
            yield runtime.space(self.space), [] if isinstance(given, Runtime) else given


def _loaded(spec: str) -> Runtime | list[Tool]:
    """What `module:name` stands for."""
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise ConfigError(f"--app takes module:name, such as my_tools:tools, not {spec!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and one that it imports is not
        raise ConfigError(
            f"--app: there is no module {module_name!r} here, nor installed"
        ) from None
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"--app: {module_name} has no {name!r}")
        found = getattr(found, part)
    if callable(found) and not isinstance(found, Tool):
        found = found()
    if isinstance(found, Tool):
        found = [found]
    if isinstance(found, Runtime):
        return found
    if isinstance(found, list | tuple) and all(isinstance(one, Tool) for one in found):
        return list(found)
    raise ConfigError(
        f"--app: {spec} must be a Runtime, a function that returns one, or a list of tools made by "
        f"@tool; it is a {type(found).__name__}"
    )


@dataclass(frozen=True)
class Wanted:
    """How the agent to be talked to shall be, where the options say so."""

    model: str | None = None
    base_url: str | None = None
    context_window: int | None = None
    persona: str | None = None
    human: str | None = None
    style: str | None = None
    key: str | None = None
    """For this process only: no store holds a key."""

    def agent(self, space: Space, name: str, tools: Sequence[Tool]) -> tuple[Agent, list[str]]:
        """The agent of that name, made if there is none, and what there is to say about it.

        Of one that is there, only what the options name is changed. Values of blocks never are: an
        option for one it holds already is only remarked on.

        Raises:
            ConfigError: the options cannot work.
        """
        persona = _block("persona", self.persona)
        human = _block("human", self.human)
        settings = {} if self.style is None else {"style": self.style}
        try:
            agent = space.agents.get(name)
        except NotFound:
            blocks = [
                persona or Block.load("persona/companion"),
                human or Block.load("human/basic"),
            ]
            model = self._model(None)
            return space.agents.create(
                name, blocks=blocks, tools=tools, model=model, **settings
            ), []
        model = self._model(agent.model)
        if model is not None or tools or settings:
            agent.update(model=model, tools=tools or None, **settings)
        kept = []
        for block in (persona, human):
            if block is None:
                continue
            if block.label not in agent.blocks:
                agent.blocks.attach(block)
            elif agent.blocks[block.label].value != block.value:
                kept.append(
                    f"{name} keeps its block {block.label!r}: options never overwrite what an "
                    "agent has learnt"
                )
        return agent, kept

    def _model(self, current: Model | None) -> Model | None:
        """The model to give the agent; None where it keeps the one it has."""
        given = {"base_url": self.base_url, "context_window": self.context_window}
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if self.key is not None:
            changes["api_key"] = SecretStr(self.key)
        if self.model is not None:
            return Model(self.model, **changes)
        if current is not None:
            return current.model_copy(update=changes) if changes else None
        if self.base_url is not None or self.context_window is not None:
            raise ConfigError("--base-url and --context-window say how --model is reached: name it")
        return None


def _block(kind: str, text: str | None) -> Block | None:
    """A block from an option: the name of a starter, a file, or the text itself.

    Raises:
        ConfigError: a single word that is neither starter nor file.
    """
    if text is None:
        return None
    starters = [name for name in starter_names() if name.startswith(f"{kind}/")]
    for name in (text, f"{kind}/{text}"):
        if name in starters:
            return Block.load(name, label=kind)
    if len(text) < 1_000 and Path(text).is_file():
        text = Path(text).read_text(encoding="utf-8").strip()
    elif len(text.split()) < 2:
        raise ConfigError(
            f"--{kind} {text}: neither a starter ({', '.join(starters)}) nor a file; a text has "
            "more than one word"
        )
    return Block.load("persona/blank" if kind == "persona" else "human/basic", value=text)


def ask_for_model(name: str) -> Model:
    """Lets a person at the terminal choose how the agent shall answer, for its first run.

    A key that is typed in is used by this process and stored nowhere.

    Raises:
        click.Abort: the person left.
    """
    click.echo(f"{name} has no model yet. What shall answer?")
    click.echo("  1  built-in rules, offline: shows how memory works; it is no language model")
    click.echo("  2  OpenAI, with a key")
    click.echo("  3  a server that speaks OpenAI's protocol: Ollama, vLLM, llama.cpp, LM Studio")
    choice = click.prompt("Your choice", type=click.Choice(["1", "2", "3"]), default="1")
    if choice == "1":
        return Model("offline")
    if choice == "2":
        model = click.prompt("Model", default="gpt-5-mini")
        key = os.environ.get("OPENAI_API_KEY") or click.prompt(
            "Key (for now only; set OPENAI_API_KEY to keep it)", hide_input=True
        )
        return Model(f"openai/{model}", api_key=key)
    url = click.prompt("Address", default="http://localhost:8000/v1")
    model = click.prompt("Model, as the server calls it")
    window = click.prompt("Its context window, in tokens", type=click.IntRange(min=1), default=8192)
    key = click.prompt("Its key, if it wants one", default="", show_default=False, hide_input=True)
    return Model(f"openai/{model}", base_url=url, api_key=key or None, context_window=window)
