"""From options to an open space: the store, the agent, its model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import SecretStr

from pagedaemon.agent import Block
from pagedaemon.cli.app import loaded
from pagedaemon.config import Model
from pagedaemon.errors import ConfigError, NoModel, NotFound
from pagedaemon.llm.gateway import connect
from pagedaemon.llm.protocol import PREFIX
from pagedaemon.resources import starter_names
from pagedaemon.runtime import checked_space
from pagedaemon.sync.handles import Agent
from pagedaemon.sync.runtime import Runtime, Space
from pagedaemon.tools.tool import Tool

DEFAULT_STORE = "./memory"
MAIN = "main"
"""The agent that is meant where none is named."""

F = TypeVar("F", bound=Callable[..., Any])


def shown_folder(folder: Path) -> str:
    """A folder as people write it, so that `./memory` is told as that."""
    rooted = folder.is_absolute() or folder.parts[:1] in ((), ("..",))
    return str(folder) if rooted else f".{os.sep}{folder}"


def place_options(command: F) -> F:
    """The options that say where a command looks."""
    for option in (
        click.option(
            "--app",
            metavar="MODULE:NAME",
            help="Your own code: a Runtime, a function that returns one, or a list of tools. "
            "MODULE is looked for in the working directory first.",
        ),
        click.option("--space", default="default", show_default=True, help="Which space of it."),
        click.option(
            "--store",
            envvar="PAGEDAEMON_STORE",
            metavar="FOLDER",
            help=f"Where memory is kept.  [default: {DEFAULT_STORE}]",
            show_envvar=True,
        ),
    ):
        command = option(command)
    return command


def agent_options(command: F) -> F:
    """The options that say whose memory a command is about."""
    whose = click.option("--agent", default=MAIN, show_default=True, help="Whose memory.")
    return place_options(whose(command))


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

    @cached_property
    def _given(self) -> Runtime | list[Tool]:
        if self.app is None:
            return []
        return loaded(self.app, store=None if self.store is None else "--store")

    @property
    def bare(self) -> bool:
        """Whether the runtime is opened here: then it has no default model, and no models but
        those whose names lead somewhere by themselves."""
        return not isinstance(self._given, Runtime)

    @contextmanager
    def opened(self, wanted: Wanted | None = None) -> Iterator[tuple[Space, Sequence[Tool]]]:
        """The space, and the tools that `app` names.

        Args:
            wanted: the agent for whom a store, or a space in it, may come into being. Only then are
                turns taken up that a crash left open; without it one only looks.

        Raises:
            NotFound: there is no such store or space, and none may come into being.
            ConfigError: `app` leads to nothing that can be used, or the agent could not answer.
            InvalidInput: the space cannot have that name; nothing was opened or made.
            click.UsageError: the options contradict each other.
        """
        checked_space(self.space)
        if wanted is not None:
            wanted.check()
        given = self._given
        if isinstance(given, Runtime):
            runtime = given
        else:
            folder = Path(self.store or DEFAULT_STORE)
            is_new = not (folder / "spaces" / self.space).is_dir()
            if wanted is not None:
                wanted.check_model(is_new=is_new)
            elif is_new:
                raise NotFound(
                    f"there is no space {self.space!r} in {shown_folder(folder)}: "
                    "`pagedaemon chat` makes one, and --store says where to look"
                )
            runtime = Runtime(folder, tools=given, recover=wanted is not None)
        with runtime:
            yield runtime.space(self.space), [] if isinstance(given, Runtime) else given


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
    at_once: bool = False
    """Whether it must be able to answer as it is, because nobody can be asked for a model."""

    def check(self) -> None:
        """Refuses what can never work, before anything is opened or made.

        Raises:
            ConfigError: a persona or human that is neither starter, file nor text.
            click.UsageError: an address for a model that is reached at none.
        """
        _block("persona", self.persona)
        _block("human", self.human)
        if self.model is not None:
            self._check_address(self.model)

    def check_model(self, *, is_new: bool) -> None:
        """Refuses a model that cannot answer in a runtime without models of its own.

        Args:
            is_new: whether there is no agent yet that could have one.

        Raises:
            ConfigError: no way leads to a model of that name.
            NoModel: none is named, and nobody can be asked.
        """
        if self.model is not None:
            connect(Model(self.model), {})
        elif is_new:
            self._model(None)
            self._require_model(None)

    def agent(
        self, space: Space, name: str, tools: Sequence[Tool], *, bare: bool = False
    ) -> tuple[Agent, list[str]]:
        """The agent of that name, made if there is none, and what there is to say about it.

        Of one that is there, only what the options name is changed. Values of blocks never are: an
        option for one it holds already is only remarked on.

        Args:
            bare: whether the runtime has no default model that could answer for a new agent.

        Raises:
            ConfigError: the options cannot work; nothing was changed.
            NoModel: nothing could answer, and nobody can be asked; no agent was made.
            click.UsageError: an address for a model that is reached at none.
        """
        persona = _block("persona", self.persona)
        human = _block("human", self.human)
        changes: dict[str, Any] = {} if self.style is None else {"style": self.style}
        try:
            agent = space.agents.get(name)
        except NotFound:
            blocks = [
                persona or Block.load("persona/companion"),
                human or Block.load("human/basic"),
            ]
            model = self._model(None)
            if bare:
                self._require_model(model)
            return space.agents.create(name, blocks=blocks, tools=tools, model=model, **changes), []
        model = self._model(agent.model)
        if model is not None:
            changes["model"] = model
        if tools:
            changes["tools"] = tools
        if changes:
            agent.update(**changes)
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
            self._check_address(current.name)
            return current.model_copy(update=changes) if changes else None
        if self.base_url is not None or self.context_window is not None:
            raise ConfigError("--base-url and --context-window say how --model is reached: name it")
        return None

    def _require_model(self, model: Model | None) -> None:
        if model is None and self.at_once:
            raise NoModel(
                "a new agent has no model: name one with --model, such as openai/gpt-5-mini with "
                "OPENAI_API_KEY set, or offline for the built-in rules"
            )

    def _check_address(self, model: str) -> None:
        if self.base_url is not None and not model.startswith(PREFIX):
            raise click.UsageError(
                f"--base-url says where a model called {PREFIX}NAME is served, and {model!r} is "
                "none: name such a model, or leave the address out"
            )


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
    if _is_file(text):
        try:
            text = Path(text).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--{kind} {text} cannot be read as text: {error}") from error
    elif len(text.split()) < 2:
        raise ConfigError(
            f"--{kind} {text}: neither a starter ({', '.join(starters)}) nor a file; a text has "
            "more than one word"
        )
    return Block.load("persona/blank" if kind == "persona" else "human/basic", value=text)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # a text is longer than any name of a file
        return False


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
