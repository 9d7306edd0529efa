"""The MessageService of the embedded stack: a broker in this process."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import STORE, BrokerSettings
from ternmq_broker.opening import make_room_to_start
from ternmq_common.errors import MessagingError
from ternmq_common.model import Route
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from ternmq_common.clock import Clock
    from ternmq_common.cluster import Remaining
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import (
        Appended,
        Delivery,
        Group,
        HalfMessage,
        HeldTopic,
        NewMessage,
        OrphanedTransaction,
        PopOrder,
        Pulled,
        PullingMember,
        QueueBounds,
        QueueProgress,
        QueueReaderId,
        QueueRef,
        Resolution,
        Settled,
        StoredMessage,
        TimedMessage,
        Topic,
        Transaction,
        TransactionPage,
        TransactionState,
    )
    from ternmq_common.observability.figures import BrokerSource
    from ternmq_common.output_room import AnswerRoom
    from ternmq_common.recall_handle import RecallHandle
    from ternmq_common.receipt_handle import ReceiptHandle
    from ternmq_common.server_settings import ServerSettings
    from ternmq_common.transaction_id import TransactionId
    from ternmq_proxy.message_service.interface import Stored


class LocalMessageService:
    """See `MessageService`. The one broker has every queue, so a broker's name in a call need not be looked at."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._routes: dict[str, Route] = {}

    @classmethod
    async def open(
        cls, settings: "ServerSettings", rules: "Callable[[str], Group]", clock: "Clock"
    ) -> "LocalMessageService":
        """Open the store below the data directory and start its broker; StartupError says why it can't.

        `rules` gives the settings of a consumer group, defaults for one that is not known.
        """
        broker = await asyncio.to_thread(Broker.open, BrokerSettings.of(settings), rules, clock)
        broker.start()
        return cls(broker)

    @staticmethod
    def make_room_to_start(data_dir: "Path") -> None:
        """To be called before anything in the data directory is opened: that may need room, also on a full disk."""
        make_room_to_start(data_dir / STORE)

    def end_polls(self) -> None:
        """Answer the waiting polls, since the process ends."""
        self._broker.end_polls()

    @property
    def problem(self) -> str | None:
        """Why no message can be stored now."""
        return self._broker.problem

    @property
    def degraded(self) -> str | None:
        return self._broker.degraded

    @property
    def figures(self) -> "BrokerSource":
        return self._broker.figures

    def held_topics(self) -> "dict[str, HeldTopic]":
        """All topics of which the store has messages, whether or not the registry knows them."""
        return self._broker.held_topics()

    async def close(self) -> None:
        await self._broker.close()

    def route(self, topic: "Topic") -> Route:
        known = self._routes.get(topic.name)
        if known is None or known.topic is not topic:
            known = self._routes[topic.name] = Route.to_one(topic, self._broker.name)
        return known

    async def append(self, queue: "QueueRef", messages: "Sequence[NewMessage]") -> "list[Appended]":
        return await self._broker.append(queue.topic, queue.queue_id, messages)

    def append_soon(self, queue: "QueueRef", messages: "Sequence[NewMessage]", done: "Stored") -> None:
        self._broker.append_soon(queue.topic, queue.queue_id, messages, done)

    async def schedule(self, queue: "QueueRef", messages: "Sequence[TimedMessage]") -> "list[Appended]":
        return await self._broker.schedule(queue.topic, queue.queue_id, messages)

    async def recall(self, handle: "RecallHandle") -> None:
        await self._broker.recall(handle)

    async def begin_transaction(self, queue: "QueueRef", half: "HalfMessage") -> "Appended":
        return await self._broker.begin_transaction(queue.topic, queue.queue_id, half)

    async def end_transaction(
        self, topic: str, transaction: "TransactionId", resolution: "Resolution", *, by_operator: bool = False
    ) -> None:
        await self._broker.end_transaction(topic, transaction, resolution, by_operator=by_operator)

    async def transactions(self, state: "TransactionState", *, topic: str, start: str, limit: int) -> "TransactionPage":
        return await self._broker.transactions.page(state, topic=topic, start=start, limit=limit)

    async def transaction(self, transaction: "TransactionId") -> "tuple[Transaction, StoredMessage]":
        return await self._broker.transactions.describe(transaction)

    def watch_orphans(self, ask: "Callable[[OrphanedTransaction], Awaitable[bool]]") -> None:
        self._broker.orphans.watch(ask)

    async def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "list[Delivery]":
        del broker
        return await self._broker.pop(order, poll_s, room)

    async def acknowledge(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]") -> "list[Settled]":
        return self._broker.acknowledge(group, topic, handles)

    async def change_invisible(
        self, group: str, topic: str, handle: "ReceiptHandle", invisible_ms: int, *, counts: bool
    ) -> "ReceiptHandle":
        changed = await self._broker.change_invisible(group, topic, handle, invisible_ms, counts=counts)
        if changed is None:
            raise MessagingError(
                definition_pb2.INVALID_RECEIPT_HANDLE,
                "the receipt handle is not in force: the message was settled, its invisible time has passed, "
                "or a later handle replaced this one",
            )
        return changed

    async def prolong(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", invisible_ms: int
    ) -> list[bool]:
        return self._broker.prolong(group, topic, handles, invisible_ms)

    async def release(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", *, counts: bool) -> None:
        self._broker.release(group, topic, handles, counts=counts)

    async def dead_letter(self, group: str, topic: str, handle: "ReceiptHandle", *, attempts: int = 0) -> "Settled":
        return await self._broker.dead_letter(group, topic, handle, attempts)

    async def pull(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> "Pulled":
        return await self._broker.pull(queue, offset, passing, limit=batch, poll_s=poll_s, reader=reader, room=room)

    async def bounds(self, queue: "QueueRef") -> "QueueBounds":
        return self._broker.bounds(queue.topic, queue.queue_id)

    async def offset_at(self, queue: "QueueRef", time_ms: int) -> int:
        return await self._broker.offset_at(queue.topic, queue.queue_id, time_ms)

    async def committed(self, group: str, queue: "QueueRef") -> int | None:
        return self._broker.committed(group, queue.topic, queue.queue_id)

    async def set_committed(
        self, group: str, queue: "QueueRef", offset: int, *, reader: "QueueReaderId | None" = None
    ) -> None:
        self._broker.set_committed(group, queue.topic, queue.queue_id, offset, reader)

    async def skip(self, group: str, queue: "QueueRef", offset: int) -> None:
        self._broker.skip(group, queue.topic, queue.queue_id, offset)

    async def leave(self, group: str, client_id: str) -> None:
        self._broker.leave(group, client_id)

    async def drop_retries(self, group: str, topic: str) -> None:
        self._broker.drop_retries(group, topic)

    async def progress(self, group: str) -> "list[QueueProgress]":
        return await self._broker.looking.progress(group)

    async def find_by_key(self, topic: str, key: str, limit: int) -> "list[StoredMessage]":
        return await self._broker.looking.find_by_key(topic, key, limit)

    async def dead_letters(self, group: str, broker: str, offsets: "Sequence[int]") -> "dict[int, StoredMessage]":
        del broker
        return await self._broker.looking.dead_letters(group, offsets)

    async def retry(self, group: str, topic: str, messages: "Sequence[NewMessage]") -> None:
        await self._broker.retry(group, topic, messages)

    async def forget_topic(self, topic: str, *, version: int) -> None:
        del version
        self._routes.pop(topic, None)
        await self._broker.forget_topic(topic)

    async def forget_group(self, group: str, *, version: int) -> None:
        del version
        await self._broker.forget_group(group)

    async def remaining(self, broker: str) -> "Remaining":
        del broker
        return await self._broker.looking.remaining()

    def announce(self, members: "Sequence[PullingMember]") -> None:
        """Nobody else has to know."""

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        del group, topic
        return list(here)
