"""The values of `model.py` as they travel between proxy and broker (`storage.proto`), both ways.

Messages are written in place (`write_...` fills what was added to a frame), since each value that is put into another
one would be copied with its bodies.
"""

from typing import TYPE_CHECKING

from ternmq_common.cluster import Backlog, Remaining
from ternmq_common.errors import MessagingError
from ternmq_common.model import (
    Delivery,
    NewMessage,
    PopOrder,
    QueueProgress,
    QueueReaderId,
    QueueRef,
    Settled,
    StoredMessage,
    Transaction,
    TransactionState,
)
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_common.sql_filter import SqlFilter
from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ternmq_common.message_filter import MessageFilter

    # A container of protobuf's, which its stubs don't name.
    Repeated = Any

_OUTCOMES = {Settled.DONE: storage.DONE, Settled.STALE: storage.STALE, Settled.EXPIRED: storage.EXPIRED}
_SETTLED = {number: settled for settled, number in _OUTCOMES.items()}


# --- messages


def write_new(target: "Repeated", messages: "Iterable[NewMessage]") -> None:
    for message in messages:
        write_new_message(target.add(), message)


def write_new_message(written: storage.NewMessage, message: NewMessage) -> None:
    written.tag_hash, written.system, written.rest = message.tag_hash, message.system, message.rest
    written.keys.extend(message.keys)


def read_new(messages: "Iterable[storage.NewMessage]") -> list[NewMessage]:
    return [read_new_message(message) for message in messages]


def read_new_message(message: storage.NewMessage) -> NewMessage:
    return NewMessage(message.tag_hash, message.system, message.rest, tuple(message.keys))


def write_stored(written: storage.StoredMessage, message: StoredMessage, topic: str) -> None:
    """`topic` is that of the call, which need not be repeated."""
    queue = message.queue
    written.queue_id, written.queue_offset, written.stored_ms = queue.queue_id, message.queue_offset, message.stored_ms
    written.system, written.rest = message.system, message.rest
    if queue.topic != topic:
        written.topic = queue.topic


def read_stored(message: storage.StoredMessage, topic: str, broker: str) -> StoredMessage:
    queue = QueueRef(message.topic or topic, broker, message.queue_id)
    return StoredMessage(queue, message.queue_offset, message.stored_ms, message.system, message.rest)


# --- receipt handles


def write_handle(written: storage.Handle, handle: ReceiptHandle) -> None:
    written.queue_id, written.queue_offset = handle.queue_id, handle.queue_offset
    written.generation, written.deadline_ms = handle.generation, handle.deadline_ms


def write_handles(target: "Repeated", handles: "Iterable[ReceiptHandle]") -> None:
    for handle in handles:
        write_handle(target.add(), handle)


def read_handle(handle: storage.Handle, broker: str) -> ReceiptHandle:
    return ReceiptHandle(broker, handle.queue_id, handle.queue_offset, handle.generation, handle.deadline_ms)


def read_handles(handles: "Iterable[storage.Handle]", broker: str) -> list[ReceiptHandle]:
    return [read_handle(handle, broker) for handle in handles]


def write_outcomes(written: storage.Outcomes, outcomes: "Iterable[Settled]") -> None:
    written.outcomes.extend(map(_OUTCOMES.__getitem__, outcomes))


def read_outcomes(outcomes: storage.Outcomes) -> list[Settled]:
    return list(map(_SETTLED.__getitem__, outcomes.outcomes))


# --- receiving


def write_filter(written: storage.Filter, passing: "MessageFilter") -> None:
    written.expression = passing.expression
    if isinstance(passing, SqlFilter):
        written.is_sql = True


def read_filter(passing: storage.Filter) -> definition_pb2.FilterExpression:
    kind = definition_pb2.SQL if passing.is_sql else definition_pb2.TAG
    return definition_pb2.FilterExpression(type=kind, expression=passing.expression)


def write_order(written: storage.Pop, order: PopOrder) -> None:
    written.group, written.topic, written.queues = order.group, order.topic, len(order.queues)
    write_filter(written.filter, order.filter)
    written.batch, written.invisible_ms = order.batch, order.invisible_ms
    written.message_group_batch, written.by_priority = order.message_group_batch, order.by_priority
    if order.first_queue is not None:
        written.first_queue = order.first_queue
    if order.attempt_id:
        written.attempt_id = order.attempt_id


