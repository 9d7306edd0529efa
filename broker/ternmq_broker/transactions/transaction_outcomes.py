"""Looks up outcomes of ended transactions in the log. All functions read files, so call them in threads.

Committed    a message of the topic has the half message as its origin
Discarded    a copy in the discard topic has, and no operator has decided since
Rolled back  otherwise
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.message_copies import copy_message, parse_discarded
from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.names import DISCARD_TOPIC
from ternmq_common.shard.model import NewMessage, OpenTransaction, TransactionState
from ternmq_common.shard.transaction_id import TransactionId

if TYPE_CHECKING:
    from ternmq_broker.message_copies import DiscardedHalf
    from ternmq_broker.store.log.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOutcome:
    """The outcome of a transaction: its state, the queue and the text of its message as it was sent.

    `stored_ms` is when the half message was stored; None if only its discarded copy is left, which may not have the
    time.
    """

    state: TransactionState
    topic: str
    queue_id: int
    message: NewMessage
    stored_ms: int | None
    sender: str = ""
    checks: int = 0
    next_check_ms: int | None = None


def outcome_of(store: MessageStore, transaction: TransactionId) -> TransactionOutcome | None:
    """The outcome of a transaction that is not pending; None if there was none of that id, or nothing is left of it."""
    half = _half_of(store, transaction)
    copy = store.reader.find_descendant(DISCARD_TOPIC, transaction.message_id, transaction.log_offset)
    source = half or copy
    if source is None:
        return None
    discarded = None if copy is None else parse_discarded(copy)
    place, message = (source.topic, source.queue_id), copy_message(source)
    if half is None and discarded is not None:
        place, message = discarded.target_queue, discarded.message
    state = TransactionState.ROLLED_BACK
    if store.reader.find_descendant(place[0], transaction.message_id, transaction.log_offset) is not None:
        state = TransactionState.COMMITTED
    elif copy is not None and not store.indexes.halves.is_resolved_late(transaction.log_offset):
        state = TransactionState.DISCARDED
    return TransactionOutcome(
        state=state,
        topic=place[0],
        queue_id=place[1],
        message=message,
        stored_ms=_stored_ms(half, discarded),
        sender=source.sender,
        checks=0 if discarded is None else discarded.checks,
    )


def _half_of(store: MessageStore, transaction: TransactionId) -> "Record | None":
    """The half message of a transaction, as long as the log has it."""
    half = store.reader.read_record_at(transaction.log_offset)
    if half is None or half.kind is not RecordKind.HALF_MESSAGE or keys_of(half.system)[0] != transaction.message_id:
        return None
    return half


def _stored_ms(half: "Record | None", discarded: "DiscardedHalf | None") -> int | None:
    if half is not None:
        return half.stored_ms
    return None if discarded is None else discarded.stored_ms


@dataclass(frozen=True, slots=True)
class DiscardedPage:
    """A page of discarded transactions, and the offset of the next page."""

    found: list[OpenTransaction]
    following: int | None


def discarded_from(store: MessageStore, broker: str, topic: str, start: int, limit: int) -> DiscardedPage:
    """List discarded transactions that no operator has decided, from an offset of the discard topic on.

    Of `topic` only, if that is not empty. Examines `limit` records.
    """
    first, end = store.indexes.queues.queue_bounds(DISCARD_TOPIC, 0)
    start = max(first, start)
    locations = (
        store.indexes.queues.locate_messages(DISCARD_TOPIC, 0, start, limit, may_block=True) if start < end else []
    )
    found: list[OpenTransaction] = []
    for record in store.reader.read_records(locations, may_block=True):
        if record is None or record.origin is None or store.indexes.halves.is_resolved_late(record.origin.log_offset):
            continue
        discarded = parse_discarded(record)
        if topic in ("", discarded.target_queue[0]):
            transaction = TransactionId(keys_of(record.system)[0], broker, record.origin.log_offset)
            found.append(_discarded_row(store, transaction, discarded))
    following = start + len(locations)
    return DiscardedPage(found, following if following < end else None)


def _discarded_row(store: MessageStore, transaction: TransactionId, discarded: "DiscardedHalf") -> OpenTransaction:
    half = _half_of(store, transaction) if discarded.stored_ms is None else None
    return OpenTransaction(
        transaction_id=str(transaction),
        topic=discarded.target_queue[0],
        message_id=transaction.message_id,
        state=TransactionState.DISCARDED,
        stored_ms=_stored_ms(half, discarded),
        checks=discarded.checks,
    )
