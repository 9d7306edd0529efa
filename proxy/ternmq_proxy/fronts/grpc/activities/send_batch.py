"""SendMessage of many ordinary messages, read from the bytes of the request as in `sent_messages`.

A request that is too long for `begin_send` is read in steps of half a millisecond, between which other tasks get
turns. Messages of a FIFO or LITE topic may be of several message groups or lite topics: each has an entry with its
outcome. Other messages are left to `send_message`.
"""

from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_protos.v2.service_pb2 import SendMessageResponse, SendResultEntry
from ternmq_proxy.fronts.grpc.activities.request_bytes import resource_name
from ternmq_proxy.fronts.grpc.activities.sent_form import serialize_sent_apart
from ternmq_proxy.fronts.grpc.activities.sent_messages import MESSAGES_TAG, SendContext, read_sent_message
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status, overall_status
from ternmq_proxy.fronts.wire_fields import NotOrdinary, content_span
from ternmq_proxy.operations.send_ordinary import OrderKey, ordinary_type, send_ordinary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import NewMessage
    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.send_ordinary import OrdinaryResults
    from ternmq_proxy.services import Services

# A tenth of a millisecond, unless the last one is large.
_STEP_MESSAGES: Final = 16
_STEP_BYTES: Final = 64 << 10
# The bytes whose checksum takes 0.13 ms, and four times as long without SHA instructions.
_MESSAGE_BYTES_MAX: Final = 256 << 10


class _SendBatch:
    """The messages of a request as far as it was read, and their order keys."""

    def __init__(self, data: bytes, sender: SendContext, most: int) -> None:
        self._data = data
        self._sender = sender
        self._most = most
        self._at = 0
        self._topic = b""
        self.messages: list[NewMessage] = []
        self.order_keys: list[OrderKey] = []

    def read_some(self) -> bool:
        """Read some more messages; return whether others follow. Raises NotOrdinary, also for messages of several
        topics and for too many."""
        data, at = self._data, self._at
        end = len(data)
        stop = min(end, at + _STEP_BYTES)
        for _ in range(_STEP_MESSAGES):
            if at >= stop:
                break
            if data[at] != MESSAGES_TAG or len(self.messages) == self._most:
                raise NotOrdinary
            begin, at = content_span(data, at + 1, end)
            if at - begin > _MESSAGE_BYTES_MAX:
                raise NotOrdinary  # their digest takes long, and is computed in a thread
            topic, order_key, message = read_sent_message(data, begin, at, self._sender)
            if topic != self._topic:
                if self.messages:
                    raise NotOrdinary
                self._topic = topic
            self.messages.append(message)
            self.order_keys.append(order_key)
        self._at = at
        return at < end

    @property
    def topic_name(self) -> str:
        """The name of the topic. Raises NotOrdinary and DecodeError."""
        return resource_name(self._topic)

    def check_type(self) -> None:
        """Raise NotOrdinary unless all messages are of one type."""
        if len({ordinary_type(order_key) for order_key in set(self.order_keys)}) != 1:
            raise NotOrdinary


async def send_batch(data: bytes, call: "Call", services: "Services") -> tuple[bytes, "definition_pb2.Status"] | None:
    """Store the messages, and return the serialized answer and its status. Return None, with nothing done, if the
    request is not ordinary or is wrong; see `send_ordinary`, which lists the errors too."""
    sender = SendContext(call.peer, services.clock.now_ms(), services.limits)
    batch, turns = _SendBatch(data, sender, services.request_limits.entries_max), WorkTurns()
    try:
        while batch.read_some():
            await turns.next_turn()
        name = batch.topic_name
        batch.check_type()
    except (NotOrdinary, IndexError, UnicodeDecodeError, DecodeError):
        return None
    messages = batch.messages
    results = await send_ordinary(name, batch.order_keys, messages, len(data), call, services, turns)
    if results is None:
        return None
    if not results.errors:
        return serialize_sent_apart(messages, results.offsets), OK
    answer = _partial_answer(messages, results)
    return answer.SerializeToString(), answer.status


def _partial_answer(messages: "Sequence[NewMessage]", results: "OrdinaryResults") -> SendMessageResponse:
    entries: list[SendResultEntry] = []
    for number, message in enumerate(messages):
        error, message_id = results.errors.get(number), message.message_id
        if error is None:
            offset = results.offsets[number]
            entry = SendResultEntry(status=OK, message_id=message_id, transaction_id=message_id, offset=offset)
        else:
            entry = SendResultEntry(status=make_status(error.code, error.message), message_id=message_id)
        entries.append(entry)
    return SendMessageResponse(status=overall_status([entry.status for entry in entries]), entries=entries)
