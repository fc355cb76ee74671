"""Finds and renders what ships beside the code: `prompts/` and `blocks/`.

In a wheel they lie in the package under `share/`; in a checkout at its top level. A user's own
folder may override any file of `prompts/` by the same relative path.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import (
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    meta,
    nodes,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pagedaemon.errors import ConfigError, NotFound

_PACKAGE = Path(__file__).parent


def shipped(kind: str) -> Path:
    """The folder of that kind (`prompts` or `blocks`), in the package or in the checkout.

    Raises:
        ConfigError: neither place has it: the installation is broken.
    """
    for folder in (_PACKAGE / "share" / kind, _PACKAGE.parent.parent / kind):
        if folder.is_dir():
            return folder
    raise ConfigError(f"{kind}/ is missing from this installation: install pagedaemon again")


class Prompts:
    """The texts the model reads, rendered strictly: a missing value is an error, never an empty
    string.

    Args:
        overrides: a folder whose files replace shipped ones of the same relative path. All of them
            are read at once. Hidden files, backups ending in `~` and a `README.md` are passed over.

    Raises:
        ConfigError: the folder is not there, one of its files replaces nothing, is no template, or
            asks for a value that this template is never given; the message names file and line.
    """

    def __init__(self, overrides: Path | None = None) -> None:
        if overrides is not None and not overrides.is_dir():
            raise ConfigError(f"the folder of your own prompts does not exist: {overrides}")
        folders = [shipped("prompts")] if overrides is None else [overrides, shipped("prompts")]
        self._environment = ImmutableSandboxedEnvironment(
            loader=FileSystemLoader(folders),
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
            auto_reload=False,
        )
        self._environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
        self._templates: dict[str, Template] = {}
        self._own: dict[str, Path] = {}
        if overrides is not None:
            self._own = _overriding(overrides)
            for name, path in self._own.items():
                self._check(name, path)

    def render(self, name: str, /, **values: Any) -> str:
        """The template `prompts/<name>.j2`, rendered and stripped of outer blank space.

        Values are data: they are never read as templates themselves.

        Raises:
            NotFound: there is no such template.
            ConfigError: a user's own template could not be rendered; names its file.
            jinja2.UndefinedError: a value the template needs was not given.
        """
        template = self._templates.get(name)
        if template is None:
            try:
                template = self._environment.get_template(f"{name}.j2")
            except TemplateNotFound as error:
                raise NotFound(f"no prompt {name!r} in prompts/") from error
            self._templates[name] = template
        try:
            return template.render(**values).strip()
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            if name not in self._own:
                raise
            raise ConfigError(
                f"your own prompt {self._own[name]} cannot be rendered: {error}. It is given "
                f"{_listed(variables(name))}"
            ) from error

    def names(self) -> list[str]:
        """All templates, by name."""
        return sorted(
            name.removesuffix(".j2") for name in self._environment.list_templates(extensions=["j2"])
        )

    def _check(self, name: str, path: Path) -> None:
        try:
            source = path.read_text(encoding="utf-8")
            tree = self._environment.parse(source, filename=str(path))
            self._templates[name] = self._environment.get_template(f"{name}.j2")
        except UnicodeDecodeError as error:
            raise ConfigError(f"your own prompt {path} is not UTF-8: {error}") from error
        except OSError as error:
            raise ConfigError(f"your own prompt {path} cannot be read: {error}") from error
        except TemplateSyntaxError as error:
            raise ConfigError(
                f"your own prompt {path}, line {error.lineno}: {error.message}"
            ) from error
        given = variables(name)
        unknown = meta.find_undeclared_variables(tree) - given - set(self._environment.globals)
        for used in tree.find_all(nodes.Name):
            if used.name in unknown:
                raise ConfigError(
                    f"your own prompt {path}, line {used.lineno}: it is never given "
                    f"{used.name!r}, only {_listed(given)}"
                )
        for wanted in meta.find_referenced_templates(tree):
            if wanted is not None and wanted.removesuffix(".j2") not in self.names():
                raise ConfigError(f"your own prompt {path}: there is no template {wanted!r}")


_DECLARED = re.compile(r"\{# Variables: (?P<listed>[^.]*)\.")
_ASIDE = re.compile(r"\([^()]*\)")


def variables(name: str) -> frozenset[str]:
    """The values that a shipped template is given, as its first line lists them.

    Raises:
        NotFound: there is no such template.
    """
    path = shipped("prompts") / f"{name}.j2"
    if not path.is_file():
        raise NotFound(f"no prompt {name!r} in prompts/")
    with path.open(encoding="utf-8") as lines:
        first = _ASIDE.sub("", next(lines, ""))
    listed = _DECLARED.match(first)
    names = [] if listed is None else [one.strip() for one in listed["listed"].split(",")]
    return frozenset(names) - {"none"}


def _overriding(folder: Path) -> dict[str, Path]:
    """The files of a user's own folder by the name of what each replaces."""
    top = shipped("prompts")
    known = sorted(path.relative_to(top).as_posix() for path in top.rglob("*.j2"))
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if not path.is_file() or inner.name == "README.md" or inner.name.endswith("~"):
            continue
        if any(part.startswith(".") for part in inner.parts):
            continue
        if inner.as_posix() not in known:
            near = difflib.get_close_matches(inner.as_posix(), known, n=1, cutoff=0)
            raise ConfigError(
                f"your own prompt {path} replaces nothing: there is no {inner.as_posix()!r} in "
                f"prompts/. The nearest name is {near[0]!r}"
            )
        found[inner.with_suffix("").as_posix()] = path
    return found


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


_FRONT = re.compile(r"\A---\n(?P<front>.*?)\n---\n?(?P<value>.*)\Z", re.DOTALL)


@lru_cache(maxsize=64)
def _parsed(path: Path) -> tuple[tuple[tuple[str, Any], ...], str]:
    match = _FRONT.match(path.read_text(encoding="utf-8"))
    if match is None:
        raise ConfigError(f"{path.name} has no front matter between two lines of ---")
    fields: list[tuple[str, Any]] = []
    for line in match["front"].splitlines():
        key, found, text = line.partition(":")
        if not found:
            raise ConfigError(f"{path.name}: not a 'key: value' line: {line!r}")
        key, text = key.strip(), text.strip()
        value: Any = text
        if key == "limit":
            value = int(text)
        elif key == "read_only":
            value = text == "true"
        fields.append((key, value))
    return tuple(fields), match["value"].strip()


def starter_block(name: str) -> tuple[dict[str, Any], str]:
    """Front matter and value of `blocks/<name>.md`.

    Raises:
        NotFound: there is no such starter; the message lists what there is.
    """
    folder = shipped("blocks")
    known = starter_names()
    if name not in known:
        raise NotFound(f"no starter block {name!r}; there are: {', '.join(known)}")
    fields, value = _parsed(folder / f"{name}.md")
    return dict(fields), value


def starter_names() -> list[str]:
    """All starter blocks by path without ending, such as `persona/companion`."""
    folder = shipped("blocks")
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix()
        for path in folder.rglob("*.md")
        if path.name != "README.md"
    )
