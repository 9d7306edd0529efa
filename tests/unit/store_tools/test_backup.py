"""A backup is a consistent cut, whatever the broker does meanwhile; what was interrupted is none."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ternmq_broker.delivery.claims import ClaimsSnapshot
from ternmq_broker.store.disk import overlay
from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.store_tools import backup as backup_module
from ternmq_broker.store_tools.backup import back_up_store
from ternmq_broker.store_tools.checking.verification import verify_store
from ternmq_broker.store_tools.restore import restore_backup
from ternmq_common.errors import StartupError
from tests.support.disk_store import (
    FAR_MS,
    SEGMENT_BYTES,
    contents,
    files_of,
    fill,
    flip,
    incoming,
    opened,
    segment_of,
    spill,
    state_of,
)
from tests.support.retention import remove_segments

pytestmark = pytest.mark.slow


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    with closing(sqlite3.connect(tmp_path / "data" / "registry.db")) as registry:
        registry.execute("PRAGMA journal_mode=WAL")
        registry.execute("CREATE TABLE topics (name TEXT)")
        registry.execute("INSERT INTO topics VALUES ('orders')")
        registry.commit()
    return tmp_path / "data"


@pytest.mark.parametrize("only_copies", [True, False])
def test_a_backup_of_a_store_at_rest_is_all_of_it(data_dir: Path, tmp_path: Path, *, only_copies: bool) -> None:
    (data_dir / "store-id").write_text("abc\n")
    before = state_of(data_dir)
    made = back_up_store(data_dir, tmp_path / "backup", only_copies=only_copies)
    assert state_of(data_dir).keys() >= before.keys()
    assert {name: data for name, data in state_of(data_dir).items() if "registry" not in name} == {
        name: data for name, data in before.items() if "registry" not in name
    }
    again = restore_backup(tmp_path / "backup", tmp_path / "new")
    assert again == made
    assert contents(tmp_path / "new") == contents(data_dir)
    assert verify_store(tmp_path / "new").findings.kept_findings == []
    assert (tmp_path / "new" / "store-id").read_text() == "abc\n"
    with closing(sqlite3.connect(tmp_path / "new" / "registry.db")) as registry:
        assert registry.execute("SELECT name FROM topics").fetchall() == [("orders",)]
    inodes = {path.stat().st_ino for path in files_of(data_dir)}
    assert any(path.stat().st_ino in inodes for path in files_of(tmp_path / "backup" / "data")) is not only_copies
    assert not any(path.stat().st_ino in inodes for path in files_of(tmp_path / "new"))


def test_room_that_a_crash_left_reserved_is_not_copied(data_dir: Path, tmp_path: Path) -> None:
    last = segment_of(data_dir, 1 << 62)
    data = last.read_bytes()
    last.write_bytes(data + b"TM\x02torn" + bytes(1 << 20))
    back_up_store(data_dir, tmp_path / "backup")
    assert segment_of(tmp_path / "backup" / "data", 1 << 62).read_bytes() == data + b"TM\x02torn"


class Live:
    """A broker's store that changes at chosen moments of a backup."""

    def __init__(self, data_dir: Path) -> None:
        self.lock = StoreLock(data_dir / "store")
        folders = DiskFolders(data_dir / "store")
        self.store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
        self.journal = ProgressJournal(folders.consumption)
        self.sent = 0

    def send(self, count: int = 10) -> None:
        for _ in range(count):
            self.store.writer.append_batch("orders", self.sent % 2, [incoming(f"n{self.sent}")], 1000 + self.sent)
            self.sent += 1
        self.store.log.sync_segments()

    def spill(self) -> None:
        self.send()
        self.store.writer.append_drafts(
            [RecordDraft(RecordKind.TIMER, "timed", 0, incoming("late"), due_ms=FAR_MS + 7)], 1
        )
        self.store.log.sync_segments()
        spill(self.store)

    def retain(self) -> None:
        """Retention takes all but the last two segments; timers and half messages there are given up here."""
        self.send()
        spill(self.store)
        remove_segments(self.store, self.store.log.segment_count - 2)

    def compact(self) -> None:
        self.journal.write_progress([(("billing", "orders", 0), ClaimsSnapshot(20, 2, []))], 1)
        self.journal._compact_file()

    def delete_topic(self) -> None:
        self.send()
        self.store.deletions.forget_topic("orders")()

    def close(self) -> None:
        self.store.abandon_files()
        self.journal.close()
        self.lock.release()


@pytest.fixture
def live(data_dir: Path) -> Iterator[Live]:
    running = Live(data_dir)
    running.send()
    yield running
    running.close()


STEPS = [
    *((backup_module._BackupRun, name, 1) for name in ("_copy_earlier", "_copy_log", "_copy_registry", "_copy_later")),
    *((backup_module._BackupRun, name, count) for name in ("_copy_file", "_link_or_copy") for count in (1, 3)),
    *((overlay, "_open_files", count) for count in range(1, 8)),
]
"""Whose step it is, and before which call of it something happens; the files are opened folder by folder."""


