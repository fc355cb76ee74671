"""What a newcomer copies works as printed: the README's code blocks and every file in `examples/`.

Each runs in its own process and an empty folder, without keys and with the network refused. A block
marked `python` always runs, one marked `python test` is run by pytest, and `bash run` by the shell;
plain `bash` blocks (the install commands) are run by CI as a newcomer would, in a fresh copy of the
tree. A `text trace` is what the quickstart really prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
RUN_OFFLINE = Path(__file__).with_name("run_offline.py")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SECONDS = 120
NOWHERE = "http://127.0.0.1:9"
"""The discard port: what a shell command sends there through a proxy variable is refused."""

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"_API_KEY$|_BASE_URL$|_PROXY$", re.IGNORECASE)


class CodeBlock(NamedTuple):
    """A fenced block and where it stands."""

    line: int
    info: str
    code: str


def code_blocks(markdown: str) -> list[CodeBlock]:
    """The fenced blocks of a page, in order; `line` is that of the opening fence."""
    return [
        CodeBlock(markdown.count("\n", 0, match.start()) + 1, match["info"].strip(), match["code"])
        for match in _FENCE.finditer(markdown)
    ]


README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = code_blocks(README)
RUNNABLE = [block for block in BLOCKS if block.info in ("python", "python test", "bash run")]
TRACES = [block for block in BLOCKS if block.info == "text trace"]
PYTEST = """
import sys
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "test_block.py"]))
"""


def newcomers_environment() -> dict[str, str]:
    """This process's environment without keys and endpoints, and with the package importable."""
    environment = {name: value for name, value in os.environ.items() if not _KEY.search(name)}
    scripts = Path(sys.executable).parent
    environment["PATH"] = os.pathsep.join([str(scripts), environment.get("PATH", os.defpath)])
    environment["PYTHONPATH"] = str(ROOT / "runtime")
    return environment


def run_python(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The script in that folder, with the network refused."""
    return subprocess.run(
        [sys.executable, str(RUN_OFFLINE), str(script)],
        cwd=folder,
        env=newcomers_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def run_block(block: CodeBlock, folder: Path) -> subprocess.CompletedProcess[str]:
    """A block of the README in that folder."""
    if block.info in ("python", "python test"):
        script = folder / "block.py"
        is_test = block.info == "python test"
        script.write_text(PYTEST if is_test else block.code, encoding="utf-8")
        if is_test:
            (folder / "test_block.py").write_text(block.code, encoding="utf-8")
        return run_python(script, folder)
    offline = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=folder,
        env={**newcomers_environment(), **offline},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("block", RUNNABLE, ids=lambda block: f"line {block.line}")
def test_a_code_block_of_the_readme_runs(block: CodeBlock, tmp_path: Path) -> None:
    done = run_block(block, tmp_path)
    assert done.returncode == 0, f"README.md:{block.line}\n{done.stdout}\n{done.stderr}"


def test_the_code_blocks_of_the_readme_also_run_one_after_another_in_one_folder(
    tmp_path: Path,
) -> None:
    for block in RUNNABLE:
        done = run_block(block, tmp_path)
        assert done.returncode == 0, f"README.md:{block.line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_without_key_or_network(script: Path, tmp_path: Path) -> None:
    done = run_python(script, tmp_path)
    assert done.returncode == 0, f"{script.name}\n{done.stdout}\n{done.stderr}"
    assert done.stdout.strip(), f"{script.name} shows nothing"


def unnumbered(text: str) -> list[str]:
    """The lines that are not blank, with every number and its thousands left out: counts change
    whenever a prompt does."""
    return [re.sub(r"\d[\d,]*", "N", line) for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the quickstart prints."""
    done = run_python(EXAMPLES[0], tmp_path_factory.mktemp("quickstart"))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quickstart_does_what_it_is_there_to_show(quickstart: str) -> None:
    learns, fills, finds, shares, reopened = re.split(r"^\d\. ", quickstart, flags=re.MULTILINE)[1:]
    assert "core_memory_replace(label='human'" in learns
    assert "heartbeat | requested" in learns
    assert "archival_memory_insert(" in fills
    assert "page_out(" in fills
    assert re.search(r"page-out \| \d+ messages leave the window", fills)
    assert "conversation_search(query='spare key'" in finds
    assert "The spare key is with Mrs. Moreira" in finds
    assert "bob | In my core memory I have: We ship on Thursdays." in shares
    assert "Name: Lin" in reopened


def test_the_quickstart_searches_for_what_is_not_in_its_window_any_more(quickstart: str) -> None:
    told, paged_out = quickstart.find("The spare key is with"), quickstart.find("page-out |")
    asked = quickstart.find("Where is the spare key?")
    assert 0 < told < paged_out < asked


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: f"line {trace.line}")
def test_a_trace_in_the_readme_is_what_the_quickstart_prints(
    trace: CodeBlock, quickstart: str
) -> None:
    printed = iter(unnumbered(quickstart))
    # Lines in between may be left out; order and words may not be changed.
    for line in unnumbered(trace.code):
        assert line in printed, f"README.md:{trace.line} shows what is not printed there: {line}"


