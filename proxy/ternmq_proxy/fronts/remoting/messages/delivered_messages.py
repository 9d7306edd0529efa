"""Turns stored messages into the records that 4.x consumers read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet
from librt.strings import BytesWriter

from ternmq_common.shard.hidden_fields import HIDDEN_TAG, NOTHING_HIDDEN, HiddenFields, read_hidden
from ternmq_common.shard.property_text import write_properties
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import Message, SystemProperties
from ternmq_proxy.fronts.remoting.messages import property_names as names
from ternmq_proxy.fronts.remoting.messages.ordinary_records import OrdinaryRecords
from ternmq_proxy.fronts.remoting.messages.places import number_of_place
from ternmq_proxy.operations.by_queue.send import QUEUE_GROUP
from ternmq_rpc.remoting.message_ids import Host, parse_host
from ternmq_rpc.remoting.message_records import PROPERTIES_BYTES_MAX, MessageRecord, encode_record

if TYPE_CHECKING:
    from ternmq_common.shard.model import DeliveredMessage, StoredMessage
    from ternmq_common.shard.transaction_id import TransactionId
    from ternmq_protos.pool import Timestamp

# They wait in topics of the server, by RocketMQ's form of storage, and come into their own from there.
_FROM_ELSEWHERE: Final = (definition_pb2.DELAY, definition_pb2.TRANSACTION)
_SECOND_MS: Final = 1000
_MILLISECOND_NS: Final = 1_000_000
COMMITTED: Final = 8
"""The bits of a system flag by which a message is that of a committed transaction."""


class HalfDetails(NamedTuple):
    """The facts by which the end of a transaction is checked. `immunity_s`: without checks for so long, if the producer
    chose so."""

    producer_group: str
    born_ms: int
    immunity_s: int | None


def read_half(stored: "StoredMessage") -> HalfDetails:
    """Return the details of a half message; its group is empty if no remoting client sent it."""
    system = SystemProperties.FromString(stored.system)
    pairs = read_hidden(UnknownFieldSet(system)).properties
    immunity = pairs.get(names.CHECK_IMMUNITY_TIME, "")
    return HalfDetails(
        pairs.get(names.PRODUCER_GROUP, ""),
        _to_milliseconds(system.born_timestamp),
        int(immunity) if immunity.isascii() and immunity.isdigit() else None,
    )


def _to_milliseconds(stamp: "Timestamp") -> int:
    milliseconds: int = stamp.seconds * _SECOND_MS + stamp.nanos // _MILLISECOND_NS
    return milliseconds


class RecordMaker:
    """Makes records for the connections of one address: `store_host`, which message ids name, and of one `cluster`."""

    def __init__(self, store_host: Host, cluster: str) -> None:
        self._store_host = store_host
        self._cluster = cluster
        self._hosts: dict[str, Host] = {}
        self._ordinary: OrdinaryRecords | None = None  # most connections never need it

    def encode_message(self, stored: "StoredMessage", *, topic: str | None = None, system_flag: int = 0) -> bytes:
        """Return the record of a stored message, under another topic if one is given; `system_flag` adds bits."""
        if topic is None and not system_flag:
            return self.encode_messages([stored])
        return encode_record(self.make_record(stored, topic=topic, system_flag=system_flag))

    def encode_messages(self, messages: "Sequence[StoredMessage]") -> bytes:
        """Return the records of stored messages, one after the other."""
        if self._ordinary is None:
            self._ordinary = OrdinaryRecords(self._store_host, self._cluster)
        ordinary, writer = self._ordinary, BytesWriter()
        for stored in messages:
            if not ordinary.write_message(writer, stored):
                writer.write(encode_record(self.make_record(stored)))
        return writer.getvalue()

    def encode_popped(self, delivery: "DeliveredMessage", topic: str, checkpoint: str) -> bytes:
        """Return the record of a message that was popped, under that topic, with the checkpoint by which its client
        settles it. Its failures are those of the deliveries before."""
        record = self.make_record(delivery.message, topic=topic, added={names.POP_CHECKPOINT: checkpoint})
        return encode_record(record._replace(reconsume_times=delivery.attempt - 1))

    def encode_half(self, stored: "StoredMessage", transaction: "TransactionId") -> bytes:
        """Return the record of a half message, for the transaction check of its producer."""
        number = number_of_place(transaction.broker, transaction.log_offset)
        record = self.make_record(stored)
        return encode_record(
            record._replace(
                queue_offset=transaction.log_offset, log_offset=number, system_flag=record.system_flag & ~COMMITTED
            )
        )

    def make_record(
        self,
        stored: "StoredMessage",
        *,
        topic: str | None = None,
        system_flag: int = 0,
        added: Mapping[str, str] | None = None,
    ) -> MessageRecord:
        """Return the values of the record, with properties that are added. Properties that don't fit together lose
        those of the server."""
        system = SystemProperties.FromString(stored.system)
        rest = Message.FromString(stored.rest)
        hidden = read_hidden(UnknownFieldSet(system)) if HIDDEN_TAG in stored.system else NOTHING_HIDDEN
        pairs = self._write_pairs(stored, system, rest, hidden)
        if added:
            pairs.update(added)
        if int(system.message_type) == definition_pb2.TRANSACTION:
            system_flag |= COMMITTED
        text = write_properties(pairs)
        if len(text) * 4 > PROPERTIES_BYTES_MAX and len(text.encode()) > PROPERTIES_BYTES_MAX:
            text = _fit_properties(pairs)
        return MessageRecord(
            stored.queue.topic if topic is None else topic,
            rest.body,
            text,
            stored.queue.queue_id,
            stored.queue_offset,
            number_of_place(stored.queue.broker, stored.log_offset),
            hidden.flag,
            hidden.system_flag | system_flag,
            _to_milliseconds(system.born_timestamp),
            self._find_host(system.born_host),
            stored.stored_ms,
            self._store_host,
            hidden.reconsume_times,
            0 if stored.half_offset < 0 else number_of_place(stored.queue.broker, stored.half_offset),
        )

    def _write_pairs(
        self, stored: "StoredMessage", system: "SystemProperties", rest: "Message", hidden: HiddenFields
    ) -> dict[str, str]:
        pairs = dict(hidden.properties)
        pairs.update(rest.user_properties.items())
        pairs[names.UNIQUE_KEY] = system.message_id
        if system.keys:
            pairs[names.KEYS] = " ".join(system.keys)
        if system.tag:
            pairs[names.TAGS] = system.tag
        if system.message_group and system.message_group != f"{QUEUE_GROUP}{stored.queue.queue_id}":
            pairs[names.SHARDING_KEY] = system.message_group
        if system.HasField("trace_context"):
            pairs[names.TRACE_CONTEXT] = system.trace_context
        kind = int(system.message_type)
        if kind in _FROM_ELSEWHERE:
            pairs[names.REAL_TOPIC], pairs[names.REAL_QUEUE_ID] = stored.queue.topic, str(stored.queue.queue_id)
        if kind == definition_pb2.TRANSACTION:
            pairs[names.TRANSACTION_PREPARED] = "true"
        elif kind == definition_pb2.DELAY and not names.DELAYS.intersection(pairs):
            pairs[names.TIMER_DELIVER_MS] = str(_to_milliseconds(system.delivery_timestamp))
        pairs[names.MESSAGE_REGION] = names.REGION
        pairs[names.TRACE_ON] = "true"
        pairs[names.CLUSTER] = self._cluster
        return pairs

    def _find_host(self, text: str) -> Host:
        host = self._hosts.get(text)
        if host is None:
            if len(self._hosts) >= 1000:
                self._hosts.clear()
            host = self._hosts[text] = parse_host(text)
        return host


def _fit_properties(pairs: dict[str, str]) -> str:
    """Return the text of as many properties as fit, those of the message itself first."""
    kept: dict[str, str] = {}
    left = PROPERTIES_BYTES_MAX
    first = (names.POP_CHECKPOINT, names.UNIQUE_KEY, names.TAGS, names.KEYS)
    for name in sorted(pairs, key=lambda name: name not in first):
        left -= len(name.encode()) + len(pairs[name].encode()) + 2
        if left < 0:
            break
        kept[name] = pairs[name]
    return write_properties(kept)
