"""The status of a message in each consumer group, and its admin call."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ternmq.admin.call import AdminCall
from ternmq.admin.checks import INT64_MAX, text, whole
from ternmq.admin.messages import view_of
from ternmq.admin.words import moment_of
from ternmq_protos.admin_v1 import admin_pb2

if TYPE_CHECKING:
    from ternmq.message_view import MessageView


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
    request = admin_pb2.DescribeMessageRequest(
        topic=text("topic", topic),
        queue_id=whole("queue_id", queue_id, most=(1 << 31) - 1),
        offset=whole("offset", offset, most=INT64_MAX),
        broker=text("broker", broker),
        lite_topic=text("lite_topic", lite_topic),
    )
    return AdminCall("DescribeMessage", request, admin_pb2.DescribeMessageResponse, _described)


def _described(answer: admin_pb2.DescribeMessageResponse) -> MessageDescription:
    return MessageDescription(
        message=view_of(answer.message, answer.broker), standings=tuple(map(_status, answer.standings))
    )


def _status(status: admin_pb2.Standing) -> MessageStatus:
    has_letter = status.HasField("dead_letter_offset")
    return MessageStatus(
        group=status.group,
        state=admin_pb2.StandingState.Name(status.state).lower(),
        attempts=status.attempts,
        until=moment_of(status.until),
        dead_letter_offset=status.dead_letter_offset if has_letter else None,
    )
