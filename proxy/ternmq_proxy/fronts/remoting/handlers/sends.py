"""Requests that send messages: one (10 and 310), or a batch of one topic (320)."""

from typing import TYPE_CHECKING, Final

from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.names import RETRY_PREFIX, check_group_name
from ternmq_common.shard.hidden_fields import hidden_of
from ternmq_proxy.fronts.remoting.codes import RequestCode, ResponseCode
from ternmq_proxy.fronts.remoting.messages import property_names as names
from ternmq_proxy.fronts.remoting.messages.ordinary_messages import OrdinaryReader
from ternmq_proxy.fronts.remoting.messages.places import number_of_place
from ternmq_proxy.fronts.remoting.messages.recall_handles import show_handle
from ternmq_proxy.fronts.remoting.messages.sent_messages import SentHeader, read_sent_message
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.fronts.remoting.versions import OBEYS_RETRIES_MAX_FROM
from ternmq_proxy.operations.by_queue.send import ChosenQueue, PlacedMessage, send_ordinary_batch, send_to_queue
from ternmq_proxy.operations.by_queue.send_back import SentRetry, send_retry
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_ids import encode_offset_id
from ternmq_rpc.remoting.message_records import decode_batch

if TYPE_CHECKING:
    from ternmq_common.shard.model import NewMessage
    from ternmq_proxy.fronts.remoting.call import ClientConnection, RemotingCall
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage
    from ternmq_proxy.services import Services

_LONG_NAMES: Final = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "bname",
}
_SHORT_NAMES: Final = {long: short for short, long in _LONG_NAMES.items()}
_DEFAULT_QUEUES: Final = 4
_TURN_EVERY: Final = 16


class SendFields:
    """The fields of a send's header, by their long names; in 310 and 320 each has one letter, and in 325."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._is_short = command.code not in (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)

    def _name(self, name: str) -> str:
        return _SHORT_NAMES[name] if self._is_short else name

    def get_text(self, name: str, default: str | None = None) -> str:
        """Return a text."""
        return self._command.get_text(self._name(name), default)

    def get_int(self, name: str, default: int | None = None) -> int:
        """Return a number of 32 bits."""
        return self._command.get_int32(self._name(name), default)

    def get_long(self, name: str, default: int | None = None) -> int:
        """Return a number of 64 bits."""
        return self._command.get_int64(self._name(name), default)

    def get_bool(self, name: str, *, default: bool) -> bool:
        """Return whether a field says so."""
        return self._command.get_bool(self._name(name), default=default)


async def send_message(context: "RemotingCall") -> Command:
    """Answer 10 and 310. The C++ client sends batches by 10 too."""
    if SendFields(context.command).get_bool("batch", default=False):
        return await send_batch(context)
    if not context.command.body:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "the body is empty; a message needs at least one byte")
    placed = await store_sent(context)
    return answer_sent([placed], context.client, transaction_id=placed.message_id)


async def store_sent(context: "RemotingCall") -> PlacedMessage:
    """Store the message of a request that sends one."""
    fields, services = SendFields(context.command), context.services
    header = read_sent_header(fields, context)
    message = read_sent_message(header, context.command.body, services.delay_levels_ms, services.clock.now_ms())
    if header.topic.startswith(RETRY_PREFIX):
        return await _send_retry(message, fields, context)
    chosen = read_chosen_queue(fields, context)
    [placed] = await send_to_queue([message], chosen, context.call, services, size=context.request.size)
    return placed


async def _send_retry(message: "ProducerMessage", fields: SendFields, context: "RemotingCall") -> PlacedMessage:
    """Store a message that a consumer sends to its group's retry queue."""
    retries_max = fields.get_int("maxReconsumeTimes", -1) if context.command.version >= OBEYS_RETRIES_MAX_FROM else -1
    request = SentRetry(
        group=check_group_name(message.topic.removeprefix(RETRY_PREFIX)),
        broker=context.broker,
        topic=hidden_of(message.unknown_system).properties.get(names.RETRY_TOPIC, ""),
        failures=fields.get_int("reconsumeTimes", 0),
        retries_max=retries_max if retries_max >= 0 else None,
    )
    return await send_retry(message, request, context.call, context.services, size=context.request.size)


