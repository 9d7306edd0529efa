"""Nobody but the user who runs a server can look into what it keeps, whatever his umask is."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ternmq_broker.store_tools.backup import back_up_store
from ternmq_broker.store_tools.repair import repair_store
from ternmq_broker.store_tools.restore import restore_backup
from ternmq_command.main import cli
from ternmq_common.process.private_files import create_file, create_folder, narrow_modes, private_umask
from ternmq_common.server_settings import ServerSettings
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.copies.salvage import replace_damaged
from ternmq_registry.registry import Registry
from ternmq_runtime.process import make_data_dir
from tests.support.disk_store import flip, segment_of
from tests.support.embedded import Embedded, RawClient, duration, local_settings


@pytest.fixture(autouse=True)
def _generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def settings(folder: Path) -> ServerSettings:
    return local_settings(folder, segment_bytes=16 << 20)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(folder: Path) -> dict[str, str]:
    """Each path, the folder's own included, that somebody else may do something with, and its mode."""
    return {str(path): oct(mode(path)) for path in (folder, *folder.rglob("*")) if mode(path) & 0o077}


async def used(folder: Path) -> Path:
    """A data directory with messages, timers, half messages, progress and a journal."""
    async with Embedded(settings(folder)) as server, RawClient(server.grpc) as client:
        for name, kind in (("t", pb.NORMAL), ("delay", pb.DELAY), ("halves", pb.TRANSACTION)):
            await client.create_topic(name, kind=kind)
        await client.send("t", b"1", b"2")
        await client.send("halves", b"3", message_type=pb.TRANSACTION)
        await client.send("delay", b"4", delivery_timestamp={"seconds": await client.server_ms() // 1000 + 3600})
        (await client.receive("t", "g", invisible_duration=duration(30)))
    return folder


async def test_all_that_a_server_makes_is_its_users_alone(tmp_path: Path) -> None:
    data_dir = await used(tmp_path / "deep" / "data")
    assert (data_dir / "registry.db").exists()
    assert len(list(data_dir.rglob("*"))) > 15
    assert open_to_others(tmp_path / "deep") == {}


async def test_so_are_backups_and_what_is_made_of_them(tmp_path: Path) -> None:
    data_dir = await used(tmp_path / "data")
    back_up_store(data_dir, tmp_path / "backup", only_copies=True)
    restore_backup(tmp_path / "backup", tmp_path / "again")
    assert open_to_others(tmp_path / "backup") == {}
    assert open_to_others(tmp_path / "again") == {}


async def test_so_is_what_a_repair_sets_aside(tmp_path: Path) -> None:
    data_dir = await used(tmp_path / "data")
    log = segment_of(data_dir, 0)
    flip(log, 100)
    done = repair_store(data_dir, lambda *_: None)
    assert done.before.damage
    assert list((data_dir / "store" / "set-aside").iterdir())
    assert open_to_others(data_dir) == {}


async def test_so_is_what_is_exported(tmp_path: Path) -> None:
    data_dir = await used(tmp_path / "data")
    out = tmp_path / "out.jsonl"
    assert CliRunner().invoke(cli, ("store", "export", str(data_dir), "--out", str(out))).exit_code == 0
    assert mode(out) == 0o600
    assert os.umask(0) == 0


def test_a_registry_that_is_made_anew_is_private_with_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    Registry.open_sqlite(path).close()
    assert {name.name for name in tmp_path.iterdir()} == {"registry.db", "registry.db-journal"}
    replace_damaged(path, [], [])
    tmp_path.chmod(0o700)
    assert open_to_others(tmp_path) == {}


async def test_a_data_directory_of_before_is_narrowed_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data_dir = await used(tmp_path / "data")
    data_dir.chmod(0o2755)
    for name in ("registry.db", "registry.db-journal"):
        (data_dir / name).chmod(0o644)
    with caplog.at_level(logging.INFO, "ternmq_common.process.private_files"):
        await used_again(data_dir)
        said = [record.getMessage() for record in caplog.records if "open to others" in record.getMessage()]
        caplog.clear()
        await used_again(data_dir)
        again = [record.getMessage() for record in caplog.records if "open to others" in record.getMessage()]
    assert mode(data_dir) == 0o2700
    assert open_to_others(data_dir) == {}
    assert said[0] == f"{data_dir} was open to others (mode 2755), and is not any more (mode 2700)"
    assert (len(said), again) == (3, [])


async def used_again(data_dir: Path) -> None:
    async with Embedded(settings(data_dir)):
        pass


def test_a_volume_that_belongs_to_somebody_else_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In Kubernetes root owns it, and the group of the pod gets in."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o2775)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    make_data_dir(volume)
    assert mode(volume) == 0o2775
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "belongs to user" in record.getMessage()
    assert "mode 2775" in record.getMessage()


def test_a_file_system_that_cannot_narrow_is_no_reason_not_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: Path, mode: int) -> None:
        del path, mode
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refused)
    make_data_dir(tmp_path)
    assert "can't be changed: Operation not permitted" in caplog.text


def test_only_what_is_there_is_narrowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    narrow_modes(tmp_path / "missing")
    create_folder(tmp_path / "a" / "b")
    with create_file(tmp_path / "a" / "b" / "c"), private_umask():
        (tmp_path / "a" / "d").touch()
    assert open_to_others(tmp_path / "a") == {}
    assert not caplog.records