def test_a_trace_in_the_readme_is_checked() -> None:
    assert TRACES


def test_examples_are_numbered_without_gap_and_say_what_they_teach() -> None:
    assert EXAMPLES, "there are no examples"
    numbers = [script.name.partition("_")[0] for script in EXAMPLES]
    assert numbers == [f"{number:02d}" for number in range(1, len(EXAMPLES) + 1)]
    for script in EXAMPLES:
        assert script.read_text(encoding="utf-8").startswith('"""'), (
            f"{script.name} has no docstring"
        )


def test_the_readme_lists_every_example_in_order() -> None:
    listed = re.findall(r"^\| \[\d\d [^]]+\]\(examples/([^)]+)\)", README, flags=re.MULTILINE)
    assert listed == [script.name for script in EXAMPLES]


def test_what_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", README)
    ours = [link for link in links if not link.startswith("https://")]
    assert ours
    headings = {
        "#" + heading.strip().lower().replace(" ", "-").replace(",", "")
        for heading in re.findall(r"^#+ (.+)$", README, flags=re.MULTILINE)
    }
    absent = [link for link in ours if link not in headings and not (ROOT / link).exists()]
    assert absent == []


def test_the_readme_gives_one_command_to_try_it_and_one_to_test_it() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python -m venv ")]
    assert len(commands) == 2
    to_try, to_test = commands
    script = re.search(r"examples/\S+\.py", to_try)
    assert script is not None
    assert (ROOT / script[0]).is_file(), f"{script[0]} does not exist"
    assert to_test.endswith("python -m pytest")
    assert "[dev]" in to_test


def test_blocks_are_found_with_their_line_and_kind() -> None:
    page = "# Title\n\n```python\nprint(1)\n```\ntext ```inline```\n\n```bash run\nls\n```\n"
    assert code_blocks(page) == [
        CodeBlock(3, "python", "print(1)\n"),
        CodeBlock(8, "bash run", "ls\n"),
    ]


def test_a_failing_block_is_seen(tmp_path: Path) -> None:
    assert run_block(CodeBlock(1, "python", "raise SystemExit(3)\n"), tmp_path).returncode == 3
    assert run_block(CodeBlock(1, "bash run", "false | true\n"), tmp_path).returncode != 0


def test_a_block_without_tests_does_not_pass_as_one(tmp_path: Path) -> None:
    passing = "def test_it():\n    assert True\n"
    assert run_block(CodeBlock(1, "python test", passing), tmp_path).returncode == 0
    assert run_block(CodeBlock(1, "python test", "x = 1\n"), tmp_path).returncode != 0
    failing = passing.replace("True", "False")
    assert run_block(CodeBlock(1, "python test", failing), tmp_path).returncode != 0


def test_a_block_that_reaches_for_the_network_fails_even_if_it_hides_it(tmp_path: Path) -> None:
    code = (
        "import socket\n"
        "try:\n"
        "    socket.create_connection(('192.0.2.1', 443), timeout=1)\n"
        "except BaseException:\n"
        "    raise SystemExit(0) from None\n"
    )
    done = run_block(CodeBlock(1, "python", code), tmp_path)
    assert done.returncode != 0
    assert "192.0.2.1" in done.stderr


def test_keys_and_endpoints_do_not_reach_what_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://192.0.2.1")
    done = run_block(CodeBlock(1, "python", "import os\nprint(sorted(os.environ))\n"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "OPENAI" not in done.stdout
