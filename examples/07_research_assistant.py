"""A research assistant over your documents: load, ask, load again; and an older history."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pagedaemon import Block, Runtime
from pagedaemon.testing import ScriptedModel, call, say

NOTES = """
# Harbour survey

## Depth

The inner harbour is 9 metres deep. At the old pier the depth falls to 4 metres.

## Tides

Spring tides rise 5 metres. The tide gauge stands on the old pier.
"""
PAGE = """
<html><title>Port rules</title><script>track()</script>
<h1>Mooring</h1><p>Ships over 40&nbsp;m moor at the <a href="/quay">north quay</a>.</p></html>
"""
OLD_TALK = [
    '{"role": "user", "author": "Lin", "content": "Is the old pier still in use?", '
    '"created_at": "2023-05-01T09:00:00+01:00"}',
    '{"role": "assistant", "content": "Only by small boats.", "time": 1682928060}',
]

# The model is scripted, so that this runs offline. Any model that can call tools does this itself.
model = ScriptedModel(
    [
        call("archival_memory_search", query="depth old pier", heartbeat=True),
        call("conversation_search", query="old pier in use", heartbeat=True),
        say("4 metres at the old pier (survey, Depth). In 2023 only small boats used it."),
        call("archival_memory_search", query="depth old pier", heartbeat=True),
        say("6 metres now, says the survey."),
    ]
)

with (
    tempfile.TemporaryDirectory() as folder,
    Runtime(Path(folder) / "memory", model="scripted", models={"scripted": model}) as runtime,
):
    survey, page = Path(folder) / "survey.md", Path(folder) / "rules.html"
    survey.write_text(NOTES, encoding="utf-8")
    page.write_text(PAGE, encoding="utf-8")

    ada = runtime.agents.ensure("ada", blocks=[Block.human("Name: Lin")])

    # Cut at headings, paragraphs and sentences. Small here, so that there is something to see.
    print(ada.archive.load(survey, tags=["survey"], chunk_chars=150))
    print(ada.archive.load(page))
    for passage in ada.archive.search("depth").hits:
        print(f"\n{passage.source[1]}, {passage.position} ({passage.label}):\n{passage.text}")

    # What was said before there was an agent, with its own dates. Twice does no harm.
    print("\n", ada.recall.import_jsonl(OLD_TALK), sep="")
    print(ada.recall.import_jsonl(OLD_TALK))

    turn = ada.send("How deep is it at the old pier, and who uses it?")
    for step in turn.steps:
        for made in step.calls:
            if made.tool != "send_message":
                print(f"\n{made.tool}: {made.result}")
    print("\nada:", turn.reply)

    # Loading again replaces: unchanged passages keep their ids, what is gone is removed.
    survey.write_text(NOTES.replace("4 metres", "6 metres"), encoding="utf-8")
    print("\n", ada.archive.load(survey, tags=["survey"], chunk_chars=150), sep="")
    print("ada:", ada.send("And now?").reply)

    for document in ada.archive.documents():
        print(f"{document.name}: {document.passages} passages")
    print(ada.archive.unload("rules.html"), "taken out")
