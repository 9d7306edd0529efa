"""Stores of every layout that ever was are opened, hold what was in them, and are of today's layout then."""

import os
import tarfile
from pathlib import Path

import pytest

from ternmq_broker.store import store_format
from ternmq_broker.store.disk.files import DiskFile, DiskFolder, DiskFolders
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard.model import PopOrder, TransactionState
from ternmq_proxy.message_service.local import LocalMessageService
from tests.support.released_store import ACKNOWLEDGED, BROKER, GROUP, MESSAGES, TOPIC, message, opened, queue

STORES = Path(__file__).parents[2] / "data" / "stores"
EVERY = sorted(path.name.removesuffix(".tar.gz") for path in STORES.glob("*.tar.gz"))

_WHILE_MS = 60_000


def written_ms(name: str) -> int:
    """A minute after a store was written: half messages that are older than retention are given up."""
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        return round(max(member.mtime for member in archive)) * 1000 + _WHILE_MS


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none yet
        archive.extractall(folder)
    return folder


async def bodies(service: LocalMessageService, topic: str, queue_id: int) -> list[bytes]:
    end = (await service.reading.bounds(queue(queue_id, topic))).maximum
    found: list[bytes] = []
    while len(found) < end:
        pulled = await service.reading.pull(queue(queue_id, topic), len(found), ALL, batch=100, poll_s=0)
        if not pulled.messages:
            break
        found += [stored.rest for stored in pulled.messages]
    return found


async def check(folder: Path, name: str) -> None:
    service = await opened(folder, now_ms=written_ms(name))
    for number in range(2):
        wanted = [message(f"m{each}").rest for each in range(number, MESSAGES, 2)]
        assert await bodies(service, TOPIC, number) == wanted
    assert await bodies(service, "paid", 0) == [message("committed").rest]
    assert await bodies(service, "deleted", 0) == []
    [found] = await service.inspecting.find_by_key(TOPIC, "key-m7", 10)
    assert found.rest == message("m7").rest
    page = await service.inspecting.transactions(TransactionState.PENDING, topic="", start="", limit=10)
    assert [waiting.message_id for waiting in page.transactions] == ["waiting"]
    broker = service._broker
    assert await broker.figures.count_timers() == 2, "the one that is far ahead, and that of a topic that was deleted"
    order = PopOrder(group=GROUP, topic=TOPIC, queues=range(1), filter=ALL, batch=32, invisible_ms=1000)
    delivered = await service.consuming.pop(order, broker=BROKER, poll_s=0)
    first = 0 if name.endswith("killed") else ACKNOWLEDGED
    assert [each.message.rest for each in delivered] == [
        message(f"m{each}").rest for each in range(2 * first, MESSAGES, 2)
    ]
    appended = await service.sending.append(queue(0), [message("later")])
    assert appended[0].queue_offset == MESSAGES // 2
    await service.close()


def test_each_layout_up_to_todays_is_kept() -> None:
    assert [name for name in EVERY if not name.endswith("killed")] == [
        f"layout-{number}" for number in range(1, store_format.LAYOUT + 1)
    ]


@pytest.mark.parametrize("name", EVERY)
async def test_a_store_of_a_version_before_is_read_and_brought_up_to_date(name: str, tmp_path: Path) -> None:
    folder = unpacked(name, tmp_path)
    await check(folder, name)
    assert store_format.read_format(DiskFolder(folder / "store"), DiskFolder(folder / "store" / "commitlog"))
    service = await opened(folder, now_ms=written_ms(name))
    assert (await service.reading.bounds(queue(0))).maximum == MESSAGES // 2 + 1
    assert (await bodies(service, TOPIC, 0))[-1] == message("later").rest
    await service.close()


class Died(BaseException):
    """The process ended."""


@pytest.mark.parametrize("name", [name for name in EVERY if name.startswith("layout-1")])
async def test_who_dies_while_a_store_is_brought_up_to_date_does_it_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = {DiskFile: ("append", "sync", "truncate"), DiskFolder: ("create", "remove", "replace")}
    number, done = 0, False
    while not done:
        number += 1
        folder = unpacked(name, tmp_path / str(number))
        left = number

        def fuse() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Died

        with monkeypatch.context() as patch:
            for kind, methods in operations.items():
                for method in methods:
                    whole = getattr(kind, method)

                    def dying(*arguments: object, whole: object = whole, **options: object) -> object:
                        fuse()
                        assert callable(whole)
                        return whole(*arguments, **options)

                    patch.setattr(kind, method, dying)
            try:
                MessageStore(DiskFolders(folder / "store"), segment_bytes=1 << 20).abandon_files()
                done = True
            except Died:
                pass
        await check(folder, name)
    assert number > 5


def test_a_program_of_before_refuses_a_store_of_today(tmp_path: Path) -> None:
    """It opened `lock` as a file, before anything else."""
    StoreLock(tmp_path).release()
    with pytest.raises(OSError, match="directory"):
        os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
