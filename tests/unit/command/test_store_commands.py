"""`ternmq store`, `backup`, `restore`: what they print, their exit codes, and that only `repair` changes anything."""

import json
from pathlib import Path

import pytest

from ternmq_broker.store.disk.store_lock import StoreLock
from tests.support.disk_store import fill, flip_record, opened, state_of
from tests.unit.command.conftest import Call


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return fill(tmp_path / "data")


@pytest.fixture
def damaged_at(data_dir: Path) -> int:
    store = opened(data_dir)
    [location] = store.indexes.queues.locate_messages("orders", 1, 4, 1, may_block=True)
    store.abandon_files()
    flip_record(data_dir, location.log_offset)
    return location.log_offset


def test_a_store_is_inspected(call: Call, data_dir: Path) -> None:
    before = state_of(data_dir)
    shown = call("store", "inspect", str(data_dir), "--queues")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "pending timers         2" in shown.stdout
    found = json.loads(call("store", "inspect", str(data_dir), "--json").stdout)
    assert {topic["topic"]: topic["messages"] for topic in found["topics"]} == {"copies": 1, "deleted": 0, "orders": 40}
    assert found["groups"][0] == {
        "group": "billing",
        "topic": "orders",
        "queue": 0,
        "delivered": 5,
        "unfinished": 0,
        "end_offset": 20,
        "lag": 15,
    }
    assert (found["in_use"], found["layout"], found["waiting_half_messages"]) == (False, 2, 1)
    assert sum(segment["bytes"] for segment in found["segments"]) == found["log_end"]
    assert "key" not in found
    with StoreLock(data_dir / "store"):
        assert json.loads(call("store", "inspect", str(data_dir), "--json").stdout)["in_use"]
    assert state_of(data_dir).items() >= before.items()


def test_a_sound_store_is_verified(call: Call, data_dir: Path) -> None:
    before = state_of(data_dir)
    shown = call("store", "verify", str(data_dir))
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.endswith("the store is sound\n")
    assert state_of(data_dir) == before


def test_damage_is_verified_exported_around_and_repaired(call: Call, data_dir: Path, damaged_at: int) -> None:
    before = state_of(data_dir)
    shown = call("store", "verify", str(data_dir))
    assert shown.exit_code == 1
    assert f"problem   log: log offset {damaged_at}" in shown.stdout
    assert "(orders queue 1 offset 4)" in shown.stdout
    found = json.loads(call("store", "verify", str(data_dir), "--json").stdout)
    assert [problem["messages"] for problem in found["problems"]] == [[{"topic": "orders", "queue": 1, "offset": 4}]]
    exported = call("store", "export", str(data_dir), "--topic", "orders")
    assert len(exported.stdout.splitlines()) == 39
    assert "left out 1 damaged place of the log" in exported.stderr
    rehearsed = call("store", "repair", str(data_dir), "--dry-run")
    assert rehearsed.exit_code == 1
    assert f"bytes at log offset {damaged_at}" in rehearsed.stdout
    told = json.loads(call("store", "repair", str(data_dir), "--dry-run", "--json").stdout)
    assert (told["dry_run"], told["sound"], len(told["problems"])) == (True, False, 1)
    assert any(f"bytes at log offset {damaged_at}" in each for each in told["would"])
    assert state_of(data_dir) == before
    unasked = call("store", "repair", str(data_dir))
    assert (unasked.exit_code, "--yes" in unasked.stderr, state_of(data_dir)) == (2, True, before)
    repaired = call("store", "repair", str(data_dir), "--yes")
    assert repaired.exit_code == 0, repaired.stderr
    assert "lost: the content of 1 damaged place of the log; the index has 1 message there" in repaired.stdout
    told = json.loads(call("store", "repair", str(data_dir), "--yes", "--json").stdout)
    assert (told["dry_run"], told["sound"], told["done"]) == (False, True, [])
    again = call("store", "verify", str(data_dir))
    assert again.exit_code == 0
    assert "accepted  log" in again.stdout


def test_exported_messages_have_the_shape_of_dead_letters(call: Call, data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert call("store", "export", str(data_dir), "--out", str(out)).exit_code == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(records) == 41, "not the deleted topic"
    assert (
        records[0].items()
        >= {
            "topic": "orders",
            "queue": 0,
            "offset": 0,
            "message_id": "m0",
            "keys": ["key-m0"],
            "body": "body of m0 " * 4,
        }.items()
    )
    assert records[-1]["body"] == records[0]["body"], "it shares the rest of the first one"
    assert call("store", "export", str(data_dir), "--since", "2026-01-01T00:00:00Z").stdout == ""
    assert len(call("store", "export", str(data_dir), "--until", "1970-01-01T00:00:00.020Z").stdout.splitlines()) == 10


def test_a_backup_is_made_and_restored(call: Call, data_dir: Path, tmp_path: Path) -> None:
    backup, new = tmp_path / "backup", tmp_path / "new"
    made = call("backup", str(backup), "--data-dir", str(data_dir), "--verify")
    assert made.exit_code == 0, made.stderr
    assert made.stdout.startswith(f"backed up {data_dir} to {backup}: ")
    restored = call("restore", str(backup), "--data-dir", str(new))
    assert restored.exit_code == 0, restored.stderr
    assert restored.stdout.startswith(f"restored {new}: ")
    assert call("store", "verify", str(new)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("store", "inspect", "{tmp}"), "there is no store in"),
        (("store", "verify", "{tmp}/none"), "there is no store in"),
        (("store", "repair", "{tmp}", "--yes"), "there is no store in"),
        (("store", "export", "{tmp}"), "there is no store in"),
        (("backup", "{tmp}/backup", "--data-dir", "{tmp}"), "there is no store in"),
        (("backup", "{tmp}/data", "--data-dir", "{tmp}/data"), "is not empty"),
        (("restore", "{tmp}/data", "--data-dir", "{tmp}/new"), "is no whole backup"),
    ],
)
def test_what_can_not_be_is_said_in_a_line(
    call: Call, data_dir: Path, tmp_path: Path, arguments: tuple[str, ...], word: str
) -> None:
    result = call(*(each.format(tmp=tmp_path) for each in arguments))
    assert result.exit_code == 1
    assert word in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_store_that_a_broker_has_is_not_repaired(call: Call, data_dir: Path, damaged_at: int) -> None:
    with StoreLock(data_dir / "store"):
        result = call("store", "repair", str(data_dir), "--yes")
    assert result.exit_code == 1
    assert "in use by another stack" in result.stderr
    assert damaged_at
