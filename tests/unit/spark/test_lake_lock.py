"""One process at a time: who gets the lock, who is refused, who may take it over, and who is told that he lost it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_ternmq.pipelines.lake import lock as lock_module
from pyspark_ternmq.pipelines.lake.lock import (
    CHECKPOINT_LOCK,
    COMPACTION_LOCK,
    HALF_WRITTEN_AFTER_MS,
    FolderLock,
    Locked,
    LockLost,
    LockOwner,
    LockPurpose,
    is_running,
    publish_file,
    withdraw_files,
)
from tests.unit.spark.lake_folder import MemoryFiles

FOLDER = "/lake/_locks/compaction"
STALE_AFTER_MS = COMPACTION_LOCK.stale_after_ms


def owner(name: str, host: str = "here") -> LockOwner:
    return LockOwner(host=host, pid=17, started="9", token=name)


FIRST, SECOND, THIRD, ELSEWHERE = owner("a"), owner("b"), owner("c"), owner("d", "there")


def lock_of(
    files: MemoryFiles, owner: LockOwner, *, alive: bool = True, purpose: LockPurpose = COMPACTION_LOCK
) -> FolderLock:
    return FolderLock(files, FOLDER, owner, purpose, is_running=lambda _: alive, now_ms=lambda: files.now_ms)


def owners(files: MemoryFiles) -> list[LockOwner | None]:
    return [LockOwner.from_json(text) for path, text in sorted(files.content.items()) if path.endswith(".json")]


def test_the_lock_goes_with_its_block() -> None:
    files = MemoryFiles()
    with lock_of(files, FIRST) as lock:
        assert owners(files) == [FIRST]
        lock.renew_lock()
    assert not files.content


@pytest.mark.parametrize(
    ("purpose", "said"),
    [
        (COMPACTION_LOCK, r"process 17 on here compacts this lake (.*, or was not seen for 60 minutes)"),
        (CHECKPOINT_LOCK, r"process 17 on here works with this checkpoint (.*, or was not seen for 5 minutes)"),
    ],
)
def test_a_second_process_is_told_who_has_it_and_leaves_it_as_it_is(purpose: LockPurpose, said: str) -> None:
    files = MemoryFiles()
    with lock_of(files, FIRST, purpose=purpose) as lock:
        with pytest.raises(Locked, match=said), lock_of(files, SECOND, purpose=purpose):
            pass
        assert owners(files) == [FIRST]
        lock.check_owner()


def test_a_process_that_is_gone_from_this_machine_loses_it_at_once() -> None:
    files = MemoryFiles()
    lost = lock_of(files, FIRST).__enter__()
    lost.renew_lock()
    with lock_of(files, SECOND, alive=False):
        assert owners(files) == [SECOND]
        with pytest.raises(LockLost, match="nothing was seen for 60 minutes"):
            lost.check_owner()
    assert not files.content
    # Nor does he get it back when the other has gone.
    with pytest.raises(LockLost):
        lost.renew_lock()
    lost.__exit__(None, None, None)
    assert not files.content


def test_one_of_another_machine_keeps_it_until_it_was_not_seen_for_long() -> None:
    files = MemoryFiles()
    lost = lock_of(files, ELSEWHERE).__enter__()
    files.now_ms = STALE_AFTER_MS
    lost.renew_lock()
    files.now_ms += STALE_AFTER_MS
    with pytest.raises(Locked), lock_of(files, FIRST, alive=False):
        pass
    files.now_ms += 1
    with lock_of(files, FIRST):
        with pytest.raises(LockLost):
            lost.renew_lock()
        lost.__exit__(None, None, None)
        assert owners(files) == [FIRST]


def test_a_lock_is_renewed_often_enough_and_no_more() -> None:
    files = MemoryFiles()
    with lock_of(files, FIRST) as lock:
        renewals = 0
        for _ in range(600):
            files.now_ms += STALE_AFTER_MS // 600
            before = set(files.content)
            lock.renew_if_due()
            renewals += before != set(files.content)
        assert renewals == 15
        assert len(files.content) == 2
        # A clock that was set back is no reason to stay silent.
        files.now_ms -= STALE_AFTER_MS
        lock.renew_if_due()
        assert max(files.changed_ms[path] for path in files.content if "seen" in path) == files.now_ms


def test_a_half_written_lock_is_given_a_minute() -> None:
    files = MemoryFiles()
    files.create(f"{FOLDER}/0.json", "")
    with pytest.raises(Locked, match="another process"), lock_of(files, FIRST):
        pass
    files.now_ms = HALF_WRITTEN_AFTER_MS + 1
    with lock_of(files, FIRST):
        assert owners(files) == [FIRST]


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "null", '{"host": 1, "pid": 2, "started": "", "token": ""}', '{"host": "h", "pid": -1}', "\x00"],
)
def test_what_is_no_owner_is_one_that_nobody_knows(text: str) -> None:
    assert LockOwner.from_json(text) is None


def test_other_files_in_the_folder_do_not_count() -> None:
    files = MemoryFiles()
    for name in (".0.json.crc", "7.json.new", "x.json", "-1.json"):
        files.create(f"{FOLDER}/{name}", "")
    with lock_of(files, FIRST) as lock:
        lock.check_owner()


def in_between(monkeypatch: pytest.MonkeyPatch, files: MemoryFiles, others: Callable[[], object]) -> None:
    """Let others do all of their work right before the next file is made."""
    create = files.create

    def created_after_the_others(path: str, text: str) -> None:
        monkeypatch.setattr(files, "create", create)
        others()
        create(path, text)

    monkeypatch.setattr(files, "create", created_after_the_others)


def test_of_two_that_take_over_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    lock_of(files, FIRST).__enter__()
    in_between(monkeypatch, files, lambda: lock_of(files, SECOND, alive=False).__enter__())
    with pytest.raises(Locked), lock_of(files, THIRD, alive=False):
        pass
    assert owners(files) == [SECOND]


def test_who_comes_first_and_is_slow_does_not_get_it_beside_a_later_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody was there when it looked; meanwhile one came and died, and another took over."""
    files = MemoryFiles()

    def others() -> None:
        lock_of(files, FIRST).__enter__()
        lock_of(files, SECOND, alive=False).__enter__()

    in_between(monkeypatch, files, others)
    with pytest.raises(Locked, match=r"works|compacts"), lock_of(files, THIRD):
        pass
    assert owners(files) == [SECOND]


