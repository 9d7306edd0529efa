"""Plans the move of a group's backlog in a topic, by the rules of `ternmq backlog move`.

Start       where the group is in each queue, or where it would begin in one that it was never in
End         the end of each queue when the move was planned: what is sent from then on stays
Movable     NORMAL and FIFO topics. Delivery times, transactions and priorities can't be read from a stored message, or
            not be sent again
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark_ternmq.pipelines.administration import PipelineAdministrator
from pyspark_ternmq.source.offsets.places import Offsets
from pyspark_ternmq.source.topics import queue_name
from ternmq.connections.route import RouteQueue
from ternmq_common.names import group_of_derived
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb

MOVABLE = (pb.NORMAL, pb.FIFO)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BacklogRefused(Exception):
    """The backlog can't be moved, or should not be now; the message says why."""


@dataclass(frozen=True, slots=True)
class BacklogPlan:
    """The offsets to move, `starts` up to, not including, `ends`, of one topic's queues that have some."""

    topic: str
    starts: Mapping[str, int]
    ends: Mapping[str, int]

    @property
    def total(self) -> int:
        """Offsets, of which retention may have removed some."""
        return sum(end - self.starts[name] for name, end in self.ends.items())

    def as_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "starts": dict(self.starts), "ends": dict(self.ends)}

    def whole(self, offsets: Mapping[str, int], queues: Iterable[str]) -> Offsets:
        """Offsets of all queues, as the source wants them: of those that have no part, nothing is read."""
        return {self.topic: {name: offsets.get(name, 0) for name in queues}}


def plan_move(admin: PipelineAdministrator, *, group: str, topic: str) -> BacklogPlan:
    """Return the backlog to move now. Raises BacklogRefused for a topic whose messages can't be moved."""
    described = admin.describe_topic(topic).topic
    check_movable(described)
    consume_from = admin.describe_group(group).group.consume_from
    queues = admin.queues(topic)
    ends = dict(zip(queues, admin.offsets(queues, "latest"), strict=True))
    first = dict(zip(queues, admin.offsets(queues, "earliest"), strict=True))
    starts = {}
    for queue in queues:
        committed = admin.committed(group, queue)
        begin = first_offset(admin, consume_from, queue, first[queue], ends[queue])
        starts[queue] = begin if committed is None else max(committed, first[queue])
    behind = [queue for queue in queues if starts[queue] < ends[queue]]
    return BacklogPlan(
        topic,
        {queue_name(queue): starts[queue] for queue in behind},
        {queue_name(queue): ends[queue] for queue in behind},
    )


def check_movable(topic: admin_pb2.Topic) -> None:
    if group_of_derived(topic.name) is not None:
        raise BacklogRefused(f"{topic.name} belongs to the broker; `ternmq pipeline dlq` sends dead letters elsewhere")
    if topic.type not in MOVABLE:
        raise BacklogRefused(
            f"{topic.name} is a {type_name(topic)} topic: this pipeline moves normal and fifo topics. `ternmq backlog "
            "move` knows more kinds"
        )


def check_idle(group: admin_pb2.DescribeGroupResponse, topic: str) -> None:
    """BacklogRefused if somebody in the group is at work on the topic."""
    members = [member.client_id for member in group.members if topic in member.subscriptions]
    if members:
        raise BacklogRefused(
            f"{len(members)} connected members of group {group.group.name} subscribe {topic}, the first is "
            f"{members[0]}: stop them, or include what is in flight and let some messages come twice"
        )
    in_flight = sum(entry.in_flight for entry in group.progress if entry.topic == topic)
    if in_flight:
        raise BacklogRefused(
            f"{in_flight} messages of {topic} are in flight in group {group.group.name}: wait until they are "
            "acknowledged or their time is over, or include them and let them come twice"
        )


def first_offset(admin: PipelineAdministrator, consume_from: str, queue: RouteQueue, first: int, end: int) -> int:
    """Return where a group begins in a queue that it never read, by its own setting."""
    if consume_from.isdigit():
        return admin.offset(queue, _EPOCH + timedelta(milliseconds=int(consume_from)))
    has_all = first == 0
    return first if consume_from == "earliest" or (consume_from != "latest" and has_all) else end


def type_name(topic: admin_pb2.Topic) -> str:
    return pb.MessageType.Name(topic.type).lower()
