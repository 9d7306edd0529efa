"""The journal of a pipeline that works in steps."""

import json
from pathlib import Path

import pytest

from pyspark_ternmq.pipelines.journal import Journal, JournalError, local_folder


def test_a_plan_is_made_once(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert journal.plan({"to": "orders"}, lambda: [1, 2]) == [1, 2]
        journal.step_is_done()
    with Journal(tmp_path) as journal:
        assert journal.plan({"to": "orders"}, lambda: [3]) == [1, 2]
        assert journal.done == 1


def test_a_plan_for_other_options_is_refused_with_the_difference(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.plan({"to": "orders", "group": "a"}, list)
        with pytest.raises(JournalError, match=r"its to is 'orders', not 'payments'$"):
            journal.plan({"to": "payments", "group": "a"}, list)


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(JournalError, match="another process"), Journal(tmp_path):
        pass
    with Journal(tmp_path):
        pass


def test_what_a_kill_left_half_written_is_not_read(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.step_is_done()
    (tmp_path / "done.json.new").write_text('{"ste')
    with Journal(tmp_path) as journal:
        assert journal.done == 1
        journal.step_is_done()
    assert json.loads((tmp_path / "done.json").read_text()) == {"steps": 2}


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "done.json").write_text("{")
    with pytest.raises(JournalError, match=r"done\.json is damaged"), Journal(tmp_path):
        pass


def test_a_damaged_journal_lets_go_of_its_lock(tmp_path: Path) -> None:
    (tmp_path / "done.json").write_text("{")
    with pytest.raises(JournalError), Journal(tmp_path):
        pass
    (tmp_path / "done.json").unlink()
    with Journal(tmp_path) as journal:
        assert journal.done == 0


def test_what_a_step_settles_is_kept_until_it_is_forgotten(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert journal.kept("step.json") is None
        assert journal.keep("step.json", lambda: {"ends": {"b/0": 3}}) == {"ends": {"b/0": 3}}
        assert journal.keep("step.json", lambda: {"ends": {}}) == {"ends": {"b/0": 3}}
        journal.forget("step.json")
        assert journal.kept("step.json") is None


def test_only_folders_of_this_machine_will_do() -> None:
    assert local_folder("file:///data/c") == local_folder("file:/data/c") == local_folder("/data/c") == Path("/data/c")
    with pytest.raises(JournalError, match="not one of s3a"):
        local_folder("s3a://bucket/c")
