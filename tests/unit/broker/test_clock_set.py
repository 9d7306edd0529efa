"""Somebody sets the machine's clock while messages are claimed: each consumer keeps the time that it had left."""

import asyncio
import time
from pathlib import Path

import pytest

from ternmq_common.clock import SystemClock
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import FlushMode, ServerSettings
from ternmq_common.shard.model import ConsumerGroup, DeliveredMessage, NewMessage, PopOrder, QueueRef, SettleOutcome
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService

GROUP, TOPIC = "readers", "orders"
QUEUE = QueueRef(TOPIC, "broker-0", 0)
HOUR_MS = 3_600_000
POLL_S = 20.0


class Wall:
    """The wall clock as everybody reads it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = time.time_ns
        self.set_by_ms = 0
        monkeypatch.setattr(time, "time_ns", lambda: self._real() + self.set_by_ms * 1_000_000)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return Wall(monkeypatch)


async def opened(folder: Path, clock: SystemClock, *, fifo: bool = False) -> LocalMessageService:
    settings = ServerSettings(data_dir=folder, flush=FlushMode.ASYNC)
    return await LocalMessageService.open_store(settings, lambda name: ConsumerGroup(name=name, fifo=fifo), clock)


async def send(service: LocalMessageService, *message_ids: str) -> None:
    await service.sending.append(
        QUEUE,
        [
            NewMessage(0, definition_pb2.SystemProperties(message_id=each).SerializeToString(), b"", (each,))
            for each in message_ids
        ],
    )


async def receive(service: LocalMessageService, *, invisible_ms: int) -> list[DeliveredMessage]:
    order = PopOrder(group=GROUP, topic=TOPIC, queues=range(1), filter=ALL, batch=8, invisible_ms=invisible_ms)
    return await service.consuming.pop(order, broker="broker-0", poll_s=POLL_S)


@pytest.mark.parametrize("fifo", [False, True])
async def test_claims_end_in_time_when_the_clock_is_set_back(tmp_path: Path, wall: Wall, *, fifo: bool) -> None:
    clock = SystemClock()
    service = await opened(tmp_path, clock, fifo=fifo)
    await send(service, "m")
    await receive(service, invisible_ms=500)
    wall.set_by_ms -= HOUR_MS
    clock.check_for_jump()
    (again,) = await receive(service, invisible_ms=500)
    assert again.attempt == 2
    await service.close()


@pytest.mark.parametrize("fifo", [False, True])
async def test_claims_go_on_when_the_clock_is_set_forward(tmp_path: Path, wall: Wall, *, fifo: bool) -> None:
    clock = SystemClock()
    service = await opened(tmp_path, clock, fifo=fifo)
    await send(service, "m", "n")
    first, second = await receive(service, invisible_ms=60_000)
    wall.set_by_ms += HOUR_MS
    # Nobody has looked at the clock yet when this has the broker look at its claims.
    await service.consuming.change_invisible(GROUP, TOPIC, first.handle, 0, counts=True)
    assert await service.consuming.acknowledge(GROUP, TOPIC, [second.handle]) == [SettleOutcome.DONE]
    await service.close()


async def test_claims_end_in_time_when_the_clock_was_set_back_while_the_broker_was_down(
    tmp_path: Path, wall: Wall
) -> None:
    service = await opened(tmp_path, SystemClock())
    await send(service, "m")
    await receive(service, invisible_ms=500)
    await service.close()
    wall.set_by_ms -= HOUR_MS
    service = await opened(tmp_path, SystemClock())
    async with asyncio.timeout(POLL_S):
        (again,) = await receive(service, invisible_ms=500)
    assert again.attempt == 2
    await service.close()
