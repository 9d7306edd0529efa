"""Moves a group's backlog of one topic to another topic, which more consumers can share.

Source      each queue from the group's offset to the end that the queue had when the move was planned.
Batch       is read, sent, and only then committed: the group's offset in the source moves when every message of the
            batch is stored in the target. So an interrupted move loses nothing, and the next one continues there; the
            batch at which it stopped is delivered twice.
Order       queue by queue, one request at a time. Messages of a message group, which keep their order, have requests of
            their own, since all messages of a request go to one queue; a message group never spans queues.
Beginning   before the first message is sent, the group gets an offset in every queue of the target: a group that begins
            at the end of new queues would skip the moved messages.

The module imports grpc, so subcommands import it when they run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, cast

from ternmq.admin import groups as group_calls
from ternmq.admin import topics as topic_calls
from ternmq.admin.groups import Group
from ternmq.admin.topics import QueueState, Topic
from ternmq_command.calls.admin import AdminClient
from ternmq_command.calls.messaging import MessagingClient
from ternmq_command.terminal.failures import CallRefused, CommandFailure, WrongUsage
from ternmq_common.names import group_of_derived
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from ternmq.admin.requests.words import TopicType

# A larger request would be refused on the way; a larger message has a request of its own.
BATCH_BYTES_MAX = 4 * 1024 * 1024
MOVABLE = ("normal", "fifo", "priority")


@dataclass(slots=True)
class QueueShare:
    """The messages of one queue that move: offsets from `position` to before `end`."""

    queue: pb.MessageQueue
    start: int
    end: int
    position: int = field(init=False)
    moved: int = 0

    def __post_init__(self) -> None:
        self.position = self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """A planned move; `in_flight` messages and connected `members` are reasons not to begin."""

    group: Group
    topic: Topic
    shares: list[QueueShare]
    in_flight: int
    members: list[str]

    @property
    def total(self) -> int:
        """The number of offsets to move; retention may have removed some of their messages."""
        return sum(share.end - share.start for share in self.shares)

    def check_idle(self) -> None:
        """Raise CommandFailure if members of the group are consuming the backlog."""
        if self.members:
            raise CommandFailure(
                f"{len(self.members)} connected members of group {self.group.name} subscribe to {self.topic.name}, "
                f"first {self.members[0]}: stop them, or give --include-in-flight, and some messages come twice"
            )
        if self.in_flight:
            raise CommandFailure(
                f"{self.in_flight} messages of {self.topic.name} are in flight in group {self.group.name}: wait until "
                "they are acknowledged or invisible no more, or give --include-in-flight, and they are delivered twice"
            )


def plan_move(admin: AdminClient, messaging: MessagingClient, *, group: str, topic: str) -> MovePlan:
    """Plan a move; raises WrongUsage for a topic whose messages can't be moved."""

    if group_of_derived(topic) is not None:
        raise WrongUsage(f"{topic} belongs to the broker; `ternmq dlq resend --to-topic` sends dead letters elsewhere")
    described_topic = admin.send_call(topic_calls.describe_topic(topic))
    described_group = admin.send_call(group_calls.describe_group(group))
    _check_movable(described_topic.topic)
    progress = [entry for entry in described_group.progress if entry.topic == topic]
    return MovePlan(
        group=described_group.group,
        topic=described_topic.topic,
        shares=[
            share
            for state in described_topic.queues
            if (share := _queue_share(messaging, described_group.group, topic, state)).start < share.end
        ],
        in_flight=sum(entry.in_flight for entry in progress),
        members=[member.client_id for member in described_group.members if topic in member.subscriptions],
    )


def _check_movable(topic: Topic) -> None:
    if topic.type in MOVABLE:
        return
    kind = topic.type
    reasons = {
        "delay": "its messages were timed when they were sent",
        "transaction": "its messages belong to transactions of their producers",
        "lite": "its messages belong to lite topics, which have no queues to share",
    }
    raise WrongUsage(f"{topic.name} is a {kind} topic, whose backlog can't be moved: {reasons.get(kind, kind)}")


def _queue_share(messaging: MessagingClient, group: Group, topic: str, state: QueueState) -> QueueShare:
    queue = _message_queue(topic, state)
    committed = messaging.committed_offset(group.name, queue)
    start = (
        _group_start_offset(messaging, group, queue, state) if committed is None else max(committed, state.min_offset)
    )
    return QueueShare(queue, start, state.max_offset)


def _message_queue(topic: str, state: QueueState) -> pb.MessageQueue:
    return pb.MessageQueue(topic=pb.Resource(name=topic), id=state.queue_id, broker=pb.Broker(name=state.broker))


