"""The copy of a message for its retry refers to the body where it is, while that will be there for long enough."""

from pathlib import Path

import pytest

from ternmq_common.clock import MovableClock
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import retry_topic
from ternmq_common.server_settings import ServerSettings
from ternmq_common.shard.model import ConsumerGroup, DeliveredMessage, NewMessage, PopOrder, QueueRef
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService

TOPIC, BROKER = "orders", "broker-0"
GROUPS = ("billing", "shipping", "audit")
MESSAGES = 20
BODY_BYTES = 4000
HOUR_MS = 3_600_000


def message(number: int) -> NewMessage:
    properties = definition_pb2.SystemProperties(message_id=f"m{number}")
    rest = definition_pb2.Message(body=bytes([number]) * BODY_BYTES)
    return NewMessage(0, properties.SerializeToString(), rest.SerializeToString(), (f"m{number}",))


BODIES = {message(number).rest for number in range(MESSAGES)}


class Stack:
    """A broker whose clock is moved by the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = MovableClock()

    async def open(self) -> None:
        settings = ServerSettings(
            data_dir=self.folder,
            segment_bytes=1 << 20,
            body_bytes_max=1 << 16,
            retention_ms=72 * HOUR_MS,
            test_clock=True,
        )
        self.service = await LocalMessageService.open_store(settings, lambda name: ConsumerGroup(name=name), self.clock)

    @property
    def log_end(self) -> int:
        return self.service._broker.store.log.log_end

    async def receive(self, group: str, *, invisible_ms: int) -> list[DeliveredMessage]:
        order = PopOrder(group=group, topic=TOPIC, queues=range(1), filter=ALL, batch=32, invisible_ms=invisible_ms)
        return await self.service.consuming.pop(order, broker=BROKER, poll_s=20)

    async def receive_all(self, group: str, *, invisible_ms: int) -> list[DeliveredMessage]:
        found: list[DeliveredMessage] = []
        while len(found) < MESSAGES:
            found += await self.receive(group, invisible_ms=invisible_ms)
        return found


@pytest.fixture
async def stack(tmp_path: Path) -> Stack:
    stack = Stack(tmp_path)
    await stack.open()
    await stack.service.sending.append(QueueRef(TOPIC, BROKER, 0), [message(number) for number in range(MESSAGES)])
    return stack


async def test_retries_of_several_groups_do_not_copy_the_bodies(stack: Stack) -> None:
    before = stack.log_end
    for group in GROUPS:
        await stack.receive_all(group, invisible_ms=1000)
    stack.clock.advance_by(1001)
    for group in GROUPS:
        again = await stack.receive_all(group, invisible_ms=60_000)
        assert {delivery.message.rest for delivery in again} == BODIES
        assert {delivery.attempt for delivery in again} == {2}
    assert stack.log_end - before < MESSAGES * BODY_BYTES / 4
    await stack.service.close()
    await stack.open()
    stack.clock.advance_by(60_001)
    for group in GROUPS:
        third = await stack.receive_all(group, invisible_ms=60_000)
        assert {delivery.message.rest for delivery in third} == BODIES
    pulled = await stack.service.reading.pull(QueueRef(retry_topic("billing"), BROKER, 0), 0, ALL, batch=100, poll_s=0)
    assert {stored.rest for stored in pulled.messages} == BODIES
    await stack.service.close()


async def test_a_body_that_retention_would_take_before_long_is_copied(stack: Stack) -> None:
    before = stack.log_end
    await stack.receive_all("billing", invisible_ms=37 * HOUR_MS)
    stack.clock.advance_by(37 * HOUR_MS + 1)
    again = await stack.receive_all("billing", invisible_ms=1000)
    assert {delivery.message.rest for delivery in again} == BODIES
    assert stack.log_end - before > MESSAGES * BODY_BYTES
    await stack.service.close()


async def test_a_copy_whose_body_has_become_old_gets_one_of_its_own(stack: Stack) -> None:
    store = stack.service._broker.store
    store.log.roll_segment()
    await stack.receive_all("billing", invisible_ms=1000)
    stack.clock.advance_by(1001)
    await stack.receive_all("billing", invisible_ms=37 * HOUR_MS)
    store.log.roll_segment()
    stack.clock.advance_by(37 * HOUR_MS + 1)
    await stack.receive_all("billing", invisible_ms=40 * HOUR_MS)
    stack.clock.advance_by(36 * HOUR_MS)
    await stack.service._broker._housekeeping.remove_expired()
    assert store.log.log_start > 0, "the messages as they were sent are gone"
    stack.clock.advance_by(4 * HOUR_MS + 1)
    last = await stack.receive_all("billing", invisible_ms=1000)
    assert {delivery.message.rest for delivery in last} == BODIES
    assert stack.service._broker.degraded is None
    await stack.service.close()
