"""Compares built archives with the tree they were built from: `python check_archives.py dist/`.

The wheel must carry all code, prompts, starter blocks and migrations, and nothing besides; the
source archive must be enough to run the tests. Build backends leave files out without a word, so
CI asks.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "runtime" / "pagedaemon"
SOURCE_FOLDERS = ("runtime", "prompts", "blocks", "tests", "examples")
SOURCE_FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml")


def files_under(folder: Path) -> list[Path]:
    """The files a clone has there; what running the code leaves behind does not count."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(
            part == "__pycache__" or part.endswith("_cache") or part == ".hypothesis"
            for part in path.relative_to(ROOT).parts
        )
    ]


def expected_in_wheel() -> set[str]:
    """Every file the wheel must install, by its path there."""
    code = {f"pagedaemon/{path.relative_to(PACKAGE).as_posix()}" for path in files_under(PACKAGE)}
    shared = {
        f"pagedaemon/share/{path.relative_to(ROOT).as_posix()}"
        for kind in ("prompts", "blocks")
        for path in files_under(ROOT / kind)
    }
    return code | shared


def expected_in_source() -> set[str]:
    """Every file the source archive must hold, by its path in the tree."""
    folders = {
        path.relative_to(ROOT).as_posix()
        for folder in SOURCE_FOLDERS
        for path in files_under(ROOT / folder)
    }
    return folders | set(SOURCE_FILES)


def wheel_problems(names: Iterable[str]) -> list[str]:
    """What is missing from the wheel or does not belong in it."""
    installed = {name for name in names if ".dist-info/" not in name}
    expected = expected_in_wheel() | {"pagedaemon/py.typed"}
    problems = [f"the wheel lacks {name}" for name in sorted(expected - installed)]
    problems += [f"the wheel should not hold {name}" for name in sorted(installed - expected)]
    if not any(name.startswith("pagedaemon/store/migrations/") for name in installed):
        problems.append("the wheel has no migrations")
    return problems


def source_problems(names: Iterable[str]) -> list[str]:
    """What is missing from the source archive, whose names begin with one top folder."""
    held = {name.partition("/")[2] for name in names}
    return [f"the source archive lacks {name}" for name in sorted(expected_in_source() - held)]


def main(folder: Path) -> int:
    """Check the one wheel and the one source archive in the folder; print what is wrong."""
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        problems = wheel_problems(archive.namelist())
    with tarfile.open(source) as tar:
        problems += source_problems(member.name for member in tar.getmembers() if member.isfile())
    print("\n".join(problems) or f"{wheel.name} and {source.name} hold what they must")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