async def send_batch(context: "RemotingCall") -> Command:
    """Answer a batch (320): messages of one topic and queue, stored together or not at all."""
    command, services = context.command, context.services
    if not command.body:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
    fields = SendFields(command)
    header = read_sent_header(fields, context)
    now_ms = services.clock.now_ms()
    parts = decode_batch(command.body, parts_max=services.request_limits.entries_max)
    chosen = read_chosen_queue(fields, context)
    ordinary = await _read_ordinary(parts, header, now_ms, services)
    if ordinary is not None:
        stored = await send_ordinary_batch(ordinary, chosen, context.call, services, size=context.request.size)
        if stored is not None:
            return answer_sent(stored, context.client)
    messages = [
        read_sent_message(header._replace(flag=flag, properties=properties), body, services.delay_levels_ms, now_ms)
        for flag, body, properties in parts
    ]
    placed = await send_to_queue(messages, chosen, context.call, services, size=context.request.size)
    return answer_sent(placed, context.client)


async def _read_ordinary(
    parts: list[tuple[int, bytes, str]], header: SentHeader, now_ms: int, services: "Services"
) -> "list[NewMessage] | None":
    """Return the messages in stored form; None unless all are ordinary ones."""
    reader = OrdinaryReader(header, now_ms, services.limits)
    turns = WorkTurns()
    messages: list[NewMessage] = []
    for flag, body, properties in parts:
        message = reader.read_message(properties, body, flag)
        if message is None:
            return None
        messages.append(message)
        if len(messages) % _TURN_EVERY == 0:
            await turns.next_turn()
    return messages


def read_sent_header(fields: SendFields, context: "RemotingCall") -> SentHeader:
    """Return the fields of the header that belong to the message."""
    return SentHeader(
        topic=fields.get_text("topic"),
        flag=fields.get_int("flag", 0),
        system_flag=fields.get_int("sysFlag", 0),
        born_ms=fields.get_long("bornTimestamp", 0),
        born_host=context.call.peer,
        properties=fields.get_text("properties", ""),
        reconsume_times=fields.get_int("reconsumeTimes", 0),
    )


def read_chosen_queue(fields: SendFields, context: "RemotingCall") -> ChosenQueue:
    """Return the queue that the producer chose."""
    return ChosenQueue(
        fields.get_text("topic"),
        context.broker,
        fields.get_int("queueId", -1),
        fields.get_int("defaultTopicQueueNums", _DEFAULT_QUEUES),
    )


def answer_sent(placed: "list[PlacedMessage]", client: "ClientConnection", *, transaction_id: str = "") -> Command:
    """Return the answer that names where messages were stored; a single one has a `transaction_id`, its own id."""
    first = placed[0]
    answer_fields = {
        "msgId": ",".join(offset_id(each, client) for each in placed),
        "queueId": str(first.queue.queue_id),
        "queueOffset": str(first.queue_offset),
        names.MESSAGE_REGION: names.REGION,
        names.TRACE_ON: "true",
    }
    if transaction_id:
        answer_fields["transactionId"] = transaction_id
    if first.recall_handle:
        answer_fields["recallHandle"] = show_handle(first.recall_handle)
    return Command(ResponseCode.SUCCESS, fields=answer_fields)


def offset_id(placed: PlacedMessage, client: "ClientConnection") -> str:
    """Return the offset id of a stored message."""
    return encode_offset_id(client.store_host, number_of_place(placed.queue.broker, placed.log_offset))


def complete_answer(answer: Command) -> None:
    """Add to a refusal the fields that each answer to a send has."""
    answer.fields = {**answer.fields, names.MESSAGE_REGION: names.REGION, names.TRACE_ON: "true"}
