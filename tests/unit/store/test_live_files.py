"""What another process does to the files of a store is noticed, and what the store does to them is not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ternmq_broker.delivery.claims import ClaimsSnapshot
from ternmq_broker.store.disk.files import DiskFolder, DiskFolders
from ternmq_broker.store.disk.live_files import LiveFiles
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.message_store import MessageStore
from tests.support.disk_store import SEGMENT_BYTES, incoming
from tests.support.retention import remove_segments
from tests.support.spilling import spill_all

LOOKS = 20
"""More than enough for every file to have its turn."""


class Opened:
    """A store and its journal, and what is known of their files."""

    def __init__(self, folder: Path) -> None:
        self.live = LiveFiles()
        folders = DiskFolders(folder, self.live)
        self.lock = StoreLock(folder)
        self.lock.watch_with(self.live)
        self.store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
        self.journal = ProgressJournal(folders.consumption, compact_from_bytes=100)

    def append(self, count: int = 10) -> None:
        for number in range(count):
            self.store.writer.append_batch("orders", 0, [incoming(f"m{number}")], number)
        self.store.log.sync_segments()

    def problem(self) -> str | None:
        """What one of many looks finds."""
        return next(filter(None, (self.live.find_missing() for _ in range(LOOKS))), None)

    def close(self) -> None:
        self.store.abandon_files()
        self.journal.close()
        self.lock.release()


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path / "store")


def test_nothing_that_a_store_does_is_taken_for_a_loss(opened: Opened) -> None:
    for turn in range(6):
        opened.append()
        spill_all(opened.store)
        opened.store.checkpoints.save_checkpoint()
        opened.store.deletions.forget_topic(f"t{turn}")()
        opened.journal.write_progress(
            [(("g", "orders", 0), ClaimsSnapshot(turn, 1, []))] * 9, turn
        )  # which compacts it
        assert opened.problem() is None
    remove_segments(opened.store, opened.store.log.segment_count - 1)
    assert opened.problem() is None
    opened.close()
    assert opened.problem() is None


def gone(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    path.with_name("other").write_bytes(path.read_bytes())
    path.with_name("other").replace(path)


@pytest.mark.parametrize("change", [gone, replaced])
@pytest.mark.parametrize(
    "name", ["commitlog/00000000000000000000", "newest segment", "consumption/journal", "format", "process"]
)
def test_a_file_that_was_removed_or_replaced_is_missed(
    opened: Opened, tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    opened.append(60)
    folder = tmp_path / "store"
    path = max((folder / "commitlog").iterdir()) if name == "newest segment" else folder / name
    assert opened.problem() is None
    change(path)
    problem = opened.problem()
    assert problem is not None
    assert str(path) in problem
    opened.close()


def test_what_is_written_is_looked_at_each_time(opened: Opened, tmp_path: Path) -> None:
    opened.append(60)
    for path in (max((tmp_path / "store" / "commitlog").iterdir()), tmp_path / "store" / "consumption" / "journal"):
        aside = path.with_name("aside")
        path.rename(aside)
        assert str(path) in (opened.live.find_missing() or "")
        aside.rename(path)
        assert opened.live.find_missing() is None
    opened.close()


def test_a_segment_that_was_removed_is_missed_until_retention_forgets_it(opened: Opened, tmp_path: Path) -> None:
    opened.append(60)
    (tmp_path / "store" / "commitlog" / f"{0:020d}").unlink()
    assert opened.problem() is not None
    assert opened.live.find_missing() is not None, "and now each look is at it"
    remove_segments(opened.store, 1)
    assert opened.problem() is None
    opened.close()


def test_a_folder_that_is_moved_is_missed_until_it_is_back(opened: Opened, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    folder.rename(elsewhere)
    assert "gone" in (opened.live.find_missing() or "")
    folder.mkdir()
    assert "replaced" in (opened.live.find_missing() or "")
    folder.rmdir()
    elsewhere.rename(folder)
    assert opened.problem() is None
    opened.close()


def test_nothing_is_written_to_what_has_taken_the_place_of_a_folder(opened: Opened, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    folder.rename(elsewhere)
    for name in ("commitlog", "consumption", "index", "timers"):
        (folder / name).mkdir(parents=True)
    opened.append(60)
    spill_all(opened.store)
    opened.store.checkpoints.save_checkpoint()
    opened.journal.write_progress([(("g", "orders", 0), ClaimsSnapshot(1, 1, []))] * 9, 1)
    opened.close()
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert len(list((elsewhere / "commitlog").iterdir())) > 1


def test_of_small_files_that_nothing_can_derive_the_latest_stays_open(tmp_path: Path) -> None:
    live = LiveFiles()
    folder = DiskFolder(tmp_path, live)
    folder.replace("format", b"first")
    folder.replace("format", b"second")
    folder.replace("checkpoint", b"derived")
    assert open_names(tmp_path) == ["format"]
    folder.remove("format")
    assert open_names(tmp_path) == []
    assert live.find_missing() is None


def open_names(folder: Path) -> list[str]:
    """Files in the folder that this process has open."""
    links = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [link.name for link in links if link.parent == folder]
