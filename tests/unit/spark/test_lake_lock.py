"""One compaction at a time: who gets the lock, who is refused, and who may take it from a dead one."""

import pytest

from pyspark_ternmq.pipelines.lake.lock import (
    HALF_WRITTEN_AFTER_MS,
    LOCK,
    STALE_AFTER_MS,
    CompactionLock,
    CompactionLocked,
    LockLost,
    Owner,
    is_running,
)
from tests.unit.spark.lake_folder import ROOT, MemoryFiles

PATH = f"{ROOT}/{LOCK}"
FIRST, SECOND = Owner(host="here", pid=17, token="a"), Owner(host="here", pid=18, token="b")
THIRD, ELSEWHERE = Owner(host="here", pid=19, token="d"), Owner(host="there", pid=17, token="c")


def lock_of(files: MemoryFiles, owner: Owner, *, alive: bool = True) -> CompactionLock:
    return CompactionLock(files, ROOT, owner, is_running=lambda pid: alive, now_ms=lambda: files.now_ms)


def test_the_lock_goes_with_its_block() -> None:
    files = MemoryFiles()
    with lock_of(files, FIRST):
        assert Owner.from_json(files.read(PATH)) == FIRST
    assert not files.exists(PATH)


def test_a_second_compaction_is_refused_and_leaves_the_lock_as_it_is() -> None:
    files = MemoryFiles()
    with lock_of(files, FIRST):
        with pytest.raises(CompactionLocked, match="process 17 on here compacts this lake"), lock_of(files, SECOND):
            pass
        assert Owner.from_json(files.read(PATH)) == FIRST


def test_a_process_that_is_gone_from_this_machine_loses_it_at_once() -> None:
    files = MemoryFiles()
    lock_of(files, FIRST).__enter__()
    with lock_of(files, SECOND, alive=False):
        assert Owner.from_json(files.read(PATH)) == SECOND
    assert sorted(files.content) == []


def test_one_of_another_machine_keeps_it_for_an_hour_after_it_moved_last() -> None:
    files = MemoryFiles()
    lock = lock_of(files, ELSEWHERE).__enter__()
    files.now_ms = STALE_AFTER_MS
    lock.renew()
    files.now_ms += STALE_AFTER_MS
    with pytest.raises(CompactionLocked), lock_of(files, FIRST, alive=False):
        pass
    files.now_ms += 1
    with lock_of(files, FIRST):
        with pytest.raises(LockLost):
            lock.renew()
        lock.__exit__(None, None, None)
        assert Owner.from_json(files.read(PATH)) == FIRST


def test_a_half_written_lock_is_given_a_minute() -> None:
    files = MemoryFiles()
    files.create(PATH, "")
    with pytest.raises(CompactionLocked, match="another process"), lock_of(files, FIRST):
        pass
    files.now_ms = HALF_WRITTEN_AFTER_MS + 1
    with lock_of(files, FIRST):
        assert Owner.from_json(files.read(PATH)) == FIRST


def test_of_two_that_take_over_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    lock_of(files, FIRST).__enter__()
    rename = files.rename

    def renamed_after_the_other(old: str, new: str) -> None:
        """The other one is faster, by all of its steps."""
        monkeypatch.setattr(files, "rename", rename)
        lock_of(files, SECOND, alive=False).__enter__()
        rename(old, new)

    monkeypatch.setattr(files, "rename", renamed_after_the_other)
    with pytest.raises(CompactionLocked, match="just begun"), lock_of(files, THIRD, alive=False):
        pass
    assert Owner.from_json(files.read(PATH)) == SECOND
    assert sorted(files.content) == [PATH]


def test_this_process_runs() -> None:
    assert is_running(Owner.this_process().pid)
