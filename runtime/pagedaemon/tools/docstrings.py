"""Reads what a docstring says of a function and of its parameters: Google, NumPy and Sphinx
style."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Docs:
    """What a docstring says."""

    description: str = ""
    """Its summary and the paragraphs after it, without the sections on arguments, results and so
    on."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameter to its description, as one line."""


def read_docs(text: str, parameters: Collection[str]) -> Docs:
    """What a docstring says, in whichever style describes most of the parameters.

    Text that no style can read is all description. Descriptions of anything but these parameters
    are left out.
    """
    from docstring_parser import DocstringStyle, ParseError, parse  # only where a tool is made

    text = inspect.cleandoc(text).strip()
    best: Docs | None = None
    for style in (DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.REST):
        try:
            read = parse(text, style=style)
        except ParseError:
            continue  # not written in this style; another may fit
        described = {
            its.arg_name: " ".join(its.description.split())
            for its in read.params
            if its.arg_name in parameters and its.description
        }
        if best is None or len(described) > len(best.parameters):
            best = Docs((read.description or "").strip(), described)
    return best or Docs(text)
