"""A look at a space: each damage is made on a real store, found, mended, found no more, and the
agent answers."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pagedaemon import AsyncRuntime, File, Image, InvalidInput, NotFound, Runtime, tool
from pagedaemon.errors import EmbeddingError
from pagedaemon.handles.checkup import examine
from pagedaemon.llm.protocol import Reply, Request
from pagedaemon.store.checkup import Finding, Kind, Report, State
from pagedaemon.store.checkup.findings import TREATMENTS
from pagedaemon.store.index.generations import folder_name
from pagedaemon.testing import FakeClock, FakeEmbedder, ScriptedModel, call, say, view
from pagedaemon.testing.pictures import png
from pagedaemon.tools.tool import Tool

SOURCE = Path(__file__).parents[2] / "runtime"
FUTURE = datetime(2999, 1, 1, tzinfo=UTC).isoformat(timespec="microseconds")


class Patient:
    """A store with an agent that has said and kept something, and what is done to it.

    Attributes:
        sent: how often its tool has mailed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "memory"
        self.path = self.folder / "spaces" / "default" / "space.db"
        self.index = self.path.parent / "index"
        self.clock = FakeClock()
        self.model = ScriptedModel(self._answer)
        self.embedder: FakeEmbedder | None = FakeEmbedder()
        self.sent: list[str] = []
        self.asked = asyncio.Event()
        self.slow = False
        """Whether the model never answers, and the tool never returns."""

    def tools(self) -> list[Tool]:
        """One that waits for a person, and one that must not run twice."""

        @tool(approval="always")
        def mail(to: str) -> str:
            """Sends a mail."""
            self.sent.append(to)
            return "sent"

        @tool
        async def charge(order: int) -> str:
            """Charges an order."""
            self.sent.append(f"order {order}")
            self.asked.set()
            if self.slow:
                await asyncio.sleep(60)
            return "charged"

        return [mail, charge]

    def opened(
        self, *, recover: bool = False, tools: bool = True, model: bool = True
    ) -> AsyncRuntime:
        """A runtime on the store."""
        return AsyncRuntime(
            self.folder,
            model="script" if model else None,
            models={"script": self.model},
            tools=self.tools() if tools else [],
            clock=self.clock,
            recover=recover,
            embedder=self.embedder,
            index="exact",
        )

    async def made(self) -> None:
        """The store, sound."""
        async with self.opened() as runtime:
            ada = await runtime.agents.create("ada", tools=self.tools())
            await ada.send("The pier is closed on Mondays.")
            await ada.send(["Look at this.", Image.from_bytes(png(4, 4))])
            await ada.send(["Read this.", File.from_bytes(b"The tide is high.", name="tide.txt")])
            await ada.archive.insert("Lin moved to Porto.", tags=["home"])
            await ada.archive.insert("Lin is allergic to peanuts.")
            await runtime.reindex()
        assert self.examined().findings == ()

    def sql(self, *statements: str) -> list[tuple[object, ...]]:
        """What somebody does to the file by hand; the rows of the last statement."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as raw:
            found: list[tuple[object, ...]] = []
            for statement in statements:
                found = raw.execute(statement).fetchall()
        return found

    async def died(self, *texts: str) -> None:
        """Leaves the store as a process does that dies in the turn of the first of these messages,
        while the others wait."""
        copy = self.folder.with_name("copy")
        self.slow = True
        async with self.opened() as runtime:
            ada = await runtime.agents.get("ada")
            turns = [await ada.send_later(text) for text in texts]
            await asyncio.wait_for(self.asked.wait(), 10)
            await asyncio.sleep(0.05)
            shutil.copytree(self.folder, copy)
            for turn in reversed(turns):
                await turn.stop()
        self.slow = False
        shutil.rmtree(self.folder)
        copy.rename(self.folder)
        for lock in (self.folder / "workers").iterdir():
            lock.unlink()

    def examined(self) -> Report:
        """A look from outside, after which every byte is what it was."""
        before = self.hashes()
        report = examine(self.folder, clock=self.clock)
        assert self.hashes() == before
        return report

    def hashes(self) -> dict[str, str]:
        """What each file holds."""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    async def _answer(self, request: Request) -> Reply:
        seen = view(request)
        if seen.last_user.startswith("charge") and "charge" not in seen.results:
            return call("charge", order=41, heartbeat=True)
        if seen.last_user == "mail" and "mail" not in seen.results:
            return call("mail", to="bob")
        if self.slow:
            self.asked.set()
            await asyncio.sleep(60)
        return say(f"heard: {seen.last_user.splitlines()[-1]}")


@pytest.fixture
async def patient(tmp_path: Path) -> Patient:
    """Sound."""
    patient = Patient(tmp_path)
    await patient.made()
    return patient


def found(report: Report) -> dict[Kind, list[Finding]]:
    """What is or was wrong, by its kind. That texts wait for vectors a moment is not."""
    kinds: dict[Kind, list[Finding]] = {}
    for finding in report.findings:
        if finding.kind != "vectors_pending":
            kinds.setdefault(finding.kind, []).append(finding)
    return kinds


def states(report: Report) -> dict[Kind, State]:
    """What has become of each kind."""
    return {finding.kind: finding.state for finding in report.findings}


async def cured(patient: Patient, *kinds: Kind) -> Report:
    """These are found without a byte written, mended, and found no more; then the agent answers.
    Returns the report of the mending."""
    seen = patient.examined()
    assert set(found(seen)) == set(kinds)
    assert {finding.state for finding in seen.findings} <= {"found", "noted"}
    assert not seen.sound
    async with patient.opened() as runtime:
        only_looked = await runtime.doctor(mend=False)
        assert set(found(only_looked)) == set(kinds)
        report = await runtime.doctor()
        assert {kind: states(report).get(kind) for kind in kinds} == dict.fromkeys(kinds, "mended")
        assert report.sound
        assert found(await runtime.doctor()) == {}
        ada = await runtime.agents.get("ada")
        assert (await ada.send("Are you there?")).reply == "heard: Are you there?"
    assert found(patient.examined()) == {}
    return report


# ------------------------------------------------------------------ turns and what belongs to them


async def test_a_turn_left_open_is_taken_up_and_those_that_waited_are_answered(
    patient: Patient,
) -> None:
    await patient.died("One", "Two", "Three")
    seen = found(patient.examined())
    assert seen["turn_open"][0].what == ("a turn that no process works on, begun 1 of 3 times")
    assert len(seen["turn_queued"][0].where) == 2
    await cured(patient, "turn_open", "turn_queued")
    replies = patient.sql("SELECT text FROM messages WHERE kind = 'message' ORDER BY seq")
    assert [row[0] for row in replies][-4:] == ["One", "Two", "Three", "Are you there?"]
    assert patient.sql("SELECT DISTINCT status, stop_reason FROM turns") == [("done", "end_turn")]


async def test_a_turn_that_nobody_owns_is_run(patient: Patient) -> None:
    async with patient.opened() as runtime:
        ada = await runtime.agents.get("ada")
        patient.slow = True
        await ada.send_later("One")
        await asyncio.wait_for(patient.asked.wait(), 10)
    patient.slow = False
    patient.sql("UPDATE turns SET owner = NULL WHERE status = 'running'")
    await cured(patient, "turn_open")


async def test_a_turn_cut_off_in_a_call_says_so_and_leaves_an_outcome_to_the_owner(
    patient: Patient,
) -> None:
    await patient.died("charge 41")
    (turn,) = found(patient.examined())["turn_open"]
    assert turn.what.endswith("begun 1 of 6 times, cut off in charge")
    async with patient.opened() as runtime:
        report = await runtime.doctor()
        assert states(report) == {"outcome_unknown": "left", "turn_open": "mended"}
        assert not report.sound
        assert patient.sent == ["order 41"]
        (outcome,) = await runtime.outcomes.list()
        (finding,) = found(report)["outcome_unknown"]
        assert finding.where == (outcome.id,)
        assert "settle" in finding.advice
        assert states(await runtime.doctor()) == {"outcome_unknown": "left"}
        await (await outcome.settle(True)).wait()
        assert found(await runtime.doctor()) == {}
        assert (await (await runtime.agents.get("ada")).send("So?")).reply == "heard: So?"


async def test_a_call_whose_turn_ended_over_it_is_an_unknown_outcome_too(patient: Patient) -> None:
    await patient.died("charge 41")
    patient.sql("UPDATE turns SET status = 'done', stop_reason = 'error', ended_at = created_at")
    (finding,) = found(patient.examined())["outcome_unknown"]
    async with patient.opened() as runtime:
        (outcome,) = await runtime.outcomes.list()
        assert finding.where == (outcome.id,)
        assert outcome.told is None


async def test_a_turn_begun_too_often_is_ended_and_says_why(patient: Patient) -> None:
    await patient.died("One")
    patient.sql("UPDATE turns SET attempts = 3 WHERE status = 'running'")
    assert found(patient.examined())["turn_open"][0].what.endswith("begun 3 of 3 times")
    await cured(patient, "turn_open")
    ((reason, error),) = patient.sql(
        "SELECT stop_reason, error FROM turns WHERE stop_reason != 'end_turn'"
    )
    assert reason == "interrupted"
    assert str(error).startswith("begun 3 times")


@pytest.mark.parametrize("missing", ["tools", "model"])
async def test_a_turn_that_needs_what_is_not_here_is_left_as_it_is(
    patient: Patient, missing: str
) -> None:
    await patient.died("One")
    async with patient.opened(tools=missing != "tools", model=missing != "model") as runtime:
        report = await runtime.doctor()
        assert states(report) == {"turn_open": "left"}
        (finding,) = report.findings
        assert ("needs the code of its tools (mail, charge)" in finding.advice) == (
            missing == "tools"
        )
    assert patient.sql("SELECT attempts FROM turns WHERE status = 'running'") == [(1,)]
    await cured(patient, "turn_open")


async def test_a_timer_of_an_agent_whose_tools_are_not_here_waits_for_who_has_them(
    patient: Patient,
) -> None:
    async with patient.opened() as runtime:
        ada = await runtime.agents.get("ada")
        await ada.schedule("Water the plants.", at=patient.clock.now() + timedelta(hours=1))
    patient.clock.advance(7200)
    async with patient.opened(tools=False) as runtime:
        assert states(await runtime.doctor()) == {"timer_overdue": "left"}
    await cured(patient, "timer_overdue")


async def test_a_timer_that_has_not_rung_rings(patient: Patient) -> None:
    async with patient.opened() as runtime:
        ada = await runtime.agents.get("ada")
        await ada.schedule("Water the plants.", at=patient.clock.now() + timedelta(hours=1))
    assert patient.examined().findings == ()
    patient.clock.advance(7200)
    await cured(patient, "timer_overdue")
    assert patient.sql("SELECT count(*) FROM turns WHERE event = 'timer'") == [(1,)]


async def test_a_timer_that_is_held_is_sound(patient: Patient) -> None:
    async with patient.opened() as runtime:
        ada = await runtime.agents.get("ada")
        await ada.schedule("Water the plants.", at=patient.clock.now() + timedelta(hours=1))
        await ada.pause_heartbeats()
    patient.clock.advance(7200)
    assert patient.examined().findings == ()


async def test_an_approval_whose_time_is_over_expires_and_its_agent_is_told(
    patient: Patient,
) -> None:
    async with patient.opened() as runtime:
        await (await runtime.agents.get("ada")).send("mail")
    assert found(patient.examined()) == {}
    patient.clock.advance(7 * 86_400)
    await cured(patient, "approval_overdue")
    assert patient.sql("SELECT status FROM approvals") == [("expired",)]
    assert patient.sql("SELECT status FROM turns WHERE event = 'approval'") == [("done",)]
    assert patient.sent == []


async def test_a_lease_of_a_process_that_is_gone_goes_back(patient: Patient) -> None:
    patient.sql(f"UPDATE conversations SET lease_owner = 'gone', lease_until = '{FUTURE}'")
    await cured(patient, "lease_left")


async def test_the_lock_file_of_a_process_that_died_is_removed(patient: Patient) -> None:
    (patient.folder / "workers").mkdir(exist_ok=True)
    (patient.folder / "workers" / "gone.lock").touch()
    await cured(patient, "worker_gone")
    assert not (patient.folder / "workers" / "gone.lock").exists()


# ------------------------------------------------------------------ texts and vectors


async def test_texts_that_no_search_finds_are_made_searchable(patient: Patient) -> None:
    patient.sql("DELETE FROM message_words WHERE seq > 1", "DELETE FROM passage_words")
    seen = found(patient.examined())["text_not_indexed"]
    assert sum(len(finding.where) for finding in seen) >= 5
    await cured(patient, "text_not_indexed")
    patient.embedder = None
    async with patient.opened() as runtime:
        ada = await runtime.agents.get("ada")
        assert (await ada.archive.search("peanuts")).total == 1
        assert (await ada.archive.search("home")).total == 1
        assert (await ada.recall.search("tide")).total >= 1


async def test_what_is_not_to_be_searched_is_not_missed(patient: Patient) -> None:
    async with patient.opened() as runtime:
        ada = await runtime.agents.get("ada")
        patient.model = ScriptedModel([])
        await ada.update(model="offline")
        await ada.send("Where is the spare key?")
        await ada.heartbeat()
    assert patient.sql("SELECT count(*) FROM messages WHERE data LIKE '%builtin%'") != [(0,)]
    assert found(patient.examined()) == {}


async def test_words_whose_text_is_gone_are_removed(patient: Patient) -> None:
    patient.sql("DELETE FROM passages WHERE text LIKE '%peanuts%'")
    assert set(found(patient.examined())) == {"reference_broken", "vector_orphan"}
    await cured(patient, "reference_broken", "vector_orphan")
    assert patient.sql("SELECT count(*) FROM passage_words") == [(1,)]
    assert patient.sql("SELECT count(*) FROM embeddings WHERE owner_kind = 'passage'") == [(1,)]


@pytest.mark.parametrize("index", ["messages_fts", "passages_fts"])
async def test_an_index_of_words_that_lacks_rows_is_made_anew(patient: Patient, index: str) -> None:
    patient.sql(f"DELETE FROM {index}_docsize WHERE id = 1")
    (finding,) = found(patient.examined())["word_index_damaged"]
    assert finding.where == (index,)
    await cured(patient, "word_index_damaged")


async def test_an_index_that_has_other_words_is_seen_by_who_may_write(patient: Patient) -> None:
    patient.sql(
        "INSERT INTO passages_fts (passages_fts, rowid, text) VALUES ('delete', 1, 'something')",
        "INSERT INTO passages_fts (rowid, text) VALUES (1, 'else')",
    )
    async with patient.opened() as runtime:
        assert states(await runtime.doctor(mend=False)) == {"word_index_damaged": "found"}
        assert states(await runtime.doctor()) == {"word_index_damaged": "mended"}
        assert (await runtime.doctor()).findings == ()
        ada = await runtime.agents.get("ada")
        assert (await ada.archive.search("Porto")).total >= 1
        assert (await ada.send("Hello")).reply == "heard: Hello"


async def test_a_vector_that_is_none_is_made_anew(patient: Patient) -> None:
    before = patient.sql("SELECT count(*) FROM embeddings")
    patient.sql("UPDATE embeddings SET vector = x'00' WHERE owner_kind = 'passage'")
    await cured(patient, "vector_damaged")
    assert patient.sql("SELECT count(*) FROM embeddings WHERE length(vector) < 4") == [(0,)]
    assert patient.sql("SELECT count(*) FROM embeddings") >= before


async def test_texts_that_failed_are_embedded_and_why_they_did_is_told(patient: Patient) -> None:
    patient.sql(
        "INSERT INTO outbox (space, kind, owner_kind, owner_id, attempts, error, created_at) "
        "SELECT space, 'embed', 'passage', id, 8, 'refused', created_at FROM passages"
    )
    (finding,) = found(patient.examined())["vectors_failed"]
    assert finding.what == "it could not be embedded: refused"
    await cured(patient, "vectors_failed")
    assert patient.sql("SELECT count(*) FROM outbox WHERE attempts > 0") == [(0,)]


async def test_texts_that_the_embedder_refuses_are_left(patient: Patient) -> None:
    class Refusing(FakeEmbedder):
        async def embed(self, texts: object, *, purpose: object) -> object:  # type: ignore[override]
            raise EmbeddingError("too long", kind="refused")

    patient.sql(
        "INSERT INTO outbox (space, kind, owner_kind, owner_id, attempts, created_at) "
        "SELECT space, 'embed', 'passage', id, 1, created_at FROM passages"
    )
    patient.embedder = Refusing()
    async with patient.opened() as runtime:
        report = await runtime.doctor()
    (finding,) = found(report)["vectors_failed"]
    assert (finding.state, finding.what) == ("left", "it could not be embedded: too long")
    assert not report.sound


async def test_texts_that_wait_for_vectors_are_sound_and_are_embedded(patient: Patient) -> None:
    patient.sql(
        "INSERT INTO outbox (space, kind, owner_kind, owner_id, attempts, created_at) "
        "SELECT space, 'embed', 'passage', id, 0, created_at FROM passages"
    )
    seen = patient.examined()
    assert states(seen) == {"vectors_pending": "noted"}
    assert seen.sound
    async with patient.opened() as runtime:
        assert states(await runtime.doctor()) == {"vectors_pending": "mended"}


# ------------------------------------------------------------------ indexes on the disk


def generation(patient: Patient, model: str, number: int = 1) -> Path:
    """A folder as an index leaves it whose process was killed."""
    made = patient.index / folder_name(model) / f"gen-{number}"
    (made / "chroma").mkdir(parents=True)
    (made / "chroma" / "chroma.sqlite3").write_bytes(b"graph")
    (made.parent / "lock").touch()
    return made


async def test_an_index_that_was_not_closed_is_thrown_away(patient: Patient) -> None:
    left = generation(patient, "fake")
    assert found(patient.examined())["index_unclean"][0].what == (
        "an index that was not closed cleanly"
    )
    await cured(patient, "index_unclean")
    assert not left.exists()


async def test_an_index_whose_files_are_not_as_they_were_is_thrown_away(patient: Patient) -> None:
    left = generation(patient, "fake")
    (left / "closed.json").write_text('{"made_of": {}, "files": {"chroma.sqlite3": [5, 7]}}')
    assert found(patient.examined())["index_unclean"][0].what == (
        "an index that has other files than when it was closed"
    )
    await cured(patient, "index_unclean")


async def test_indexes_that_nobody_uses_are_removed(patient: Patient) -> None:
    former, older = generation(patient, "former"), generation(patient, "fake", 1)
    generation(patient, "fake", 2)
    seen = found(patient.examined())
    assert sorted(seen["index_unused"][0].where) == sorted(
        f"{path.parent.name}/{path.name}" for path in (former, older)
    )
    await cured(patient, "index_unused", "index_unclean")
    assert list(patient.index.glob("*/gen-*")) == []


def held_elsewhere(lock: Path) -> subprocess.Popen[bytes]:
    """A process that has a lock until it is told to end."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom pagedaemon.store.locks import hold\n"
            "file = open(sys.argv[1], 'ab')\nhold(file)\nprint('held', flush=True)\n"
            "sys.stdin.read()",
            str(lock),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(SOURCE)},
    )