def _group_start_offset(messaging: MessagingClient, group: Group, queue: pb.MessageQueue, state: QueueState) -> int:
    """Return where the group begins, by its setting, in a queue without an offset."""
    if isinstance(group.consume_from, datetime):
        return messaging.offset_at(queue, group.consume_from)
    has_all = state.min_offset == 0
    at_first = group.consume_from == "earliest" or (group.consume_from != "latest" and has_all)
    return state.min_offset if at_first else state.max_offset


class BacklogMover:
    """Carries out a plan; `prepare_target` comes before `move_all`."""

    def __init__(self, admin: AdminClient, messaging: MessagingClient, plan: MovePlan, *, target: str) -> None:
        self._admin, self._messaging, self._plan, self._target = admin, messaging, plan, target

    def prepare_target(self, queues: int) -> int:
        """Create the target topic if it does not exist, and set the group's offsets in it.

        Returns its number of queues on each broker.
        """

        try:
            found = self._admin.send_call(topic_calls.describe_topic(self._target))
        except CallRefused as refusal:
            if refusal.code != pb.TOPIC_NOT_FOUND:
                raise
            kind = cast("TopicType", self._plan.topic.type)
            self._admin.send_call(topic_calls.create_topic(self._target, kind, queues))
            found = self._admin.send_call(topic_calls.describe_topic(self._target))
        if found.topic.type != self._plan.topic.type:
            raise CommandFailure(
                f"topic {self._target} exists with type {found.topic.type}, "
                f"and {self._plan.topic.name} has type {self._plan.topic.type}; choose another with --to"
            )
        for state in found.queues:
            self._set_start_offset(_message_queue(self._target, state), state)
        return found.topic.queues

    def _set_start_offset(self, queue: pb.MessageQueue, state: QueueState) -> None:
        group = self._plan.group
        if self._messaging.committed_offset(group.name, queue) is None:
            self._messaging.commit_offset(group.name, queue, _group_start_offset(self._messaging, group, queue, state))

    def move_all(self, batch_max: int) -> Iterator[int]:
        """Move all messages, and yield the number of messages of each batch."""
        for share in self._plan.shares:
            # Commits first, so that a refusal comes before the first send: another reader may hold the queue lock.
            self._messaging.commit_offset(self._plan.group.name, share.queue, share.start)
            for batch in split_batches(self._messaging.read_messages(share.queue, share.start, share.end), batch_max):
                self._move_batch(share, batch)
                yield len(batch)
            self._advance_offset(share, share.end)

    def _move_batch(self, share: QueueShare, batch: list[pb.Message]) -> None:
        for request in split_requests(batch):
            self._messaging.send_messages([copy_message(message, self._target) for message in request])
        self._advance_offset(share, batch[-1].system_properties.queue_offset + 1)
        share.moved += len(batch)

    def _advance_offset(self, share: QueueShare, queue_offset: int) -> None:
        if queue_offset > share.position:
            self._messaging.commit_offset(self._plan.group.name, share.queue, queue_offset)
            share.position = queue_offset


def split_batches(messages: Iterable[pb.Message], count_max: int) -> Iterator[list[pb.Message]]:
    """Yield batches of up to `count_max` messages and BATCH_BYTES_MAX bytes, with at least one message."""
    batch, batch_bytes = list[pb.Message](), 0
    for message in messages:
        if batch and batch_bytes + message.ByteSize() > BATCH_BYTES_MAX:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(message)
        batch_bytes += message.ByteSize()
        if len(batch) == count_max:  # before the next message is read, which may fail
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch


def split_requests(batch: Iterable[pb.Message]) -> list[list[pb.Message]]:
    """Split the batch into requests, each of which may go to one queue: by message group and priority."""
    parts: dict[tuple[str, int], list[pb.Message]] = {}
    for message in batch:
        properties = message.system_properties
        parts.setdefault((properties.message_group, properties.priority), []).append(message)
    return list(parts.values())


def copy_message(message: pb.Message, topic: str) -> pb.Message:
    """Copy the message for another topic, without the fields that the server adds to a stored one."""
    stored = message.system_properties
    properties = pb.SystemProperties(
        keys=stored.keys,
        message_id=stored.message_id,
        body_encoding=stored.body_encoding,
        message_type=stored.message_type,
        born_timestamp=stored.born_timestamp,
        born_host=stored.born_host,
    )
    for name in ("tag", "message_group", "trace_context", "priority"):
        if stored.HasField(name):
            setattr(properties, name, getattr(stored, name))
    return pb.Message(
        topic=pb.Resource(name=topic),
        user_properties=message.user_properties,
        system_properties=properties,
        body=message.body,
    )
