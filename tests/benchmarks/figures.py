"""What the benchmarks share: finding their input, counting, showing a table, writing JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

SHARED = ROOT.parent / "shared"
"""Where what is not ours to ship is looked for unless told otherwise."""


def needed(given: str | None, variable: str, default: Path, option: str, what: str) -> Path:
    """The file a benchmark needs: as given, else by the environment, else in its usual place.

    Ends the program with status 2 and a message that says what to do where it is absent.
    """
    path = Path(given or os.environ.get(variable) or default)
    if not path.is_file():
        print(
            f"{path} is not there. This benchmark needs {what}: pass {option} PATH or set the "
            f"variable {variable}.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return path


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for people: the first column to the left, the others to the right."""
    shown = [list(head), *([_shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first, *rest = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]
        return "  ".join(cells).rstrip()

    ruler = "  ".join("-" * width for width in widths)
    return "\n".join([title, line(shown[0]), ruler, *map(line, shown[1:]), ""])


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.3f}" if abs(cell) < 10 else f"{cell:.1f}"
    return "" if cell is None else str(cell)


def write_json(path: str | None, figures: Mapping[str, Any]) -> None:
    """All figures as JSON; nothing without a path."""
    if path is not None:
        text = json.dumps(figures, indent=2, ensure_ascii=False)
        Path(path).write_text(f"{text}\n", encoding="utf-8")
        print(f"written: {path}")


def percentile(values: Sequence[float], share: float) -> float:
    """What that share of the values stays under."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def share(part: int, whole: int) -> float:
    """A share; 0 of nothing."""
    return part / whole if whole else 0.0