async def test_an_index_that_a_process_has_open_is_its_own(patient: Patient) -> None:
    generation(patient, "fake")
    holding = held_elsewhere(patient.index / folder_name("fake") / "lock")
    assert holding.stdout is not None
    assert holding.stdout.readline() == b"held\n"
    assert patient.examined().findings == ()
    holding.communicate()
    assert set(found(patient.examined())) == {"index_unclean"}


# ------------------------------------------------------------------ rows and the file


async def test_a_picture_is_given_back_to_its_message(patient: Patient) -> None:
    patient.sql("UPDATE attachments SET message_id = NULL")
    await cured(patient, "attachment_orphan")
    assert patient.sql("SELECT count(*) FROM attachments WHERE message_id IS NULL") == [(0,)]
    assert patient.sql("SELECT count(*) FROM attachments") == [(2,)]


async def test_bytes_that_belong_to_no_message_are_removed(patient: Patient) -> None:
    patient.sql(
        "INSERT INTO attachments (id, space, position, kind, media_type, size, sha256, created_at) "
        "SELECT 'attachment-lost', space, 0, 'file', 'text/plain', 0, '', created_at FROM turns "
        "LIMIT 1",
        "INSERT INTO attachments "
        "(id, space, turn_id, position, kind, media_type, size, sha256, created_at) "
        "SELECT 'attachment-old', space, id, 0, 'file', 'text/plain', 0, '', created_at "
        "FROM turns LIMIT 1",
    )
    (finding,) = found(patient.examined())["attachment_orphan"]
    assert sorted(finding.where) == ["attachment-lost", "attachment-old"]
    await cured(patient, "attachment_orphan")
    assert patient.sql("SELECT count(*) FROM attachments") == [(2,)]


