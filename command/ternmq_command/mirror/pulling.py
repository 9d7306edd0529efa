"""Pulls from either cluster, and checks that each answer is for the requested queue and offset."""

from typing import NamedTuple

from ternmq_command.calls.remoting_calls import RemotingUnreachable, check_answer
from ternmq_command.calls.remoting_link import RemotingLink
from ternmq_command.mirror.positions import Queue
from ternmq_rpc.remoting.commands import Command, InvalidField
from ternmq_rpc.remoting.message_records import InvalidRecord, MessageRecord, decode_records

ANSWER_BYTES_MAX = 256 * 1024 * 1024
_PULL = 11
_FOUND, NOTHING, _AGAIN, _MOVED = 0, 19, 20, 21
_MAY_WAIT, _HAS_FILTER = 2, 4
_SLACK_S = 10.0


class Pulled(NamedTuple):
    """The answer to a pull: messages in order, and the next offset. The queue has offsets `minimum` up to `maximum`;
    `is_moved` if the offset was outside of that."""

    records: list[MessageRecord]
    next_offset: int
    minimum: int
    maximum: int
    is_moved: bool


async def pull_messages(
    link: RemotingLink, group: str, queue: Queue, offset: int, *, most: int, wait_s: float = 0.0
) -> Pulled:
    """Pull messages from the offset on; wait so long for the first one. RemotingRefused, RemotingUnreachable."""
    fields = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(most),
        "sysFlag": str(_HAS_FILTER | (_MAY_WAIT if wait_s else 0)),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(int(wait_s * 1000)),
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
        "bname": queue.broker,
    }
    answer = await link.request(_PULL, fields, timeout_s=wait_s + _SLACK_S)
    try:
        return read_pulled(answer, queue, offset)
    except (InvalidField, InvalidRecord) as error:
        raise RemotingUnreachable(f"{link.address} answers a pull of {queue.topic} with nonsense: {error}") from None
    except ValueError:
        check_answer(answer, _PULL, link.address)
        raise


def read_pulled(answer: Command, queue: Queue, offset: int) -> Pulled:
    """Return what an answer has. InvalidField or InvalidRecord if it is not as it must be; ValueError for a refusal."""
    if answer.code not in (_FOUND, NOTHING, _AGAIN, _MOVED):
        raise ValueError(answer.code)
    next_offset = answer.get_int64("nextBeginOffset")
    minimum, maximum = answer.get_int64("minOffset", 0), answer.get_int64("maxOffset", 0)
    if min(next_offset, minimum, maximum) < 0:
        raise InvalidField("an offset is negative")
    if answer.code == _MOVED:
        return Pulled([], next_offset, minimum, maximum, is_moved=True)
    records = decode_records(answer.body) if answer.code == _FOUND else []
    before = offset - 1
    for record in records:
        if record.topic != queue.topic or record.queue_id != queue.queue_id:
            raise InvalidRecord(f"a message is of queue {record.queue_id} of another topic or queue")
        if record.queue_offset <= before:
            raise InvalidRecord(f"a message has offset {record.queue_offset}, and comes behind {before}")
        before = record.queue_offset
    if next_offset <= before:
        raise InvalidField(f"the next offset is {next_offset}, and {before} was before it")
    return Pulled(records, next_offset, minimum, maximum, is_moved=False)
