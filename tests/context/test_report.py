"""`agent.context()`: the request by section, for people."""

from __future__ import annotations

from pathlib import Path

from pagedaemon import AsyncRuntime, Block, Model
from pagedaemon.config import Required
from pagedaemon.testing import ScriptedModel, call, say


async def test_the_sections_add_up_to_the_request_and_are_what_the_model_was_sent(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(
        [
            say("Hello."),
            call("page_out", through=2, note="We said hello.", heartbeat=True),
            say("There is room."),
            say("Yes."),
        ],
        usage=None,
    )
    async with AsyncRuntime(
        tmp_path,
        model=Model("script", context_window=32_000, max_output_tokens=2_000),
        models={"script": model},
    ) as runtime:
        agent = await runtime.agents.ensure(
            "ada", blocks=[Block.human("Name: Lin")], rules=(Required(tool="page_out"),)
        )
        empty = await agent.context()
        await agent.update(rules=())
        await agent.send("Hello.")
        await agent.send("Make room.")
        report = await agent.context()
        await agent.send("Still there?")
    assert [part.name for part in empty.parts] == ["instructions", "rules", "core memory", "tools"]
    names = [part.name for part in report.parts]
    assert names == ["instructions", "core memory", "tools", "summary", "queue"]
    by_name = {part.name: part for part in report.parts}
    assert "Name: Lin" in by_name["core memory"].text
    assert "We said hello." in by_name["summary"].text
    assert "Make room." in by_name["queue"].text
    assert report.window == 32_000
    assert report.budget == 30_000
    # Joints and what stands around a message belong to no section.
    assert abs(sum(part.tokens for part in report.parts) - report.tokens) <= 20
    assert all(part.tokens > 0 for part in report.parts)
    # It is what the next step was asked, up to the new message.
    assert model.requests[-1].messages[: len(report.messages)] == report.messages
    assert model.requests[-1].tools == report.tools


async def test_a_look_at_the_context_changes_nothing(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello.")])
    async with AsyncRuntime(tmp_path, model="script", models={"script": model}) as runtime:
        agent = await runtime.agents.ensure("ada")
        await agent.send("Hello.")
        first = await agent.context()
        assert await agent.context() == first
        assert len(model.requests) == 1