async def test_blocks_that_nobody_holds_are_no_orphans(patient: Patient) -> None:
    async with patient.opened() as runtime:
        await runtime.blocks.ensure(label="team", value="We ship on Fridays.")
    assert patient.examined().findings == ()


async def test_what_was_said_or_kept_is_never_removed(patient: Patient) -> None:
    patient.sql("DELETE FROM archives")
    async with patient.opened() as runtime:
        report = await runtime.doctor()
    by_state = {finding.what: finding.state for finding in report.findings}
    assert by_state == {
        "a row of passages refers to one of archives that is missing": "left",
        "a row of agent_archives refers to one of archives that is missing": "mended",
    }
    assert patient.sql("SELECT count(*) FROM passages") == [(2,)]
    assert not report.sound


async def test_an_index_of_a_table_that_lacks_a_row_is_made_anew(patient: Patient) -> None:
    kept = patient.sql("SELECT * FROM sqlite_master WHERE name = 'ix_messages_turn'")
    values = ", ".join("NULL" if one is None else f"'{one}'" for one in kept[0])
    patient.sql(
        "PRAGMA writable_schema = ON",
        "DELETE FROM sqlite_master WHERE name = 'ix_messages_turn'",
    )
    patient.sql("UPDATE messages SET turn_id = NULL WHERE seq = 2")
    patient.sql("PRAGMA writable_schema = ON", f"INSERT INTO sqlite_master VALUES ({values})")
    assert set(found(patient.examined())) == {"sql_index_damaged"}
    await cured(patient, "sql_index_damaged")


