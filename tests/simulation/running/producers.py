"""What sends: each kind of message in its way, and what is known of each in the ledger."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.model import HalfMessage, NewMessage, QueueRef, TimedMessage, TransactionResolution
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable
from tests.simulation.running.ledger import Sent
from tests.simulation.running.topics import DELAY, FIFO, LITE, LITE_NAMES, MESSAGE_GROUPS, NORMAL, QUEUES, TRANSACTION
from tests.simulation.running.world import SHARD

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ternmq_proxy.message_service.cluster.service import ClusterMessageService
    from tests.simulation.running.checks import Checks
    from tests.simulation.running.ledger import Ledger
    from tests.simulation.running.plan import Plan
    from tests.simulation.running.world import World

    Send = Callable[[Sent], Coroutine[None, None, int | None]]
    """Sends it; the offset in its queue, None if it gets one later. MessagingError."""

_AFTER_ERROR_S = 0.1
_DELAYS_S = (0.05, 3.0)


class Producers:
    """All of them; they send while `may_send`."""

    def __init__(
        self,
        world: "World",
        plan: "Plan",
        ledger: "Ledger",
        checks: "Checks",
        service: "ClusterMessageService",
        *,
        may_send: "Callable[[], bool]",
    ) -> None:
        self._world = world
        self._plan = plan
        self._ledger = ledger
        self._checks = checks
        self._service = service
        self._may_send = may_send
        self._number = 0

    def all(self) -> "list[Coroutine[None, None, None]]":
        """What each of them does for ever."""
        normal = [self._produce(NORMAL, (NORMAL, queue_id), self._append) for queue_id in range(QUEUES)]
        fifo = [
            self._produce(FIFO, (FIFO, number % QUEUES), self._append, group)
            for number, group in enumerate(MESSAGE_GROUPS)
        ]
        lite = [self._produce(LITE, (lite_queue_topic(LITE, name), 0), self._append) for name in LITE_NAMES]
        delay = self._produce(DELAY, (DELAY, 0), self._schedule)
        transactions = self._produce(TRANSACTION, (TRANSACTION, 0), self._transact)
        return [*normal, *fifo, *lite, delay, transactions]

    async def _produce(self, topic: str, queue: tuple[str, int], send: "Send", message_group: str = "") -> None:
        dice = self._world.dice
        while True:
            await asyncio.sleep(dice.expovariate(1 / self._plan.send_s))
            if self._may_send():
                self._number += 1
                message = Sent(f"message-{self._number:06d}!", topic, queue, message_group)
                await self._account_for(message, send)

    async def _account_for(self, message: Sent, send: "Send") -> None:
        ledger = self._ledger
        ledger.is_sent(message)
        self._world.note(f"sends {message.message_id} to {message.topic}")
        try:
            queue_offset = await send(message)
        except MessagingError as error:
            self._world.note(f"{message.message_id}: {error.message}")
            if isinstance(error, BrokerUnavailable) and not error.maybe_done and not message.hidden:
                ledger.was_refused(message)
            await asyncio.sleep(_AFTER_ERROR_S)
        else:
            if not message.hidden:
                ledger.was_acknowledged(message, queue_offset)
            self._checks.held_by_all(message.message_id, "was acknowledged")

    async def _append(self, message: Sent) -> int:
        [stored] = await self._service.sending.append(_queue_of(message), [_stored_form(message)])
        return stored.queue_offset

    async def _schedule(self, message: Sent) -> None:
        message.due_ms = self._world.now_ms() + int(self._world.dice.uniform(*_DELAYS_S) * 1000)
        await self._service.sending.schedule(_queue_of(message), [TimedMessage(_stored_form(message), message.due_ms)])

    async def _transact(self, message: Sent) -> None:
        """It is hidden until it is to be committed. Of a transaction that nobody ended nothing is known."""
        dice, message.hidden = self._world.dice, True
        half = HalfMessage(_stored_form(message), "producer")
        begun = await self._service.sending.begin_transaction(_queue_of(message), half)
        self._checks.held_by_all(message.message_id, "is a half message")
        await asyncio.sleep(dice.uniform(0, 0.1))
        resolution = dice.choice(
            (TransactionResolution.COMMIT, TransactionResolution.COMMIT, TransactionResolution.ROLLBACK)
        )
        message.hidden = resolution is TransactionResolution.ROLLBACK
        transaction = TransactionId.parse_id(begun.transaction_id)
        try:
            await self._service.sending.end_transaction(TRANSACTION, transaction, resolution)
        except BrokerUnavailable as error:
            # It may still be committed by who asks again: nobody does.
            raise MessagingError(error.code, error.message) from error
        if resolution is TransactionResolution.ROLLBACK:
            self._ledger.was_refused(message)


def _queue_of(message: Sent) -> QueueRef:
    topic, queue_id = message.queue
    return QueueRef(topic, SHARD, queue_id)


def _stored_form(message: Sent) -> NewMessage:
    group = message.message_group or None
    properties = definition_pb2.SystemProperties(message_id=message.message_id, message_group=group)
    rest = definition_pb2.Message(topic={"name": message.topic}, body=b"body").SerializeToString()
    return NewMessage(tag_hash(""), properties.SerializeToString(), rest, (message.message_id,))
