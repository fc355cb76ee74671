"""The shape of the code: which way imports flow, where words live, what a module says of itself."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "runtime" / "pagedaemon"
MODULES = sorted(PACKAGE.rglob("*.py"))
TALKATIVE = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] != "store"]
"""All but the store, whose long texts are SQL that no model reads."""
LONGEST_LITERAL = 240
"""Characters. An error message for a developer fits; a text for a model does not: its home is
`prompts/`."""


def name(path: Path) -> str:
    """The module's path in the package."""
    return path.relative_to(PACKAGE).as_posix()


def parsed(path: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string written into the code; what stands in braces is left out.

    Docstrings, also those under a field, are strings that stand alone as a statement: they are for
    people and do not count. Strings added with `+` count as one.
    """
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    text = _text(tree)
    if text is not None:
        assert isinstance(tree, ast.expr)
        yield tree.lineno, text
        return
    for child in ast.iter_child_nodes(tree):
        yield from literals(child)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else (left or "") + (right or "")
    return None


def test_imports_flow_one_way() -> None:
    # In a process of its own: the linter switches off all loggers of the one it runs in.
    linter = (
        "import sys; from importlinter.cli import lint_imports as lint; sys.exit(lint(no_cache=1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", linter],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == EXIT_STATUS_SUCCESS, done.stdout + done.stderr


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(parsed(path))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_library_module_never_prints(path: Path) -> None:
    calls = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
    prints = [
        call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]
    assert not prints, f"{name(path)} prints in line {prints}"


@pytest.mark.parametrize("path", TALKATIVE, ids=name)
def test_words_for_a_model_are_not_written_into_code(path: Path) -> None:
    long = [(line, text) for line, text in literals(parsed(path)) if len(text) > LONGEST_LITERAL]
    assert not long, f"{name(path)}: move this to prompts/: {long}"


def test_nothing_ships_the_name_of_a_junk_room() -> None:
    junk = {"utils", "util", "helpers", "helper", "common", "misc", "services", "managers"}
    assert not [name(path) for path in MODULES if junk & {path.stem, path.parent.name}]


def test_long_literals_are_found_in_every_spelling_and_docstrings_are_not() -> None:
    source = (
        '"""Docstring."""\n'
        "class A:\n"
        '    """Docstring."""\n'
        "    field: int = 1\n"
        '    """Under a field."""\n'
        'plain = "one"\n'
        'joined = ("two" "three")\n'
        'added = "four" + "five" + "six"\n'
        'filled = f"seven {plain} eight"\n'
        'call(key="nine", other=[1, "ten"])\n'
    )
    assert [text for _, text in literals(ast.parse(source))] == [
        "one",
        "twothree",
        "fourfivesix",
        "seven  eight",
        "nine",
        "ten",
    ]