def test_a_damaged_file_is_told_and_left_alone(tmp_path: Path) -> None:
    patient = Patient(tmp_path)
    asyncio.run(patient.made())
    with patient.path.open("r+b") as file:
        file.seek(4096 * 10)
        file.write(b"\xff" * 4096 * 20)
    report = patient.examined()
    assert set(states(report).items()) == {("file_damaged", "left")}
    assert "backup" in report.findings[0].advice


async def test_what_is_no_database_is_told(patient: Patient) -> None:
    patient.path.write_bytes(b"not a database, whatever its name is" * 500)
    assert states(patient.examined()) == {"file_damaged": "left"}


async def test_an_open_runtime_tells_of_a_damaged_file_too(patient: Patient) -> None:
    async with patient.opened() as runtime:
        patient.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        with patient.path.open("r+b") as file:
            file.seek(4096 * 10)
            file.write(b"\xff" * 4096 * 40)
        report = await runtime.doctor()
    assert set(states(report).items()) == {("file_damaged", "left")}


async def test_a_store_of_another_release_is_told(patient: Patient) -> None:
    patient.sql("UPDATE alembic_version SET version_num = '9999'")
    assert states(patient.examined()) == {"schema_new": "left"}
    patient.sql("UPDATE alembic_version SET version_num = '0001'")
    assert states(patient.examined()) == {"schema_old": "found"}


