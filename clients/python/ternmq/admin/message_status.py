"""The status of a message in each consumer group, and its admin call."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ternmq.admin.messages import create_view
from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import INT64_MAX, check_text, check_whole
from ternmq.admin.requests.words import read_moment
from ternmq_protos.admin_v1 import admin_pb2

if TYPE_CHECKING:
    from ternmq.messages.message_view import MessageView


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStatus:
    """The status of a message in one group.

    `state` is `ahead` (the group has not reached it, or it waits behind another of its message group), `held` (a
    consumer has it, `until` its claim ends), `again` (it was delivered, and waits for another delivery), `finished`
    (acknowledged, filtered out or skipped) or `dead`: then `dead_letter_offset` is its offset among the group's dead
    letters. `attempts` are the deliveries so far, which are not known of a finished message."""

    group: str
    state: str
    attempts: int
    until: datetime | None
    dead_letter_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDescription:
    """A message, and its status in each group that consumes its topic."""

    message: "MessageView"
    standings: tuple[MessageStatus, ...]


def describe_message(
    topic: str, queue_id: int, offset: int, *, broker: str = "", lite_topic: str = ""
) -> AdminCall[MessageDescription]:
    """Describe a message by its offset, and its status in each group: finished, in flight, waiting. A lite topic
    has one queue, 0."""
    request = admin_pb2.DescribeMessageRequest(
        topic=check_text("topic", topic),
        queue_id=check_whole("queue_id", queue_id, most=(1 << 31) - 1),
        offset=check_whole("offset", offset, most=INT64_MAX),
        broker=check_text("broker", broker),
        lite_topic=check_text("lite_topic", lite_topic),
    )
    return AdminCall(request, _read_description)


def _read_description(answer: admin_pb2.DescribeMessageResponse) -> MessageDescription:
    return MessageDescription(
        message=create_view(answer.message, answer.broker), standings=tuple(map(_read_status, answer.standings))
    )


def _read_status(status: admin_pb2.Standing) -> MessageStatus:
    has_letter = status.HasField("dead_letter_offset")
    return MessageStatus(
        group=status.group,
        state=admin_pb2.StandingState.Name(status.state).lower(),
        attempts=status.attempts,
        until=read_moment(status.until),
        dead_letter_offset=status.dead_letter_offset if has_letter else None,
    )
