"""Pictures that providers refuse, each with the rule it breaks."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pagedaemon.errors import InvalidInput
from pagedaemon.pixels import size_of
from pagedaemon.testing import (
    IllegalRequest,
    check_anthropic,
    check_gemini,
    check_openai,
    check_request,
    png,
)

CHECKS = {"openai": check_openai, "anthropic": check_anthropic, "gemini": check_gemini}
DATA = base64.b64encode(png()).decode()
GOOD = f"data:image/png;base64,{DATA}"
GIF = f"data:image/gif;base64,{base64.b64encode(b'GIF89a' + bytes(12)).decode()}"


def shown(url: Any, role: str = "user", **more: Any) -> list[dict[str, Any]]:
    part = {"type": "image_url", "image_url": {"url": url, **more}}
    return [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello"},
        {"role": role, "content": [{"type": "text", "text": "Look"}, part]},
        *([{"role": "user", "content": "And?"}] if role != "user" else []),
    ]


@pytest.mark.parametrize("url", [GOOD, "https://example.org/a.png", "http://example.org/a"])
def test_a_well_formed_picture_is_accepted_by_all(url: str) -> None:
    check_request(shown(url))
    check_request(shown(url, detail="low"))


@pytest.mark.parametrize("provider", CHECKS)
@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("data:image/png;base64,", "image_url"),
        ("data:image/png;base64,abc", "image_url"),
        ("data:image/png;base64,ab c", "image_url"),
        (f"data:image/png,{DATA}", "image_url"),
        ("file:///a.png", "image_url"),
        (f"data:image/bmp;base64,{DATA}", "image_type"),
        (f"data:image/jpeg;base64,{DATA}", "image_type"),
        (7, "image_shape"),
    ],
)
def test_a_broken_picture_is_refused_by_all(url: Any, rule: str, provider: str) -> None:
    with pytest.raises(IllegalRequest) as refusal:
        CHECKS[provider](shown(url))
    assert refusal.value.rule == f"{provider}.{rule}"


def test_only_one_provider_refuses_gif() -> None:
    check_openai(shown(GIF))
    check_anthropic(shown(GIF))
    with pytest.raises(IllegalRequest, match=r"gemini\.image_type"):
        check_gemini(shown(GIF))


def test_an_unknown_detail_is_refused() -> None:
    with pytest.raises(IllegalRequest, match=r"openai\.image_shape"):
        check_openai(shown(GOOD, detail="fine"))


@pytest.mark.parametrize(
    ("provider", "rule"),
    [("openai", "content"), ("anthropic", "image_role"), ("gemini", "image_role")],
)
def test_only_a_user_shows_pictures(provider: str, rule: str) -> None:
    with pytest.raises(IllegalRequest) as refusal:
        CHECKS[provider](shown(GOOD, "assistant"))
    assert refusal.value.rule == f"{provider}.{rule}"


def test_a_made_picture_is_one() -> None:
    assert size_of(png(3, 2, 255)) == (3, 2)
    for wrong in ((0, 1, 0), (1, 0, 0), (1, 1, 256)):
        with pytest.raises(InvalidInput):
            png(*wrong)
