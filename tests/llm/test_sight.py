"""Which models take pictures, before they are asked."""

from __future__ import annotations

import pytest

from pagedaemon.config import Model
from pagedaemon.llm.sight import sees

LOCAL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("model", "seeing"),
    [
        (Model("openai/gpt-5-mini"), True),
        (Model("openai/gpt-3.5-turbo"), False),
        (Model("anthropic/claude-sonnet-4-5"), True),
        (Model("litellm/anthropic/claude-sonnet-4-5"), True),
        (Model("deepseek/deepseek-chat"), False),
        (Model("openai/of-next-year"), True),
        (Model("mine"), True),
        (Model("offline"), False),
        # Behind an endpoint of one's own a name says nothing.
        (Model("openai/gpt-5-mini", base_url=LOCAL), False),
        (Model("ollama/qwen", base_url=LOCAL), False),
        (Model("anthropic/claude-sonnet-4-5", base_url=LOCAL), True),
        (Model("openai/llava", base_url=LOCAL, vision=True), True),
        (Model("openai/gpt-5-mini", vision=False), False),
    ],
    ids=str,
)
def test_what_is_said_goes_before_the_list_and_the_list_before_the_default(
    model: Model, seeing: bool
) -> None:
    assert sees(model) is seeing