# ------------------------------------------------------------------ looking


async def test_a_sound_store_has_no_findings(patient: Patient) -> None:
    report = patient.examined()
    assert (report.space, report.findings, report.sound) == ("default", (), True)
    assert report.embedders == ("fake",)


HOLDER = """
import sys
from pagedaemon import Runtime
with Runtime(sys.argv[1], model="offline", embedder=None) as runtime:
    ada = runtime.agents.ensure("bob")
    for line in sys.stdin:
        print(ada.send(line.strip()).stop_reason, flush=True)
"""
"""Has a store open, and answers a message for each line it is given. A process of its own: whoever
opens and closes a file of SQLite's by hand takes away the locks that his own process has on it."""


@contextmanager
def holding(patient: Patient) -> Iterator[Callable[[str], str]]:
    """Says something to an agent in a process that has the store open; how the turn ended."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(patient.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(SOURCE)},
        text=True,
        bufsize=1,
    ) as holder:
        words, answers = holder.stdin, holder.stdout
        assert words is not None
        assert answers is not None

        def said(line: str) -> str:
            words.write(f"{line}\n")
            return answers.readline().strip()

        yield said
        words.close()


def test_looking_writes_nothing_while_another_process_has_the_store_open(tmp_path: Path) -> None:
    patient = Patient(tmp_path)
    asyncio.run(patient.made())
    with holding(patient) as said:
        for line in ("Hello.", "Are you there?"):
            assert said(line) == "end_turn"
            assert patient.path.with_name("space.db-wal").stat().st_size > 0
            assert patient.examined().findings == ()
    assert patient.examined().findings == ()


def test_what_is_wrong_is_seen_while_another_process_has_the_store_open(tmp_path: Path) -> None:
    patient = Patient(tmp_path)
    asyncio.run(patient.made())
    with holding(patient) as said:
        assert said("Hello.") == "end_turn"
        patient.sql("DELETE FROM passage_words")
        assert set(found(patient.examined())) == {"text_not_indexed"}
        with Runtime(patient.folder, recover=False, embedder=None) as runtime:
            assert states(runtime.doctor())["text_not_indexed"] == "mended"
        assert found(patient.examined()) == {}
        assert said("Are you there?") == "end_turn"


async def test_looking_at_what_a_crash_left_writes_nothing(patient: Patient) -> None:
    await patient.died("One")
    assert (patient.path.parent / "space.db-wal").stat().st_size > 0
    assert set(found(patient.examined())) == {"turn_open"}
    (patient.path.parent / "space.db-shm").unlink()
    assert set(found(patient.examined())) == {"turn_open"}


async def test_a_live_process_is_not_disturbed(patient: Patient) -> None:
    patient.slow = True
    async with patient.opened() as runtime:
        ada = await runtime.agents.get("ada")
        turn = await ada.send_later("One")
        await asyncio.wait_for(patient.asked.wait(), 10)
        async with patient.opened() as other:
            assert (await other.doctor()).findings == ()
        assert (await turn.status()).state == "running"
        await turn.stop()


def test_a_space_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        examine(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


async def test_the_flag_is_true_or_false(patient: Patient) -> None:
    async with patient.opened() as runtime:
        with pytest.raises(InvalidInput):
            await runtime.doctor(mend="no")  # type: ignore[arg-type]


def test_the_blocking_door_has_it_too(tmp_path: Path) -> None:
    with Runtime(tmp_path, model="offline", embedder=None) as runtime:
        runtime.agents.ensure("ada").send("Hi.")
        assert runtime.doctor() == runtime.space("default").doctor(mend=False)
        assert runtime.doctor().sound


def test_each_kind_says_what_is_done_or_is_to_do() -> None:
    assert all(treatment.advice for treatment in TREATMENTS.values())
