"""The journal of a pipeline that works in steps."""

import json
from pathlib import Path

import pytest

from pyspark_ternmq.pipelines.journal import JournalError, StepJournal
from pyspark_ternmq.pipelines.journal_stores import HadoopStore, LocalStore, local_folder
from pyspark_ternmq.pipelines.lake.lock import CHECKPOINT_LOCK, FolderLock, Locked, LockLost, LockOwner
from tests.unit.spark.lake_folder import Killed, MemoryFiles


def test_a_plan_is_made_once(tmp_path: Path) -> None:
    with StepJournal(LocalStore(tmp_path)) as journal:
        assert journal.load_plan({"to": "orders"}, lambda: [1, 2]) == [1, 2]
        journal.step_is_done()
    with StepJournal(LocalStore(tmp_path)) as journal:
        assert journal.load_plan({"to": "orders"}, lambda: [3]) == [1, 2]
        assert journal.done == 1


def test_a_plan_for_other_options_is_refused_with_the_difference(tmp_path: Path) -> None:
    with StepJournal(LocalStore(tmp_path)) as journal:
        journal.load_plan({"to": "orders", "group": "a"}, list)
        with pytest.raises(JournalError, match=r"its to is 'orders', not 'payments'$"):
            journal.load_plan({"to": "payments", "group": "a"}, list)


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        StepJournal(LocalStore(tmp_path)),
        pytest.raises(JournalError, match="another process"),
        StepJournal(LocalStore(tmp_path)),
    ):
        pass
    with StepJournal(LocalStore(tmp_path)):
        pass


def test_what_a_kill_left_half_written_is_not_read(tmp_path: Path) -> None:
    with StepJournal(LocalStore(tmp_path)) as journal:
        journal.step_is_done()
    (tmp_path / "done.json.new").write_text('{"ste')
    with StepJournal(LocalStore(tmp_path)) as journal:
        assert journal.done == 1
        journal.step_is_done()
    assert json.loads((tmp_path / "done.json").read_text()) == {"steps": 2}


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "done.json").write_text("{")
    with pytest.raises(JournalError, match=r"done\.json of .* is damaged"), StepJournal(LocalStore(tmp_path)):
        pass


def test_a_damaged_journal_lets_go_of_its_lock(tmp_path: Path) -> None:
    (tmp_path / "done.json").write_text("{")
    with pytest.raises(JournalError), StepJournal(LocalStore(tmp_path)):
        pass
    (tmp_path / "done.json").unlink()
    with StepJournal(LocalStore(tmp_path)) as journal:
        assert journal.done == 0


def test_what_a_step_settles_is_kept_until_it_is_forgotten(tmp_path: Path) -> None:
    with StepJournal(LocalStore(tmp_path)) as journal:
        assert journal.kept_value("step.json") is None
        assert journal.keep_value("step.json", lambda: {"ends": {"b/0": 3}}) == {"ends": {"b/0": 3}}
        assert journal.keep_value("step.json", lambda: {"ends": {}}) == {"ends": {"b/0": 3}}
        journal.remove_value("step.json")
        assert journal.kept_value("step.json") is None


def test_only_folders_of_this_machine_are_local() -> None:
    assert local_folder("file:///data/c") == local_folder("file:/data/c") == local_folder("/data/c") == Path("/data/c")
    assert local_folder("s3a://bucket/c") is None


FOLDER = "s3a://bucket/checkpoint"


def remote(files: MemoryFiles, pid: int, *, lives: bool = False) -> StepJournal:
    """The journal of a process; to those that come later, it is gone unless it lives."""
    owner = LockOwner(host="here", pid=pid, started="", token=f"token-{pid}")
    lock = FolderLock(
        files, f"{FOLDER}/_lock", owner, CHECKPOINT_LOCK, is_running=lambda _: lives, now_ms=lambda: files.now_ms
    )
    return StepJournal(HadoopStore(files, FOLDER, lock=lock))


def test_a_checkpoint_in_a_store_knows_plan_and_progress() -> None:
    files = MemoryFiles()
    with remote(files, 1) as journal:
        assert journal.load_plan({"to": "orders"}, lambda: [1, 2]) == [1, 2]
        for _ in range(12):
            journal.step_is_done()
        journal.keep_value("step-000012.json", lambda: {"ends": {}})
    with remote(files, 2) as journal:
        assert journal.load_plan({"to": "orders"}, lambda: [3]) == [1, 2]
        assert (journal.done, journal.kept_value("step-000012.json")) == (12, {"ends": {}})
        journal.remove_value("step-000012.json")
        assert journal.kept_value("step-000012.json") is None
    # The lock is gone, and of each name what counts.
    assert sorted(files.content) == [f"{FOLDER}/done.json.000000011", f"{FOLDER}/plan.json.000000000"]


def test_a_process_that_is_killed_anywhere_leaves_the_old_text_or_the_new_one() -> None:
    for steps in range(40):
        files, confirmed = MemoryFiles(), 0
        files.steps = steps
        try:
            with remote(files, 1) as journal:
                for number in range(1, 4):
                    journal.step_is_done()
                    confirmed = number
        except Killed:
            pass
        files.steps = None
        # One that was killed as it wrote its lock is given that time.
        files.now_ms += CHECKPOINT_LOCK.stale_after_ms + 1
        with remote(files, 2) as journal:
            assert confirmed <= journal.done <= confirmed + 1
            journal.step_is_done()
        with remote(files, 3) as journal:
            assert confirmed + 1 <= journal.done <= confirmed + 2
            assert len([path for path in files.content if "done.json" in path]) == 1


def test_one_process_at_a_time_works_with_a_checkpoint_in_a_store() -> None:
    files = MemoryFiles()
    with remote(files, 1, lives=True), pytest.raises(Locked, match="process 1 on here"), remote(files, 2, lives=True):
        pass


def test_a_process_that_slept_and_lost_its_checkpoint_writes_nothing_more() -> None:
    files = MemoryFiles()
    with remote(files, 1) as sleeper:
        sleeper.step_is_done()
        with remote(files, 2) as other:
            other.step_is_done()
            with pytest.raises(LockLost):
                sleeper.step_is_done()
            assert other.done == 2
    with remote(files, 3) as last:
        assert last.done == 2
