"""A broker that dies by SIGKILL just before its n-th operation: `python -m tests.faults.dying_broker DIR N [purge]`.

Operations are those on a disk. It goes through a scenario of timers and transactions, or of queues that are purged, and
prints each step that was acknowledged, on a line of its own, before it does anything else. It ends with exit code 0
when it came to the end alive.
"""

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from ternmq_broker.store.disk import files
from ternmq_common.clock import MovableClock
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import ServerSettings
from ternmq_common.shard.model import (
    ConsumerGroup,
    HalfMessage,
    NewMessage,
    QueueRef,
    TimedMessage,
    TransactionResolution,
)
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService

TOPIC = "waiting"
QUEUE = QueueRef(TOPIC, "broker-0", 0)
PURGED_QUEUES = [QueueRef("purged", "broker-0", queue_id) for queue_id in range(3)]
PURGED_MESSAGES = 5
PURGED_BELOW = 4
HOUR_MS = 3_600_000
P = ParamSpec("P")
T = TypeVar("T")
_OPERATIONS = {
    files.DiskFile: ("append", "sync", "truncate", "seal"),
    files.DiskFolder: ("create", "remove", "replace", "sync_names"),
}


class _Fuse:
    """Counts operations and ends the process before the n-th."""

    def __init__(self, number: int) -> None:
        self._left = number

    def burn(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    def guard(self, operation: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(operation)
        def guarded(*arguments: P.args, **options: P.kwargs) -> T:
            self.burn()
            return operation(*arguments, **options)

        return guarded


def message(name: str) -> NewMessage:
    properties = definition_pb2.SystemProperties(message_id=name)
    rest = definition_pb2.Message(body=name.encode())
    return NewMessage(0, properties.SerializeToString(), rest.SerializeToString(), (name,))


async def opened(folder: Path, clock: MovableClock) -> LocalMessageService:
    settings = ServerSettings(data_dir=folder, segment_bytes=1 << 20, body_bytes_max=1 << 16, test_clock=True)
    return await LocalMessageService.open_store(settings, lambda name: ConsumerGroup(name=name), clock)


class Scenario:
    """The steps, in their order; the broker is closed and opened again in their middle, so that indexes are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = MovableClock()
        self._start_ms = self._clock.now_ms()
        self._service: LocalMessageService

    async def run(self) -> None:
        self._service = await opened(self._folder, self._clock)
        say("opened")
        transactions = {name: await self.begin(name) for name in ("committed", "rolled-back", "left", "late")}
        handles = {
            name: await self.schedule(name, hours)
            for name, hours in (("first", 1), ("second", 2), ("taken", 2), ("third", 3), ("taken-late", 3))
        }
        await self.end(transactions["committed"], TransactionResolution.COMMIT)
        await self.end(transactions["committed"], TransactionResolution.COMMIT)
        await self.recall(handles["taken"])
        await self.reopen()
        await self.end(transactions["rolled-back"], TransactionResolution.ROLLBACK)
        await self.hours_pass(1, 2)
        await self.recall(handles["taken-late"])
        await self.reopen()
        await self.hours_pass(1, 3)
        await self.end(transactions["late"], TransactionResolution.COMMIT)
        await self.hours_pass(1, 5)
        await self._service.close()

    async def reopen(self) -> None:
        await self._service.close()
        self._service = await opened(self._folder, self._clock)

    async def begin(self, name: str) -> TransactionId:
        begun = await self._service.sending.begin_transaction(QUEUE, HalfMessage(message(name), "sender"))
        say(f"begun {name} {begun.transaction_id}")
        return TransactionId.parse_id(begun.transaction_id)

    async def end(self, transaction: TransactionId, resolution: TransactionResolution) -> None:
        say(f"ending {transaction.message_id} {resolution.value}")
        await self._service.sending.end_transaction(TOPIC, transaction, resolution)
        say(f"ended {transaction.message_id} {resolution.value}")

    async def schedule(self, name: str, hours: int) -> RecallHandle:
        due_ms = self._start_ms + hours * HOUR_MS
        await self._service.sending.schedule(QUEUE, [TimedMessage(message(name), due_ms)])
        say(f"scheduled {name}")
        return RecallHandle(TOPIC, "broker-0", due_ms, name)

    async def recall(self, handle: RecallHandle) -> None:
        say(f"recalling {handle.message_id}")
        await self._service.sending.recall(handle)
        say(f"recalled {handle.message_id}")

    async def hours_pass(self, hours: int, expected: int) -> None:
        """Let time pass until the queue has so many messages."""
        self._clock.advance_by(hours * HOUR_MS)
        await self._service.reading.pull(QUEUE, expected - 1, ALL, batch=1, poll_s=60)


class PurgeScenario:
    """Queues are filled, purged one after the other, and filled again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def run(self) -> None:
        service = await opened(self._folder, MovableClock())
        for queue in PURGED_QUEUES:
            await service.sending.append(
                queue, [message(f"{queue.queue_id}-{number}") for number in range(PURGED_MESSAGES)]
            )
        say("sent")
        for queue in PURGED_QUEUES:
            say(f"purging {queue.queue_id}")
            await service.administering.purge(queue, PURGED_BELOW, retries=True)
            say(f"purged {queue.queue_id}")
        for queue in PURGED_QUEUES:
            await service.sending.append(queue, [message(f"{queue.queue_id}-after")])
            say(f"appended {queue.queue_id}")
        await service.close()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    folder, number, is_purge = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["purge"]
    fuse = _Fuse(number)
    for kind, names in _OPERATIONS.items():
        for name in names:
            setattr(kind, name, fuse.guard(getattr(kind, name)))
    asyncio.run((PurgeScenario if is_purge else Scenario)(folder).run())


if __name__ == "__main__":
    main()
