"""Finds and renders what ships beside the code: `prompts/` and `blocks/`.

In a wheel they lie in the package under `share/`; in a checkout at its top level. A user's own
folder may override any file of either by the same relative path.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateNotFound
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
        overrides: a folder whose files replace shipped ones of the same relative path.
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

    def render(self, name: str, /, **values: Any) -> str:
        """The template `prompts/<name>.j2`, rendered and stripped of outer blank space.

        Values are data: they are never read as templates themselves.

        Raises:
            NotFound: there is no such template.
            jinja2.UndefinedError: a value the template needs was not given.
        """
        template = self._templates.get(name)
        if template is None:
            try:
                template = self._environment.get_template(f"{name}.j2")
            except TemplateNotFound as error:
                raise NotFound(f"no prompt {name!r} in prompts/") from error
            self._templates[name] = template
        return template.render(**values).strip()

    def names(self) -> list[str]:
        """All templates, by name."""
        return sorted(
            name.removesuffix(".j2") for name in self._environment.list_templates(extensions=["j2"])
        )


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