def read_order(pop: storage.Pop, passing: "MessageFilter") -> PopOrder:
    return PopOrder(
        group=pop.group,
        topic=pop.topic,
        queues=range(pop.queues),
        filter=passing,
        batch=pop.batch,
        invisible_ms=pop.invisible_ms,
        first_queue=pop.first_queue if pop.HasField("first_queue") else None,
        attempt_id=pop.attempt_id,
        message_group_batch=pop.message_group_batch,
        by_priority=pop.by_priority,
    )


def write_deliveries(written: storage.Deliveries, deliveries: "Iterable[Delivery]", topic: str) -> None:
    for delivery in deliveries:
        added = written.deliveries.add()
        write_stored(added.message, delivery.message, topic)
        write_handle(added.handle, delivery.handle)
        added.attempt = delivery.attempt


def read_deliveries(deliveries: storage.Deliveries, topic: str, broker: str) -> list[Delivery]:
    return [
        Delivery(read_stored(each.message, topic, broker), read_handle(each.handle, broker), each.attempt)
        for each in deliveries.deliveries
    ]


def write_reader(written: storage.Reader, reader: QueueReaderId) -> None:
    written.group, written.client_id, written.lock_hold_ms = reader.group, reader.client_id, reader.lock_hold_ms


def read_reader(reader: storage.Reader) -> QueueReaderId:
    return QueueReaderId(reader.group, reader.client_id, reader.lock_hold_ms)


# --- looking


def write_progress(target: "Repeated", rows: "Iterable[QueueProgress]") -> None:
    for row in rows:
        written = target.add()
        written.topic, written.queue_id = row.queue.topic, row.queue.queue_id
        written.committed, written.cursor = row.committed, row.cursor
        written.in_flight, written.max_offset = row.in_flight, row.max_offset
        if row.oldest_ms is not None:
            written.oldest_ms = row.oldest_ms


def read_progress(rows: "Iterable[storage.Progress]", broker: str) -> list[QueueProgress]:
    return [
        QueueProgress(
            queue=QueueRef(row.topic, broker, row.queue_id),
            committed=row.committed,
            cursor=row.cursor,
            in_flight=row.in_flight,
            max_offset=row.max_offset,
            oldest_ms=row.oldest_ms if row.HasField("oldest_ms") else None,
        )
        for row in rows
    ]


def write_transaction(written: storage.Transaction, transaction: Transaction) -> None:
    written.transaction_id, written.topic = transaction.transaction_id, transaction.topic
    written.message_id, written.state = transaction.message_id, transaction.state.value
    written.stored_ms, written.checks, written.sender = transaction.stored_ms, transaction.checks, transaction.sender
    if transaction.next_check_ms is not None:
        written.next_check_ms = transaction.next_check_ms


def read_transaction(transaction: storage.Transaction) -> Transaction:
    return Transaction(
        transaction_id=transaction.transaction_id,
        topic=transaction.topic,
        message_id=transaction.message_id,
        state=TransactionState(transaction.state),
        stored_ms=transaction.stored_ms,
        checks=transaction.checks,
        next_check_ms=transaction.next_check_ms if transaction.HasField("next_check_ms") else None,
        sender=transaction.sender,
    )


def write_remaining(written: storage.WhatRemains, remaining: Remaining) -> None:
    for backlog in remaining.backlogs:
        written.backlogs.add(group=backlog.group, topic=backlog.topic, messages=backlog.messages)
    written.timers, written.transactions = remaining.timers, remaining.transactions


def read_remaining(remaining: storage.WhatRemains) -> Remaining:
    backlogs = [Backlog(each.group, each.topic, each.messages) for each in remaining.backlogs]
    return Remaining(backlogs, remaining.timers, remaining.transactions)


# --- errors


def write_error(written: definition_pb2.Status, error: MessagingError) -> None:
    written.code, written.message = error.code, error.message


def raised(status: definition_pb2.Status) -> MessagingError:
    """The error that the other side wrote."""
    return MessagingError(status.code, status.message)


def offsets_of(stored: storage.Stored) -> "Sequence[int]":
    """One offset for each message, in order."""
    return stored.offsets
