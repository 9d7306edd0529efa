"""A broker under load, in a process of its own, whose calls of the system fail at random; `failing_calls` kills it.

First it says what its queues have that was not checked before, then each batch that it sends and what became of it:
one JSON array a line, written at once.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import logging
import os
import random
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from ternmq_broker.upkeep.disk_room import DiskShort
from ternmq_common.clock import MovableClock
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import ServerSettings
from ternmq_common.shard.model import ConsumerGroup, NewMessage, QueueRef
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ternmq_common.catalog.cluster import FlushMode

QUEUES = [QueueRef("orders", "broker-0", number) for number in range(3)]
WRITES = ("pwritev", "pwrite", "write", "posix_fallocate", "ftruncate", "truncate", "unlink", "open", "replace")
SYNCS = ("fdatasync", "fsync")
_BATCH_MAX, _BODY_BYTES_MAX = 12, 12_000
_SEGMENT_BYTES = 1 << 20
# Rounds are short, and in each second of a refusal nothing would be tried.
_PROBES_EVERY_S = 0.02


class Task(NamedTuple):
    """What one process does; `checked` are the offsets of its queues below which all was checked."""

    folder: Path
    seed: int
    flush: FlushMode
    checked: list[int]
    starts_failing: bool
    syncs_fail: bool


class FailingCalls:
    """In place of `os`'s calls that write files: a share of them fails, of `pwritev` half after a part was written."""

    def __init__(self, dice: random.Random, names: tuple[str, ...]) -> None:
        self._dice = dice
        self.share = 0.0
        self.failed = 0
        for name in names:
            setattr(os, name, self._failing(name, getattr(os, name)))

    def _failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        dice, write = self._dice, os.pwrite

        def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - those of a call of the system
            is_spared = name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR)
            is_spared = is_spared or (name == "write" and not stat.S_ISREG(os.fstat(arguments[0]).st_mode))
            if is_spared or dice.random() >= self.share:
                return real(*arguments, **named)
            self.failed += 1
            if name == "pwritev" and dice.random() < 0.5:
                whole = b"".join(arguments[1])
                write(arguments[0], whole[: dice.randrange(len(whole) + 1)], arguments[2])
            raise OSError(dice.choice((errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS)), "planned", name)

        return call

    async def vary(self) -> None:
        """All is well for a while, and then some of the calls, or all, fail for a while."""
        while True:
            self.share = 0.0
            await asyncio.sleep(self._dice.uniform(0.01, 0.15))
            self.share = self._dice.choice((0.02, 0.2, 0.6, 1.0))
            await asyncio.sleep(self._dice.uniform(0.01, 0.25))


class FailingBroker:
    """Sends to all queues until it is killed; `report` is the descriptor to write to."""

    def __init__(self, task: Task, report: int) -> None:
        self._task = task
        self._report = report
        self._dice = random.Random(task.seed)
        self._numbers = itertools.count()
        self._service: LocalMessageService

    def run(self) -> None:
        logging.disable(logging.CRITICAL)
        asyncio.run(self._run())

    async def _run(self) -> None:
        task = self._task
        calls = FailingCalls(self._dice, WRITES + (SYNCS if task.syncs_fail else ()))
        settings = ServerSettings(
            data_dir=task.folder,
            segment_bytes=_SEGMENT_BYTES,
            body_bytes_max=1 << 16,
            flush=task.flush,
            disk_free_min_bytes=0,
            test_clock=True,
        )
        calls.share = 0.1 if task.starts_failing else 0.0
        try:
            self._service = await LocalMessageService.open_store(
                settings, lambda name: ConsumerGroup(name=name), MovableClock()
            )
        except (StartupError, OSError) as error:
            self._say("no start", str(error), calls.failed)
            return
        self._service._broker._room.set_pace(_PROBES_EVERY_S)
        calls.share = 0.0
        for queue, first in zip(QUEUES, task.checked, strict=True):
            self._say("found", queue.queue_id, await self._found(queue, first))
        self._say("open")
        varying = asyncio.create_task(calls.vary())
        await asyncio.gather(varying, *(self._send_forever(queue) for queue in QUEUES))

    async def _found(self, queue: QueueRef, first: int) -> list[str]:
        names: list[str] = []
        end = (await self._service.reading.bounds(queue)).maximum
        while first < end:
            pulled = await self._service.reading.pull(queue, first, ALL, batch=32, poll_s=0)
            first = pulled.next_offset
            bodies = (definition_pb2.Message.FromString(each.rest).body for each in pulled.messages)
            names += [body.partition(b" ")[0].decode() for body in bodies]
        return names

    async def _send_forever(self, queue: QueueRef) -> None:
        dice = self._dice
        while True:
            number = next(self._numbers)
            names = [f"{self._task.seed}-{number}-{each}" for each in range(dice.randint(1, _BATCH_MAX))]
            sizes = [dice.randrange(_BODY_BYTES_MAX) if dice.random() < 0.3 else 100 for _ in names]
            self._say("sending", number, queue.queue_id, names)
            try:
                await self._service.sending.append(queue, list(map(_create_message, names, sizes)))
            except MessagingError as error:
                self._say("refused" if _is_refused(error) else "unknown", number)
            else:
                self._say("acknowledged", number)
            await asyncio.sleep(dice.uniform(0, 0.01))

    def _say(self, *what: object) -> None:
        line = json.dumps(what).encode() + b"\n"
        while line:
            line = line[os.write(self._report, line) :]


def _is_refused(error: MessagingError) -> bool:
    """Whether nothing of the batch may ever be delivered."""
    text = str(error)
    return isinstance(error, DiskShort) or ("can't write to its disk" in text and "not known" not in text)


def _create_message(name: str, size: int) -> NewMessage:
    properties = definition_pb2.SystemProperties(message_id=name)
    rest = definition_pb2.Message(body=name.encode() + b" " + bytes(size))
    return NewMessage(size, properties.SerializeToString(), rest.SerializeToString(), (name,))
