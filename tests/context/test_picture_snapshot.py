"""What a model is sent of a message with a picture and a file, to the letter.

After a change that is meant, `PAGEDAEMON_REWRITE_SNAPSHOTS=1 python -m pytest tests/context` writes
the file under `snapshots/` anew; read the difference before you keep it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pagedaemon import AsyncRuntime, File, Image, Model
from pagedaemon.testing import FakeClock, ScriptedModel, say

SNAPSHOT = Path(__file__).with_name("snapshots") / "pictures.json"
DOT = (
    "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"  # 1 x 1 pixel
)


async def test_a_message_with_a_picture_and_a_file_is_sent_as_it_was(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: say("I see."), strict=("openai", "anthropic"))
    async with AsyncRuntime(
        tmp_path, model="script", models={"script": model}, clock=FakeClock()
    ) as runtime:
        ada = await runtime.agents.create("ada")
        await ada.send(
            [
                "Compare",
                Image.from_data_url(DOT, name="dot"),
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                "with the list.",
                File.from_bytes(b"1. a dot\n", "list.txt"),
            ]
        )
        await ada.update(model=Model("script", vision=False))
        await ada.send("And blind?")
    seen, blind = (list(request.messages[1:2]) for request in model.requests)
    shown = json.dumps({"seen": seen, "blind": blind}, ensure_ascii=False, indent=1) + "\n"
    if os.environ.get("PAGEDAEMON_REWRITE_SNAPSHOTS"):
        SNAPSHOT.write_text(shown, encoding="utf-8")
    assert shown == SNAPSHOT.read_text(encoding="utf-8")
