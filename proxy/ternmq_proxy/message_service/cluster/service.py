"""The MessageService of a cluster: each call goes to the broker that has the queue, or to all of them."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ternmq_common.errors import MessagingError
from ternmq_common.model import OrphanedTransaction, QueueRef, Settled, TransactionPage
from ternmq_common.storage_form import read_stored
from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.calls import BrokerUnavailable, LateAnswer
from ternmq_proxy.message_service.cluster.links import Links
from ternmq_proxy.message_service.cluster.polls import Polls
from ternmq_proxy.message_service.cluster.pulling import Pulling
from ternmq_proxy.message_service.cluster.receiving import Receiving
from ternmq_proxy.message_service.cluster.remote_broker import RemoteBroker, invalid_handle
from ternmq_proxy.message_service.cluster.repeats import Repeats
from ternmq_proxy.message_service.cluster.routes import Routes
from ternmq_proxy.message_service.cluster.sending import Sending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.cluster import Remaining, Snapshot
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import (
        Appended,
        Delivery,
        HalfMessage,
        NewMessage,
        PopOrder,
        Pulled,
        PullingMember,
        QueueBounds,
        QueueProgress,
        QueueReaderId,
        Resolution,
        Route,
        StoredMessage,
        TimedMessage,
        Topic,
        Transaction,
        TransactionState,
    )
    from ternmq_common.observability.figures import LinkFigures
    from ternmq_common.output_room import AnswerRoom
    from ternmq_common.recall_handle import RecallHandle
    from ternmq_common.receipt_handle import ReceiptHandle
    from ternmq_common.transaction_id import TransactionId
    from ternmq_proxy.message_service.interface import AskProducer, Stored
    from ternmq_registry.directory import Directory

T = TypeVar("T")
_log = logging.getLogger(__name__)


class ClusterMessageService:
    """See `MessageService`. Begins with `start`, ends with `close`."""

    def __init__(self, directory: "Directory", *, proxy: str) -> None:
        self._directory = directory
        self.links = Links(directory, self, proxy=proxy)
        self.polls = Polls()
        self.routes = Routes(directory, self.links, time.monotonic)
        self._repeats = Repeats(self.links)
        self._sending = Sending(directory, self.links, self.routes, self._repeats)
        self._receiving = Receiving(directory, self.links, self.polls)
        self._pulling = Pulling(directory, self._repeats)
        self._ask: AskProducer | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._sends: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._directory.on_change(self._registry_changed)
        self.links.start()

    def end_polls(self) -> None:
        """Answer the waiting polls, since the process ends."""
        self.polls.close()

    async def close(self) -> None:
        self.polls.close()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self.links.close()

    @property
    def problem(self) -> str | None:
        if self.links.connected():
            return None
        names = ", ".join(broker.name for broker in self.links.all())
        return f"none of the brokers can be reached: {names}" if names else "no broker is registered"

    def link_figures(self) -> "list[LinkFigures]":
        """The links at this moment; may be called in any thread."""
        aside = set(self.routes.aside())
        return [broker.link.figures(set_aside=broker.name in aside) for broker in self.links.all()]

    # --- what the links tell

    def link_changed(self, broker: str) -> None:
        self.routes.changed()
        self.polls.changed(broker)

    def ready(self, broker: str, group: str, topic: str) -> None:
        self.polls.ready(broker, group, topic)

    def version_told(self, version: int) -> None:
        if version > self._directory.snapshot.version and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._directory.at_least(version), name="later version")

    async def question(self, question: storage.Question, broker: str) -> bool:
        if self._ask is None:
            return False
        orphan = OrphanedTransaction(
            transaction_id=question.transaction_id,
            topic=question.topic,
            sender=question.sender,
            message=read_stored(question.message, question.topic, broker),
            sender_only=question.sender_only,
        )
        try:
            return await self._ask(orphan)
        except Exception:  # noqa: BLE001 - the outermost of this question, and it logs
            _log.exception("the question about transaction %s failed", question.transaction_id)
            return False

    def _registry_changed(self, snapshot: "Snapshot") -> None:
        self.links.follow(snapshot)
        self.routes.changed()
        self.polls.moved()

    # --- sending

    def route(self, topic: "Topic") -> "Route":
        return self.routes.route(topic)

    async def append(self, queue: QueueRef, messages: "Sequence[NewMessage]") -> "list[Appended]":
        return await self._sending.sent(queue, lambda broker, there, made: broker.append(there, messages, made))

    def append_soon(self, queue: QueueRef, messages: "Sequence[NewMessage]", done: "Stored") -> None:
        task = asyncio.create_task(self._append_then(queue, messages, done))
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    async def _append_then(self, queue: QueueRef, messages: "Sequence[NewMessage]", done: "Stored") -> None:
        try:
            appended = await self.append(queue, messages)
        except MessagingError as error:
            done(0, error)
        else:
            done(appended[0].queue_offset, None)

    async def schedule(self, queue: QueueRef, messages: "Sequence[TimedMessage]") -> "list[Appended]":
        return await self._sending.sent(queue, lambda broker, there, made: broker.schedule(there, messages, made))

    async def begin_transaction(self, queue: QueueRef, half: "HalfMessage") -> "Appended":
        return await self._sending.sent(queue, lambda broker, there, made: broker.begin_transaction(there, half, made))

    async def recall(self, handle: "RecallHandle") -> None:
        await self._repeats.repeated(handle.broker, lambda broker: broker.recall(handle))

    # --- transactions

    async def end_transaction(
        self, topic: str, transaction: "TransactionId", resolution: "Resolution", *, by_operator: bool = False
    ) -> None:
        self._check_broker(transaction)
        await self._repeats.repeated(
            transaction.broker,
            lambda broker: broker.end_transaction(topic, transaction, resolution, by_operator=by_operator),
        )

    async def transaction(self, transaction: "TransactionId") -> "tuple[Transaction, StoredMessage]":
        self._check_broker(transaction)
        return await self._repeats.repeated(transaction.broker, lambda broker: broker.transaction(transaction))

    def _check_broker(self, transaction: "TransactionId") -> None:
        if self.links.find(transaction.broker) is None:
            raise MessagingError(
                definition_pb2.INVALID_TRANSACTION_ID,
                f"transaction {str(transaction)!r} names broker {transaction.broker!r}, which this cluster has not",
            )

    async def transactions(self, state: "TransactionState", *, topic: str, start: str, limit: int) -> TransactionPage:
        """Broker by broker; a page ends with its broker. `start` is `BROKER@PLACE`."""
        names = [broker.name for broker in self.links.all()]
        name, at, place = start.rpartition("@")
        if start and (not at or name not in names):
            raise MessagingError(definition_pb2.BAD_REQUEST, f"{start[:100]!r} is no page; give what next_page was")
        left = names[names.index(name) :] if start else names
        for number, broker_name in enumerate(left):
            first = place if number == 0 else ""
            page = await self._page(broker_name, state, topic, first, limit)
            if page.following:
                return TransactionPage(page.transactions, f"{broker_name}@{page.following}")
            if page.transactions:
                following = f"{left[number + 1]}@" if number + 1 < len(left) else ""
                return TransactionPage(page.transactions, following)
        return TransactionPage([], "")

    async def _page(
        self, broker: str, state: "TransactionState", topic: str, start: str, limit: int
    ) -> TransactionPage:
        return await self._repeats.repeated(
            broker, lambda remote: remote.transactions(state, topic=topic, start=start, limit=limit)
        )

    def watch_orphans(self, ask: "AskProducer") -> None:
        self._ask = ask

    # --- receiving

    async def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "list[Delivery]":
        return await self._receiving.pop(order, broker=broker, poll_s=poll_s, room=room)

    # --- settling

    async def acknowledge(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]") -> list[Settled]:
        return await self._for_handles(handles, lambda broker, some: broker.acknowledge(group, topic, some))

    async def prolong(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", invisible_ms: int
    ) -> list[bool]:
        return await self._for_handles(handles, lambda broker, some: broker.prolong(group, topic, some, invisible_ms))

    async def release(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", *, counts: bool) -> None:
        async def released(broker: RemoteBroker, some: "Sequence[ReceiptHandle]") -> list[None]:
            await broker.release(group, topic, some, counts=counts)
            return [None] * len(some)

        await self._for_handles(handles, released)

    async def _for_handles(
        self,
        handles: "Sequence[ReceiptHandle]",
        call: "Callable[[RemoteBroker, Sequence[ReceiptHandle]], Awaitable[list[T]]]",
    ) -> list[T]:
        """One call for each broker that gave some of the handles; an outcome for each handle, in order."""
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, handle in enumerate(handles):
            places[handle.broker].append(place)
        if len(places) == 1:
            (name,) = places
            self._check_handles(name)
            return await self._repeats.repeated(name, lambda broker: call(broker, handles))
        for name in places:
            self._check_handles(name)

        async def of(name: str) -> list[T]:
            some = [handles[place] for place in places[name]]
            return await self._repeats.repeated(name, lambda broker: call(broker, some))

        outcomes: dict[int, T] = {}
        for name, result in zip(places, await asyncio.gather(*map(of, places)), strict=True):
            outcomes.update(zip(places[name], result, strict=True))
        return [outcomes[place] for place in range(len(handles))]

    def _check_handles(self, broker: str) -> None:
        if self.links.find(broker) is None:
            raise MessagingError(
                definition_pb2.INVALID_RECEIPT_HANDLE,
                f"the receipt handle names broker {broker!r}, which this cluster has not",
            )

    async def change_invisible(
        self, group: str, topic: str, handle: "ReceiptHandle", invisible_ms: int, *, counts: bool
    ) -> "ReceiptHandle":
        self._check_handles(handle.broker)
        changed = await self._repeats.once(
            handle.broker,
            lambda broker: broker.change_invisible(group, topic, handle, invisible_ms, counts=counts),
        )
        if changed is None:
            raise invalid_handle()
        return changed

    async def dead_letter(self, group: str, topic: str, handle: "ReceiptHandle", *, attempts: int = 0) -> Settled:
        self._check_handles(handle.broker)
        return await self._repeats.repeated(
            handle.broker, lambda broker: broker.dead_letter(group, topic, handle, attempts)
        )

    # --- by offset

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> "Pulled":
        return await self._pulling.pull(queue, offset, passing, batch=batch, poll_s=poll_s, reader=reader, room=room)

    async def bounds(self, queue: QueueRef) -> "QueueBounds":
        return await self._repeats.repeated(queue.broker, lambda broker: broker.bounds(queue))

    async def offset_at(self, queue: QueueRef, time_ms: int) -> int:
        return await self._repeats.repeated(queue.broker, lambda broker: broker.offset_at(queue, time_ms))

    async def committed(self, group: str, queue: QueueRef) -> int | None:
        return await self._repeats.repeated(
            queue.broker, lambda broker: broker.committed(group, queue, self._group_made(group))
        )

    async def set_committed(
        self, group: str, queue: QueueRef, offset: int, *, reader: "QueueReaderId | None" = None
    ) -> None:
        await self._repeats.repeated(
            queue.broker,
            lambda broker: broker.set_committed(group, queue, offset, reader, self._group_made(group)),
        )

    async def skip(self, group: str, queue: QueueRef, offset: int) -> None:
        await self._repeats.repeated(
            queue.broker, lambda broker: broker.skip(group, queue, offset, self._group_made(group))
        )

    def _group_made(self, group: str) -> int:
        return self._directory.snapshot.group_made(group)

    # --- of all brokers

    async def leave(self, group: str, client_id: str) -> None:
        await self._of_those_there(lambda broker: broker.leave(group, client_id))

    async def drop_retries(self, group: str, topic: str) -> None:
        await asyncio.gather(
            *(
                self._repeats.repeated(each.name, lambda broker: broker.drop_retries(group, topic))
                for each in self.links.all()
            )
        )

    async def progress(self, group: str) -> "list[QueueProgress]":
        """Of the brokers that can be reached."""
        rows = await self._of_those_there(lambda broker: broker.progress(group))
        return [row for some in rows for row in some]

    async def find_by_key(self, topic: str, key: str, limit: int) -> "list[StoredMessage]":
        """On the brokers that can be reached."""
        found = await self._of_those_there(lambda broker: broker.find_by_key(topic, key, limit))
        newest_first = sorted((each for some in found for each in some), key=lambda each: each.stored_ms, reverse=True)
        return newest_first[:limit]

    async def dead_letters(self, group: str, broker: str, offsets: "Sequence[int]") -> "dict[int, StoredMessage]":
        name = broker or self._only_broker()
        return await self._repeats.repeated(name, lambda remote: remote.dead_letters(group, offsets))

    async def retry(self, group: str, topic: str, messages: "Sequence[NewMessage]") -> None:
        await self._sending.anywhere(
            topic, lambda broker, made: broker.retry(group, topic, messages, made, self._group_made(group))
        )

    async def remaining(self, broker: str) -> "Remaining":
        return await self._repeats.repeated(broker, lambda remote: remote.remaining())

    async def forget_topic(self, topic: str, *, version: int) -> None:
        self.polls.forget(topic=topic)
        await self._of_those_there(lambda broker: broker.forget_topic(topic, version))

    async def forget_group(self, group: str, *, version: int) -> None:
        self.polls.forget(group=group)
        await self._of_those_there(lambda broker: broker.forget_group(group, version))

    def announce(self, members: "Sequence[PullingMember]") -> None:
        presence = storage.Presence()
        for member in members:
            presence.members.add(group=member.group, client_id=member.client_id, topics=member.topics)
        self.links.announce(presence)

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        """As one of the brokers knows them: every proxy tells all brokers."""
        for broker in self.links.connected():
            try:
                return sorted({*here, *await broker.pulling_members(group, topic)})
            except (BrokerUnavailable, LateAnswer) as error:
                _log.warning("broker %s can't say who pulls %s for %s: %s", broker.name, topic, group, error)
        return sorted(here)

    async def _of_those_there(self, call: Callable[[RemoteBroker], Awaitable[T]]) -> list[T]:
        """The answers of all brokers that can be reached; who does not answer is said in the log."""
        brokers = self.links.connected()
        results = await asyncio.gather(*map(call, brokers), return_exceptions=True)
        answers: list[T] = []
        for broker, result in zip(brokers, results, strict=True):
            if isinstance(result, BrokerUnavailable | LateAnswer):
                _log.warning("broker %s is left out: %s", broker.name, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                answers.append(result)
        return answers

    def _only_broker(self) -> str:
        names = [broker.name for broker in self.links.all()]
        if len(names) != 1:
            raise MessagingError(definition_pb2.BAD_REQUEST, f"name the broker, one of {', '.join(names) or 'none'}")
        return names[0]