def test_who_takes_over_does_not_take_it_from_one_that_came_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    lock_of(files, FIRST).__enter__()
    later: list[FolderLock] = []

    def others() -> None:
        with lock_of(files, SECOND, alive=False):
            pass
        later.append(lock_of(files, ELSEWHERE).__enter__())

    in_between(monkeypatch, files, others)
    with pytest.raises(Locked, match="process 17 on there"), lock_of(files, THIRD, alive=False):
        pass
    later[0].check_owner()


def test_what_was_not_made_to_appear_in_time_never_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps between its look and the rename; the next owner removes what has not appeared."""
    files = MemoryFiles()
    first = lock_of(files, FIRST).__enter__()
    look = first.check_owner

    def sleeps() -> None:
        look()
        second = lock_of(files, SECOND, alive=False).__enter__()
        withdraw_files(files, second, [path for path in files.content if path.startswith("/lake/manifest.")])

    monkeypatch.setattr(first, "check_owner", sleeps)
    with pytest.raises(FileNotFoundError):
        publish_file(files, first, "/lake/manifest", "text")
    assert not files.exists("/lake/manifest")


def test_who_lost_the_lock_removes_nothing_of_the_next_owner() -> None:
    files = MemoryFiles()
    first = lock_of(files, FIRST).__enter__()
    with lock_of(files, SECOND, alive=False) as second:
        publish_file(files, second, "/lake/manifest", "text")
        with pytest.raises(LockLost):
            withdraw_files(files, first, ["/lake/manifest"])
    assert files.exists("/lake/manifest")


def test_this_process_runs_and_one_that_has_its_number_since_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    this = LockOwner.this_process()
    assert is_running(this)
    earlier = LockOwner(host=this.host, pid=this.pid, started="1", token="t")
    assert is_running(earlier) == (this.started == "")
    monkeypatch.setattr(lock_module, "process_start", lambda pid: "")
    assert is_running(earlier)


def test_a_number_that_no_process_has_is_gone() -> None:
    pid_max = Path("/proc/sys/kernel/pid_max")
    beyond = int(pid_max.read_text()) + 1 if pid_max.exists() else 1 << 40
    for pid in (beyond, 1 << 80):
        assert not is_running(LockOwner(host="here", pid=pid, started="", token="t"))
