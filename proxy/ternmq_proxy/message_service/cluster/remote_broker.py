"""The calls of one broker: the broker's part of `MessageService`, written into frames and read from answers."""

from typing import TYPE_CHECKING

from ternmq_common import storage_form as form
from ternmq_common.errors import MessagingError
from ternmq_common.model import (
    Appended,
    Delivery,
    PopOrder,
    Pulled,
    QueueBounds,
    QueueRef,
    Resolution,
    Settled,
    TransactionPage,
)
from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.cluster import Remaining
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import (
        HalfMessage,
        NewMessage,
        QueueProgress,
        QueueReaderId,
        StoredMessage,
        TimedMessage,
        Transaction,
        TransactionState,
    )
    from ternmq_common.recall_handle import RecallHandle
    from ternmq_common.receipt_handle import ReceiptHandle
    from ternmq_common.transaction_id import TransactionId
    from ternmq_proxy.message_service.cluster.link import BrokerLink

# What looks through the log may take longer than a call of the hot path.
_SEARCH_TIMEOUT_S = 10.0


def _begun() -> tuple[storage.ProxyFrame, storage.Call]:
    frame = storage.ProxyFrame()
    return frame, frame.calls.add()


class RemoteBroker:
    """Each method is one call over the link; see `MessageService` for what it does, and `BrokerLink.ask` for errors.
    `topic_made` is `Topic.made` of the topic whose messages are to be stored, `group_made` is `Group.made` of the group
    that the call is for."""

    def __init__(self, link: "BrokerLink") -> None:
        self.link = link
        self.name = link.broker

    # --- sending

    async def append(self, queue: QueueRef, messages: "Sequence[NewMessage]", topic_made: int) -> list[Appended]:
        frame, call = _begun()
        request = call.append
        request.topic, request.queue_id, request.topic_made = queue.topic, queue.queue_id, topic_made
        form.write_new(request.messages, messages)
        answer = await self.link.ask(frame)
        return [
            Appended(message.message_id, offset)
            for message, offset in zip(messages, answer.stored.offsets, strict=True)
        ]

    async def schedule(self, queue: QueueRef, messages: "Sequence[TimedMessage]", topic_made: int) -> list[Appended]:
        frame, call = _begun()
        request = call.schedule
        request.topic, request.queue_id, request.topic_made = queue.topic, queue.queue_id, topic_made
        form.write_new(request.messages, [timed.message for timed in messages])
        request.due_ms.extend([timed.due_ms for timed in messages])
        answer = await self.link.ask(frame)
        return [
            Appended(timed.message.message_id, offset, broker=self.name)
            for timed, offset in zip(messages, answer.stored.offsets, strict=True)
        ]

    async def recall(self, handle: "RecallHandle") -> None:
        frame, call = _begun()
        request = call.recall
        request.topic, request.due_ms, request.message_id = handle.topic, handle.due_ms, handle.message_id
        await self.link.ask(frame)

    async def begin_transaction(self, queue: QueueRef, half: "HalfMessage", topic_made: int) -> Appended:
        frame, call = _begun()
        request = call.begin_transaction
        request.topic, request.queue_id, request.topic_made = queue.topic, queue.queue_id, topic_made
        request.sender = half.sender
        form.write_new_message(request.message, half.message)
        if half.recovery_ms is not None:
            request.recovery_ms = half.recovery_ms
        stored = (await self.link.ask(frame)).stored
        return Appended(half.message.message_id, stored.offsets[0], stored.transaction_id)

    async def end_transaction(
        self, topic: str, transaction: "TransactionId", resolution: Resolution, *, by_operator: bool
    ) -> None:
        frame, call = _begun()
        request = call.end_transaction
        request.topic, request.message_id, request.log_offset = topic, transaction.message_id, transaction.log_offset
        request.commit, request.by_operator = resolution is Resolution.COMMIT, by_operator
        await self.link.ask(frame)

    async def transactions(self, state: "TransactionState", *, topic: str, start: str, limit: int) -> TransactionPage:
        frame, call = _begun()
        request = call.list_transactions
        request.state, request.topic, request.start, request.limit = state.value, topic, start, limit
        page = (await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S, cancel=True)).transaction_page
        return TransactionPage(list(map(form.read_transaction, page.transactions)), page.following)

    async def transaction(self, transaction: "TransactionId") -> "tuple[Transaction, StoredMessage]":
        frame, call = _begun()
        request = call.describe_transaction
        request.message_id, request.log_offset = transaction.message_id, transaction.log_offset
        found = (await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S)).transaction
        return form.read_transaction(found), form.read_stored(found.message, "", self.name)

    # --- receiving

    async def pop(self, order: PopOrder, group_made: int, *, watch: bool) -> list[Delivery]:
        """What is there now. Messages whose answer comes too late are given back."""
        frame, call = _begun()
        form.write_order(call.pop, order)
        call.pop.watch, call.pop.group_made = watch, group_made

        def give_back(answer: storage.Answer) -> None:
            if answer.deliveries.deliveries:
                handles = [each.handle for each in answer.deliveries.deliveries]
                self.link.tell(_release(order.group, order.topic, handles))

        answer = await self.link.ask(frame, on_late=give_back)
        return form.read_deliveries(answer.deliveries, order.topic, self.name)

    async def acknowledge(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]") -> list[Settled]:
        frame, call = _begun()
        request = call.acknowledge
        request.group, request.topic = group, topic
        form.write_handles(request.handles, handles)
        return form.read_outcomes((await self.link.ask(frame)).outcomes)

    async def change_invisible(
        self, group: str, topic: str, handle: "ReceiptHandle", invisible_ms: int, *, counts: bool
    ) -> "ReceiptHandle | None":
        """None if the handle is not in force."""
        frame, call = _begun()
        request = call.change_invisible
        request.group, request.topic, request.invisible_ms, request.counts = group, topic, invisible_ms, counts
        form.write_handle(request.handle, handle)
        answer = await self.link.ask(frame)
        return form.read_handle(answer.handle, self.name) if answer.HasField("handle") else None

    async def prolong(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", invisible_ms: int
    ) -> list[bool]:
        frame, call = _begun()
        request = call.prolong
        request.group, request.topic, request.invisible_ms = group, topic, invisible_ms
        form.write_handles(request.handles, handles)
        outcomes = form.read_outcomes((await self.link.ask(frame)).outcomes)
        return [outcome is Settled.DONE for outcome in outcomes]

    async def release(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", *, counts: bool) -> None:
        frame, call = _begun()
        request = call.release
        request.group, request.topic, request.counts = group, topic, counts
        form.write_handles(request.handles, handles)
        await self.link.ask(frame)

    async def dead_letter(self, group: str, topic: str, handle: "ReceiptHandle", attempts: int) -> Settled:
        frame, call = _begun()
        request = call.dead_letter
        request.group, request.topic, request.attempts = group, topic, max(0, attempts)
        form.write_handle(request.handle, handle)
        return form.read_outcomes((await self.link.ask(frame)).outcomes)[0]

    # --- by offset

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None",
        group_made: int,
    ) -> Pulled:
        frame, call = _begun()
        request = call.pull
        request.topic, request.queue_id, request.offset, request.batch = queue.topic, queue.queue_id, offset, batch
        request.poll_ms = int(poll_s * 1000)
        form.write_filter(request.filter, passing)
        if reader is not None:
            form.write_reader(request.reader, reader)
            request.group_made = group_made
        timeout_s = poll_s + _SEARCH_TIMEOUT_S if poll_s else _SEARCH_TIMEOUT_S
        pulled = (await self.link.ask(frame, timeout_s=timeout_s, cancel=True)).messages
        messages = [form.read_stored(message, queue.topic, self.name) for message in pulled.messages]
        return Pulled(messages, pulled.next_offset)

    async def bounds(self, queue: QueueRef) -> QueueBounds:
        frame, call = _begun()
        call.bounds.topic, call.bounds.queue_id = queue.topic, queue.queue_id
        bounds = (await self.link.ask(frame)).bounds
        return QueueBounds(bounds.minimum, bounds.maximum)

    async def offset_at(self, queue: QueueRef, time_ms: int) -> int:
        frame, call = _begun()
        request = call.offset_at
        request.topic, request.queue_id, request.time_ms = queue.topic, queue.queue_id, time_ms
        return (await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S, cancel=True)).offset.offset

    async def committed(self, group: str, queue: QueueRef, group_made: int) -> int | None:
        frame, call = _begun()
        request = call.committed
        request.group, request.topic, request.queue_id = group, queue.topic, queue.queue_id
        request.group_made = group_made
        offset = (await self.link.ask(frame)).offset
        return offset.offset if offset.HasField("offset") else None

    async def set_committed(
        self, group: str, queue: QueueRef, offset: int, reader: "QueueReaderId | None", group_made: int
    ) -> None:
        frame, call = _begun()
        request = call.set_committed
        request.group, request.topic, request.queue_id, request.offset = group, queue.topic, queue.queue_id, offset
        request.group_made = group_made
        if reader is not None:
            form.write_reader(request.reader, reader)
        await self.link.ask(frame)

    async def skip(self, group: str, queue: QueueRef, offset: int, group_made: int) -> None:
        frame, call = _begun()
        request = call.skip
        request.group, request.topic, request.queue_id, request.offset = group, queue.topic, queue.queue_id, offset
        request.group_made = group_made
        await self.link.ask(frame)

    async def leave(self, group: str, client_id: str) -> None:
        frame, call = _begun()
        call.leave.group, call.leave.client_id = group, client_id
        await self.link.ask(frame)

    async def drop_retries(self, group: str, topic: str) -> None:
        frame, call = _begun()
        call.drop_retries.group, call.drop_retries.topic = group, topic
        await self.link.ask(frame)

    # --- looking

    async def progress(self, group: str) -> "list[QueueProgress]":
        frame, call = _begun()
        call.get_progress.group = group
        answer = await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S, cancel=True)
        return form.read_progress(answer.progress.progress, self.name)

    async def find_by_key(self, topic: str, key: str, limit: int) -> "list[StoredMessage]":
        frame, call = _begun()
        request = call.find_by_key
        request.topic, request.key, request.limit = topic, key, limit
        found = (await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S, cancel=True)).messages.messages
        return [form.read_stored(message, topic, self.name) for message in found]

    async def dead_letters(self, group: str, offsets: "Sequence[int]") -> "dict[int, StoredMessage]":
        frame, call = _begun()
        call.dead_letters.group = group
        call.dead_letters.offsets.extend(offsets)
        found = (await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S, cancel=True)).messages.messages
        return {message.queue_offset: form.read_stored(message, "", self.name) for message in found}

    async def retry(
        self, group: str, topic: str, messages: "Sequence[NewMessage]", topic_made: int, group_made: int
    ) -> None:
        frame, call = _begun()
        call.retry.group, call.retry.topic = group, topic
        call.retry.topic_made, call.retry.group_made = topic_made, group_made
        form.write_new(call.retry.messages, messages)
        await self.link.ask(frame)

    async def remaining(self) -> "Remaining":
        frame, call = _begun()
        call.remaining.SetInParent()
        answer = await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S, cancel=True)
        return form.read_remaining(answer.remains)

    async def pulling_members(self, group: str, topic: str) -> list[str]:
        frame, call = _begun()
        call.pulling_members.group, call.pulling_members.topic = group, topic
        return list((await self.link.ask(frame)).members.client_ids)

    # --- forgetting

    async def forget_topic(self, topic: str, version: int) -> None:
        frame, call = _begun()
        call.forget_topic.topic, call.forget_topic.registry_version = topic, version
        await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S)

    async def forget_group(self, group: str, version: int) -> None:
        frame, call = _begun()
        call.forget_group.group, call.forget_group.registry_version = group, version
        await self.link.ask(frame, timeout_s=_SEARCH_TIMEOUT_S)


def _release(group: str, topic: str, handles: "list[storage.Handle]") -> storage.ProxyFrame:
    frame, call = _begun()
    request = call.release
    request.group, request.topic = group, topic
    request.handles.extend(handles)
    return frame


def invalid_handle() -> MessagingError:
    return MessagingError(
        definition_pb2.INVALID_RECEIPT_HANDLE,
        "the receipt handle is not in force: the message was settled, its invisible time has passed, "
        "or a later handle replaced this one",
    )