@pytest.mark.parametrize("change", [Live.send, Live.spill, Live.retain, Live.compact, Live.delete_topic])
@pytest.mark.parametrize(("owner", "step", "call"), STEPS)
def test_whatever_happens_meanwhile_the_backup_is_sound(
    data_dir: Path,
    tmp_path: Path,
    live: Live,
    change: Callable[[Live], None],
    owner: object,
    step: str,
    call: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = contents_of(live)
    whole = getattr(owner, step)
    left = call

    def disturbed(*arguments: object, **options: object) -> object:
        nonlocal left
        left -= 1
        if left == 0:
            change(live)
        return whole(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, disturbed)
        made = back_up_store(data_dir, tmp_path / "backup")
    assert left <= 0, "the store changed in the midst of it"
    assert made.is_running
    restore_backup(tmp_path / "backup", tmp_path / "new")
    found = verify_store(tmp_path / "new")
    assert found.findings.kept_findings == []
    now = contents(tmp_path / "new")
    for queue in (("orders", 0), ("orders", 1)):
        there = now.queues[queue]
        assert len(there) >= len(before[queue]), "no offset is given again"
        for was, body in zip(before[queue], there, strict=False):
            assert body == was or (body is None and change in (Live.retain, Live.delete_topic))
    store = opened(tmp_path / "new")
    for queue_id in (0, 1):
        assert store.writer.append_batch("orders", queue_id, [incoming("after")], 9999).first_offset == len(
            now.queues["orders", queue_id]
        )
    store.close()
    shutil.rmtree(tmp_path / "new" / "store" / "timers")
    for path in (tmp_path / "new" / "store" / "index").glob("0*"):
        path.unlink()
    assert verify_store(tmp_path / "new").findings.kept_findings == [], "also when all that is derived is made anew"
    opened(tmp_path / "new").close()


def contents_of(live: Live) -> dict[tuple[str, int], list[bytes]]:
    """The bodies that were acknowledged."""
    bodies: dict[tuple[str, int], list[bytes]] = {}
    for queue in (("orders", 0), ("orders", 1)):
        bodies[queue] = []
        while len(bodies[queue]) < live.store.indexes.queues.queue_bounds(*queue)[1]:
            locations = live.store.indexes.queues.locate_messages(*queue, len(bodies[queue]), 100, may_block=True)
            bodies[queue] += [
                record.rest for record in live.store.reader.read_records(locations, may_block=True) if record
            ]
    return bodies


def test_a_backup_that_was_interrupted_anywhere_is_none(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("copy_file", "link_file", "compute_digest", "sync_file", "sync_folder", "write_new_file")
    number, done = 0, False
    while not done:
        number += 1
        left = number
        target = tmp_path / f"backup-{number}"
        with monkeypatch.context() as patch:
            for name in names:
                whole = getattr(backup_module, name)

                def dying(*arguments: object, whole: Callable[..., object] = whole) -> object:
                    nonlocal left
                    left -= 1
                    if left == 0:
                        raise Died
                    return whole(*arguments)

                patch.setattr(backup_module, name, dying)
            try:
                back_up_store(data_dir, target)
                done = True
            except Died:
                with pytest.raises(StartupError, match="is no whole backup"):
                    restore_backup(target, tmp_path / "new")
                with pytest.raises(StartupError, match="is not empty"):
                    back_up_store(data_dir, target)
    assert number > 20
    restore_backup(target, tmp_path / "new")


class Died(BaseException):
    """The process ended."""


KILLED = """
import os, signal, sys
from pathlib import Path
from ternmq_broker.store_tools import backup
whole = backup._BackupRun._copy_registry
backup._BackupRun._copy_registry = lambda self: (whole(self), os.kill(os.getpid(), signal.SIGKILL))
backup.back_up_store(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_a_killed_backup_is_refused(data_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    done = subprocess.run([sys.executable, "-c", KILLED, data_dir, target], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert (target / "data" / "store" / "commitlog").is_dir()
    with pytest.raises(StartupError, match="is no whole backup"):
        restore_backup(target, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_damaged_backup_is_refused_and_nothing_appears(data_dir: Path, tmp_path: Path) -> None:
    back_up_store(data_dir, tmp_path / "backup", only_copies=True)
    for path in (*files_of(tmp_path / "backup" / "data"), tmp_path / "backup" / "backup.json"):
        flip(path, path.stat().st_size // 2)
        with pytest.raises(StartupError, match="damaged"):
            restore_backup(tmp_path / "backup", tmp_path / "new")
        flip(path, path.stat().st_size // 2)
    (tmp_path / "backup" / "data" / "store" / "format").unlink()
    with pytest.raises(StartupError, match="format is missing"):
        restore_backup(tmp_path / "backup", tmp_path / "new")
    assert [path.name for path in tmp_path.glob("new*")] == []


def test_nothing_is_written_over(data_dir: Path, tmp_path: Path) -> None:
    back_up_store(data_dir, tmp_path / "backup")
    with pytest.raises(StartupError, match="is not empty"):
        back_up_store(data_dir, tmp_path / "backup")
    with pytest.raises(StartupError, match="is not empty"):
        restore_backup(tmp_path / "backup", data_dir)
    (tmp_path / "new.partial").mkdir()
    with pytest.raises(StartupError, match="interrupted; remove it"):
        restore_backup(tmp_path / "backup", tmp_path / "new")
    (tmp_path / "new.partial").rmdir()
    (tmp_path / "new").mkdir()
    restore_backup(tmp_path / "backup", tmp_path / "new")
    assert contents(tmp_path / "new") == contents(data_dir)


def test_a_manifest_names_nothing_outside(data_dir: Path, tmp_path: Path) -> None:
    made = back_up_store(data_dir, tmp_path / "backup")
    (tmp_path / "backup" / "backup.json").unlink()
    made.files["../outside"] = (0, "")
    made.write_manifest(tmp_path / "backup")
    with pytest.raises(StartupError, match="outside of it"):
        restore_backup(tmp_path / "backup", tmp_path / "new")
