"""Where groups that pop begin, and what becomes of messages that clients name by their places."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import RETRY_QUEUE_ID, QueueBounds, QueueRef, SettleOutcome, Topic
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.call import Call
from ternmq_proxy.operations.by_queue.popped import PoppedMessage, acknowledge_popped, begin_at_first

# Compiled code takes no other objects for its parts.
pytestmark = pytest.mark.plain
GROUP, TOPIC, BROKER = "readers", "orders", "broker-0"
CALL = Call(client_id="client", peer="127.0.0.1:9")


class Brokers:
    """A broker whose queue 0 is whole, and whose queues 1 and 2 have lost five messages of ten; the group is in 2."""

    def __init__(self, outcome: SettleOutcome = SettleOutcome.STALE) -> None:
        self.committed_offsets = {2: 7}
        self.outcome = outcome
        self.settled: list[tuple[str, ReceiptHandle]] = []

    async def bounds(self, queue: QueueRef) -> QueueBounds:
        return QueueBounds(5 if queue.queue_id else 0, 10)

    async def committed(self, group: str, queue: QueueRef) -> int | None:
        return self.committed_offsets.get(queue.queue_id)

    async def set_committed(self, group: str, queue: QueueRef, offset: int) -> None:
        self.committed_offsets[queue.queue_id] = offset

    async def acknowledge(self, group: str, topic: str, handles: Sequence[ReceiptHandle]) -> list[SettleOutcome]:
        self.settled += [(topic, handle) for handle in handles]
        return [self.outcome for _ in handles]

    def services(self) -> Any:  # noqa: ANN401 - a stand-in for Services
        async def find_topic(name: str) -> Topic:
            return Topic(name=name, type=MessageType.NORMAL, queues=3)

        return SimpleNamespace(
            access=SimpleNamespace(require_right=lambda *_: None),
            catalog=SimpleNamespace(existing_topic=find_topic),
            messages=SimpleNamespace(
                reading=self, consuming=self, find_route=lambda _: SimpleNamespace(readable=(BROKER,))
            ),
        )


async def test_a_group_begins_at_what_is_kept_where_it_has_never_been() -> None:
    brokers = Brokers()
    await begin_at_first(GROUP, TOPIC, CALL, brokers.services())
    assert brokers.committed_offsets == {1: 5, 2: 7}


def popped(queue_id: int, offset: int, topic: str = TOPIC) -> PoppedMessage:
    return PoppedMessage(topic, BROKER, queue_id, offset, 60_000)


async def test_outcomes_come_in_the_order_of_the_messages_of_several_topics() -> None:
    brokers = Brokers()
    messages = [popped(0, 3), popped(0, 3, "payments"), popped(0, 10), popped(RETRY_QUEUE_ID, 99)]
    outcomes = await acknowledge_popped(GROUP, messages, CALL, brokers.services())
    stale, expired = SettleOutcome.STALE, SettleOutcome.EXPIRED
    assert outcomes == [stale, stale, expired, stale]
    assert {(topic, handle.generation, handle.deadline_ms) for topic, handle in brokers.settled} == {
        (TOPIC, 0, 60_000),
        ("payments", 0, 60_000),
    }


@pytest.mark.parametrize("queue_id", [-1, 3])
async def test_a_queue_that_is_not_there_is_refused(queue_id: int) -> None:
    with pytest.raises(MessagingError, match="has no queue"):
        await acknowledge_popped(GROUP, [popped(queue_id, 0)], CALL, Brokers().services())
