"""A replica whose disk refuses to open its store waits until the disk works again."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ternmq_broker.server.replication import replica_files as module
from ternmq_broker.server.replication.replica_files import ReplicaFiles
from ternmq_broker.store_opening import open_files
from ternmq_common.errors import StartupError
from tests.unit.broker.test_full_disk import settings

Opening = Callable[..., Any]


@pytest.fixture
def replica(tmp_path: Path) -> ReplicaFiles:
    return ReplicaFiles(settings(tmp_path / "data"))


def fails(times: int, why: BaseException | None, real: Opening) -> Opening:
    """Opens the store after so many tries that fail."""
    left = [times]

    def opening(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as those of `open_files`
        if left[0]:
            left[0] -= 1
            raise StartupError("the store can't be opened") from why
        return real(*arguments, **more)

    return opening


async def test_it_is_open_again_when_the_disk_works(replica: ReplicaFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_files", fails(3, OSError(errno.EFBIG, "File too large"), open_files))
    with pytest.raises(StartupError):
        replica.reopen_store()
    assert not replica.is_open
    await replica.wait_until_open(lambda: False, again_s=0)
    assert replica.is_open
    replica.close()


async def test_the_end_of_the_process_is_not_held_up(replica: ReplicaFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def is_ending() -> bool:
        asked.append(1)
        return len(asked) == 2

    monkeypatch.setattr(module, "open_files", fails(9, OSError(errno.EIO, "Input/output error"), open_files))
    with pytest.raises(StartupError):
        await replica.wait_until_open(is_ending, again_s=0)
    assert not replica.is_open
    replica.close()


async def test_damage_is_not_waited_for(replica: ReplicaFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_files", fails(9, ValueError("damaged"), open_files))
    with pytest.raises(StartupError):
        await replica.wait_until_open(lambda: False, again_s=0)
    replica.close()
