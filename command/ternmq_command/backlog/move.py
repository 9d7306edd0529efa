"""Moving a group's backlog of one topic to another topic, which more consumers can share.

Source      each queue from where the group is up to the end as it was when the move was planned.
Batch       read, sent, and only then passed over: the group's offset in the source moves when every message of the
            batch is stored in the target. So a move that ends anywhere loses nothing, and another one goes on from
            there; the batch that it ended in comes twice.
Order       queue by queue, one request at a time. Messages that must keep an order, those of a message group, travel in
            requests of their own, since all messages of a request go to one queue; a message group never spans queues.
Beginning   before the first message is sent, the group gets an offset in every queue of the target: a group that begins
            at the end of queues that are new to it would pass over what was moved there.

The module imports grpc, so subcommands import it when they run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from ternmq.admin.groups import Group
from ternmq.admin.topics import QueueState, Topic
from ternmq_command.calls.admin import AdminClient
from ternmq_command.calls.messaging import MessagingClient
from ternmq_command.terminal.failures import CommandFailure, Refused, WrongUsage
from ternmq_common.names import group_of_derived
from ternmq_protos.v2 import definition_pb2 as pb

# One request with more would be refused somewhere on the way; a larger message travels alone.
BATCH_BYTES_MAX = 4 * 1024 * 1024
MOVABLE = ("normal", "fifo", "priority")


@dataclass(slots=True)
class Share:
    """What is to move of one queue: the offsets `position` up to, not including, `end`."""

    queue: pb.MessageQueue
    start: int
    end: int
    position: int = field(init=False)
    moved: int = 0

    def __post_init__(self) -> None:
        self.position = self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """A move that may begin: `in_flight` and `members` are why it perhaps should not."""

    group: Group
    topic: Topic
    shares: list[Share]
    in_flight: int
    members: list[str]

    @property
    def total(self) -> int:
        """Offsets to go; retention may have removed messages of them."""
        return sum(share.end - share.start for share in self.shares)

    def check_idle(self) -> None:
        """CommandFailure if somebody in the group is at work on the backlog."""
        if self.members:
            raise CommandFailure(
                f"{len(self.members)} connected members of group {self.group.name} subscribe {self.topic.name}, the "
                f"first is {self.members[0]}: stop them, or give --include-in-flight and let some messages come twice"
            )
        if self.in_flight:
            raise CommandFailure(
                f"{self.in_flight} messages of {self.topic.name} are in flight in group {self.group.name}: wait until "
                "they are acknowledged or their time is over, or give --include-in-flight and let them come twice"
            )


def planned(admin: AdminClient, messaging: MessagingClient, *, group: str, topic: str) -> MovePlan:
    """What a move would do; WrongUsage for a topic whose messages can't be moved."""
    if group_of_derived(topic) is not None:
        raise WrongUsage(f"{topic} belongs to the broker; `ternmq dlq resend --to-topic` sends dead letters elsewhere")
    described_topic, described_group = admin.topic(topic), admin.group(group)
    _check_movable(described_topic.topic)
    progress = [entry for entry in described_group.progress if entry.topic == topic]
    return MovePlan(
        group=described_group.group,
        topic=described_topic.topic,
        shares=[
            share
            for state in described_topic.queues
            if (share := _share(messaging, described_group.group, topic, state)).start < share.end
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
    raise WrongUsage(f"{topic.name} is a {kind} topic, and a backlog of one can't be moved: {reasons.get(kind, kind)}")


def _share(messaging: MessagingClient, group: Group, topic: str, state: QueueState) -> Share:
    queue = _queue(topic, state)
    committed = messaging.committed(group.name, queue)
    start = _beginning(messaging, group, queue, state) if committed is None else max(committed, state.min_offset)
    return Share(queue, start, state.max_offset)


def _queue(topic: str, state: QueueState) -> pb.MessageQueue:
    return pb.MessageQueue(topic=pb.Resource(name=topic), id=state.queue_id, broker=pb.Broker(name=state.broker))


def _beginning(messaging: MessagingClient, group: Group, queue: pb.MessageQueue, state: QueueState) -> int:
    """Where the group begins in a queue that it was never in, by its own setting."""
    if isinstance(group.consume_from, datetime):
        return messaging.offset_at(queue, group.consume_from)
    has_all = state.min_offset == 0
    at_first = group.consume_from == "earliest" or (group.consume_from != "latest" and has_all)
    return state.min_offset if at_first else state.max_offset


class Mover:
    """Carries out a plan towards `target`, which `prepare` makes ready."""

    def __init__(self, admin: AdminClient, messaging: MessagingClient, plan: MovePlan, *, target: str) -> None:
        self._admin, self._messaging, self._plan, self._target = admin, messaging, plan, target

    def prepare(self, queues: int) -> int:
        """Make the target unless it is there, and let the group begin in it; how many queues it has on each broker."""
        try:
            found = self._admin.topic(self._target)
        except Refused as refusal:
            if refusal.code != pb.TOPIC_NOT_FOUND:
                raise
            self._admin.create_topic(self._target, self._plan.topic.type, queues)
            found = self._admin.topic(self._target)
        if found.topic.type != self._plan.topic.type:
            raise CommandFailure(
                f"topic {self._target} is there and takes {found.topic.type} messages, "
                f"those of {self._plan.topic.name} are {self._plan.topic.type}; choose another with --to"
            )
        for state in found.queues:
            self._begin(_queue(self._target, state), state)
        return found.topic.queues

    def _begin(self, queue: pb.MessageQueue, state: QueueState) -> None:
        group = self._plan.group
        if self._messaging.committed(group.name, queue) is None:
            self._messaging.commit(group.name, queue, _beginning(self._messaging, group, queue, state))

    def run(self, batch_max: int) -> Iterator[int]:
        """Move all, and tell after each batch how many messages it had."""
        for share in self._plan.shares:
            # Refused, if it is, before anything was sent: another reader may have the queue for itself.
            self._messaging.commit(self._plan.group.name, share.queue, share.start)
            for batch in batches(self._messaging.messages(share.queue, share.start, share.end), batch_max):
                self._move(share, batch)
                yield len(batch)
            self._pass(share, share.end)

    def _move(self, share: Share, batch: list[pb.Message]) -> None:
        for request in requests(batch):
            self._messaging.send([copy_of(message, self._target) for message in request])
        self._pass(share, batch[-1].system_properties.queue_offset + 1)
        share.moved += len(batch)

    def _pass(self, share: Share, queue_offset: int) -> None:
        if queue_offset > share.position:
            self._messaging.commit(self._plan.group.name, share.queue, queue_offset)
            share.position = queue_offset


def batches(messages: Iterable[pb.Message], count_max: int) -> Iterator[list[pb.Message]]:
    """Up to `count_max` messages and BATCH_BYTES_MAX bytes at a time, at least one."""
    batch, batch_bytes = list[pb.Message](), 0
    for message in messages:
        if batch and batch_bytes + message.ByteSize() > BATCH_BYTES_MAX:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(message)
        batch_bytes += message.ByteSize()
        if len(batch) == count_max:  # at once: reading the next message may fail
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch


def requests(batch: Iterable[pb.Message]) -> list[list[pb.Message]]:
    """The batch in parts that may each go to one queue: by message group, by priority, or all together."""
    parts: dict[tuple[str, int], list[pb.Message]] = {}
    for message in batch:
        properties = message.system_properties
        parts.setdefault((properties.message_group, properties.priority), []).append(message)
    return list(parts.values())


def copy_of(message: pb.Message, topic: str) -> pb.Message:
    """The same message for another topic, without what the server adds to a stored one."""
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
