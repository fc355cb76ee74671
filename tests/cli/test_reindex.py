"""`pagedaemon reindex`."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

from pagedaemon import Runtime

Run = Callable[..., Result]

APPS = """
plain = lambda: Runtime("elsewhere", model="offline", embedder=None)

class Lost(FakeEmbedder):
    async def embed(self, texts, *, purpose):
        raise EmbeddingError("the endpoint is gone", kind="unavailable")

def lost():
    runtime = Runtime("elsewhere", model="offline", embedder=Lost())
    runtime.agents.ensure("ada").archive.insert("green tea")
    return runtime

def sound():
    runtime = Runtime("elsewhere", model="offline", embedder=FakeEmbedder())
    runtime.agents.ensure("ada").archive.insert("green tea")
    return runtime
"""

IMPORTS = (
    "from pagedaemon.errors import EmbeddingError\nfrom pagedaemon.testing import FakeEmbedder"
)


def test_all_texts_are_embedded_anew_and_counted(run: Run, write_app: Callable[..., None]) -> None:
    write_app("embedded", f"{IMPORTS}\n{APPS}")
    shown = run("reindex", "--app", "embedded:sound")
    assert shown.exit_code == 0
    assert shown.stdout == "1 text embedded with fake.\n"
    assert "1 of 1 texts embedded" in shown.stderr


def test_without_an_embedder_there_is_nothing_to_do(
    run: Run, write_app: Callable[..., None]
) -> None:
    write_app("plainly", f"{IMPORTS}\n{APPS}")
    shown = run("reindex", "--app", "plainly:plain")
    assert shown.exit_code == 0
    assert "There is no embedder here" in shown.stdout


def test_an_embedder_that_fails_is_one_line_and_exit_code_one(
    run: Run, write_app: Callable[..., None]
) -> None:
    write_app("losing", f"{IMPORTS}\n{APPS}")
    shown = run("reindex", "--app", "losing:lost")
    assert shown.exit_code == 1
    assert "the endpoint is gone" in shown.stderr
    assert "Traceback" not in shown.output


def test_a_store_that_is_not_there_is_not_made(run: Run) -> None:
    shown = run("reindex", "--store", "nowhere")
    assert shown.exit_code == 1
    assert "nowhere" in shown.stderr


def test_the_store_is_that_of_the_option(run: Run) -> None:
    with Runtime("mine", model="offline", embedder=None) as runtime:
        runtime.agents.ensure("ada")
    shown = run("reindex", "--store", "mine")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("0 texts embedded with ")
