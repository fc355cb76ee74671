"""The process in which Chroma lives, spoken to through its standard streams.

Chroma can take down the process that opens a damaged folder, and holds the interpreter for as long
as it writes. Here neither reaches the user's program. It gets numbers and vectors and never a text,
so it needs no embedding function, and it ends when its input does.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from pagedaemon.store.index.frames import read_frame, write_frame
from pagedaemon.store.index.generations import Busy, Generations, Place

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateCollectionConfiguration
    from chromadb.api.models.Collection import Collection

# Searching wide enough for 0.98 of the exact result and more; measured with random vectors, which
# are the hardest: 0.99 among 10,000 of 384 dimensions. Chroma's defaults give 0.52 to 0.80.
_HNSW = {"space": "cosine", "ef_search": 1000, "ef_construction": 100, "max_neighbors": 16}


class Folder:
    """Chroma in a folder of our own."""

    def __init__(self, root: Path, made_of: dict[str, Any]) -> None:
        import chromadb

        self._generations = Generations(root, {**made_of, "chroma": chromadb.__version__, **_HNSW})
        self._client: Client | None = None
        self.place = Place()
        self.collection: Collection
        place = self._generations.take()
        if place is None:
            self.renew()
        else:
            self.place = place
            self.collection = self._connect().get_collection("vectors", embedding_function=None)

    @property
    def folder(self) -> str | None:
        """Where the index is on the disk."""
        return str(self._generations.folder)

    def renew(self) -> None:
        """Begins again with nothing."""
        self._disconnect()
        self._generations.begin()
        self.place = Place()
        self.collection = self._connect().create_collection(
            "vectors", embedding_function=None, configuration=_configuration()
        )

    def at(self, place: Place) -> None:
        """Notes how far the index has come. It is written when it is closed."""
        self.place = place

    def close(self) -> None:
        """Lets go of the files and marks them as whole."""
        self._disconnect()
        self._generations.leave(self.place)

    def _connect(self) -> Client:
        import chromadb

        client = chromadb.PersistentClient(self._generations.folder, settings=_settings())
        self._client = cast("Client", client)
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class Server:
    """A collection of a Chroma server, which may serve several processes: an id is never given to
    another vector, so that what two of them do twice changes nothing."""

    folder: str | None = None

    def __init__(self, url: str, name: str, made_of: dict[str, Any]) -> None:
        from urllib.parse import urlsplit

        import chromadb

        parts = urlsplit(url)
        secure = parts.scheme == "https"
        client = chromadb.HttpClient(
            host=parts.hostname or "localhost",
            port=parts.port or (443 if secure else 8000),
            ssl=secure,
            settings=_settings(),
        )
        self._client = cast("Client", client)
        self._name = f"pagedaemon-{name}"
        self._made_of = made_of
        self.collection: Collection = self._get()
        known = self.collection.metadata or {}
        self.place = Place(int(known.get("added", 0)), int(known.get("removed", 0)))
        if any(known.get(key) != value for key, value in made_of.items()):
            self.renew()

    def renew(self) -> None:
        """Begins again with nothing."""
        self._client.delete_collection(self._name)
        self.place = Place()
        self.collection = self._get()

    def at(self, place: Place) -> None:
        """Notes how far the index has come, beside it."""
        self.place = place
        self.collection.modify(
            metadata={**self._made_of, "added": place.added, "removed": place.removed}
        )

    def close(self) -> None:
        """Lets go of the connection."""
        self._client.close()

    def _get(self) -> Collection:
        return self._client.get_or_create_collection(
            self._name,
            embedding_function=None,
            configuration=_configuration(),
            metadata={**self._made_of, "added": 0, "removed": 0},
        )


def _settings() -> Any:
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def _configuration() -> CreateCollectionConfiguration:
    return cast("CreateCollectionConfiguration", {"hnsw": _HNSW})


Holding = Folder | Server


def _opened(header: dict[str, Any]) -> Holding:
    made_of = {"model": header["model"], "dimension": header["dimension"]}
    if header["url"] is not None:
        return Server(header["url"], header["name"], made_of)
    return Folder(Path(header["folder"]), made_of)


def _state(holding: Holding) -> dict[str, Any]:
    return {
        "added": holding.place.added,
        "removed": holding.place.removed,
        "count": holding.collection.count(),
        "folder": holding.folder,
    }


def _answer(holding: Holding, header: dict[str, Any], body: bytes) -> dict[str, Any]:
    import numpy as np

    match header["op"]:
        case "add":
            ids = header["ids"]
            if ids:
                rows = np.frombuffer(body, "<f4").reshape(len(ids), -1)
                holding.collection.add(ids=ids, embeddings=rows)
            holding.at(Place(header["upto"], holding.place.removed))
        case "remove":
            if header["ids"]:
                holding.collection.delete(ids=header["ids"])
            holding.at(Place(holding.place.added, header["upto"]))
        case "query":
            query = np.frombuffer(body, "<f4")
            found = holding.collection.query(
                query_embeddings=[query], n_results=header["k"], include=[]
            )
            ids = found["ids"][0]
            # Fewer than were asked for: all there are, or something is wrong.
            short = len(ids) < header["k"]
            return {"ids": ids, "count": holding.collection.count() if short else None}
        case "renew":
            holding.renew()
            return _state(holding)
        case other:
            raise ValueError(f"no such request: {other}")
    return {}


def serve(source: IO[bytes], target: IO[bytes]) -> None:
    """Answers until the input ends or a request fails, then closes. After a failure nothing is
    marked as whole."""
    holding: Holding | None = None
    while (frame := read_frame(source)) is not None and frame[0]["op"] != "close":
        try:
            if holding is None:
                holding = _opened(frame[0])
                answer = _state(holding)
            else:
                answer = _answer(holding, *frame)
        except Busy as error:
            write_frame(target, {"error": str(error), "busy": True})
            return
        # Whatever Chroma raises, a Rust panic included, has one meaning: this index is done for.
        except BaseException as error:  # noqa: BLE001
            write_frame(target, {"error": f"{type(error).__name__}: {error}", "busy": False})
            return
        write_frame(target, answer)
    if holding is not None:
        holding.close()
    if frame is not None:
        write_frame(target, {})


def main() -> None:
    """Serves whoever started this process. Standard output is theirs alone: what libraries print
    goes to standard error."""
    # Ctrl-C reaches the whole group; the end of our input is what ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    serve(sys.stdin.buffer, target)


if __name__ == "__main__":
    main()
