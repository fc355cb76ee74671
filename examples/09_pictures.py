"""Pictures and files: sent with words, kept with the message, found again when they have left."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pagedaemon import Block, File, Image, Model, Runtime
from pagedaemon.errors import ModelCannotSee
from pagedaemon.testing import ScriptedModel, png, say

# The model is scripted, so that this runs offline. Any model that takes pictures does as well, such
# as "openai/gpt-5-mini", or a local one: Model("openai/llava", base_url=..., vision=True).
model = ScriptedModel(
    [
        say("A grey rectangle: the wall of your boat house?"),
        say("Both are rectangles; the second one is wider."),
        say("Low water is at nine, so leave at eight."),
        say("You sent me a wall, and the picture under that link."),
    ]
)

with (
    tempfile.TemporaryDirectory() as folder,
    Runtime(folder, model="scripted", models={"scripted": model}) as runtime,
):
    ada = runtime.agents.ensure("ada", blocks=[Block.human("Name: Lin")])

    # From a file; Image.from_bytes and Image.from_data_url do the same for what is in memory.
    path = Path(folder) / "boat house.png"
    path.write_bytes(png(640, 480))
    print("ada:", ada.send(["What is this?", Image.from_path(path)]).reply)

    # In the shape that other clients send. A URL is passed on: the provider fetches it, not we.
    link = {"type": "image_url", "image_url": {"url": "https://example.org/pier.jpg"}}
    print("ada:", ada.send([{"type": "text", "text": "And beside this one?"}, link]).reply)

    # A text file becomes part of the message, and is kept as it was.
    tides = File.from_bytes(b"09:02 low\n15:20 high\n", "tides.txt")
    print("ada:", ada.send(["When do we sail?", tides]).reply)

    # Counted by their size in pixels, before anything is sent.
    print(f"\nwindow: {ada.context().tokens:,} tokens\n")

    # Out of the window a placeholder stands for a picture: words find it, and bring it back.
    ada.reset()
    hit = ada.recall.search("boat house", roles=["user"]).hits[0]
    print("recall:", hit.text.replace("\n", " / "))
    kept = hit.message.attachments[0]
    print(kept.name, kept.media_type, f"{kept.width}x{kept.height}", end=" ")
    print("unchanged:", ada.recall.attachment(kept.id) == path.read_bytes())

    # A model that takes none says so before anything is stored.
    ada.update(model=Model("offline"))
    try:
        ada.send(["And this?", Image.from_path(path)])
    except ModelCannotSee as error:
        print("\nrefused:", error)
