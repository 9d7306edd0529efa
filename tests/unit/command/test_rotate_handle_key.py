"""`ternmq registry rotate-handle-key` on the registry of a server of `ternmq up`, and what it refuses."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_registry.registry import Registry
from tests.unit.command.conftest import Call


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """As a server leaves it."""
    (tmp_path / "store").mkdir()
    Registry.open_sqlite(tmp_path / "registry.db").close()
    return tmp_path


def secrets(data_dir: Path) -> list[str]:
    with closing(Registry.open_sqlite(data_dir / "registry.db")) as registry:
        return [key.secret.hex() for key in registry.read_snapshot().handle_keys]


def test_another_key_signs_and_none_is_printed(call: Call, data_dir: Path) -> None:
    before = secrets(data_dir)
    first = call("registry", "rotate-handle-key", "--data-dir", str(data_dir))
    assert (first.exit_code, first.stdout) == (0, "key 2 signs handles; key 1 is accepted too\n")
    assert secrets(data_dir)[:2] == before
    told = call("registry", "rotate-handle-key", "--data-dir", str(data_dir), "--json")
    assert json.loads(told.stdout) == {"signing": 3, "accepted": [2, 3]}
    assert not [secret for secret in [*before, *secrets(data_dir)] if secret in first.stdout + told.stdout]


def test_all_keys_are_given_up_if_somebody_says_yes(call: Call, data_dir: Path) -> None:
    before = secrets(data_dir)
    asked = call("registry", "rotate-handle-key", "--data-dir", str(data_dir), "--all")
    assert (asked.exit_code, secrets(data_dir)) == (2, before)
    done = call("registry", "rotate-handle-key", "--data-dir", str(data_dir), "--all", "--yes")
    assert (done.exit_code, done.stdout) == (0, "key 3 signs handles; no other is accepted\n")
    assert not set(before) & set(secrets(data_dir))


def test_a_server_that_runs_is_left_alone(call: Call, data_dir: Path) -> None:
    before = secrets(data_dir)
    with StoreLock(data_dir / "store"):
        refused = call("registry", "rotate-handle-key", "--data-dir", str(data_dir))
    assert (refused.exit_code, secrets(data_dir)) == (1, before)
    assert "in use by another stack" in refused.stderr


def test_a_folder_of_no_server_is_refused_and_nothing_made_there(call: Call, tmp_path: Path) -> None:
    refused = call("registry", "rotate-handle-key", "--data-dir", str(tmp_path))
    assert refused.exit_code == 2
    assert [*tmp_path.iterdir()] == []
    both = call("registry", "rotate-handle-key", "--data-dir", str(tmp_path), "--registry", "postgresql://u@h/d")
    assert (both.exit_code, "give one of" in both.stderr) == (2, True)
