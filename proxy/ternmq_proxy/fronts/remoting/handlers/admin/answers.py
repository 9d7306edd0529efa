"""Forms that several answers to operators' tools have."""

from typing import TYPE_CHECKING

from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.json_dialect import MessageQueueKey, decode_dialect, encode_dialect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ternmq_common.shard.model import QueueRef
    from ternmq_proxy.fronts.remoting.call import RemotingCall

_BITS, _SIGN = 0xFFFFFFFF, 1 << 31


def answer_json(body: object, **fields: object) -> Command:
    """Return a success with this body and these header fields."""
    return Command(
        ResponseCode.SUCCESS, fields={name: str(value) for name, value in fields.items()}, body=encode_dialect(body)
    )


def answer_names(names: "Iterable[str]") -> Command:
    """Return a success with a list of topics."""
    return answer_json({"topicList": list(names)})


def answer_done() -> Command:
    """Return a success without content."""
    return Command(ResponseCode.SUCCESS)


def refuse_always(
    why: str, code: ResponseCode = ResponseCode.SYSTEM_ERROR
) -> "Callable[[RemotingCall], Awaitable[Command]]":
    """Return a handler that refuses what can't be done here, in words."""

    async def refuse_request(context: "RemotingCall") -> Command:
        del context
        raise RequestRefused(code, why)

    return refuse_request


def read_object(body: bytes) -> "Mapping[object, object]":
    """Return the object that a body must be."""
    content = decode_dialect(body)
    if not isinstance(content, dict):
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "the body is no JSON object")
    return content


def read_objects(body: bytes, name: str) -> "list[Mapping[object, object]]":
    """Return the objects of the list that a body has under that name, or is itself."""
    content = decode_dialect(body)
    listed = content.get(name) if isinstance(content, dict) else content
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"the body has no list {name} of objects")
    return listed


def read_text(content: "Mapping[object, object]", name: str) -> str:
    """Return a text of a body, empty if it is missing."""
    value = content.get(name)
    return value if isinstance(value, str) else ""


def read_number(content: "Mapping[object, object]", name: str, default: int) -> int:
    """Return a number of a body."""
    value = content.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def queue_key(queue: "QueueRef") -> MessageQueueKey:
    """Return a queue as a key of a map."""
    return MessageQueueKey(queue.topic, queue.broker, queue.queue_id)


def queue_object(queue: "QueueRef") -> dict[str, object]:
    """Return a queue as a value."""
    return {"brokerName": queue.broker, "queueId": queue.queue_id, "topic": queue.topic}


def java_hash(text: str) -> int:
    """Return the hash of a text as Java's `String.hashCode`: 32 bits, with a sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & _BITS
    return value - (value & _SIGN) * 2
