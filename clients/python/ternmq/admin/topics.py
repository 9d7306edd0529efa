"""Topics, and their admin calls."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict, Unpack

from ternmq.admin.given_settings import read_given, write_given
from ternmq.admin.requests.call import AdminCall, read_nothing
from ternmq.admin.requests.checks import check_choice, check_moment, check_text, check_texts
from ternmq.admin.requests.words import MIXED, TYPES, Flush, Permission, Replication, TopicType, read_moment, word_of
from ternmq.times.wire_time import to_nanos, to_timestamp
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS
from ternmq_protos.admin_v1 import admin_pb2

# It removes from the files of all queues of a topic, one after the other.
PURGE_TIMEOUT_S = 60


class TopicSettings(TypedDict, total=False):
    """Settings of a topic besides its queues. One that is left out or None is the server's default for a new topic, and
    unchanged for an existing one."""

    permission: Permission | None
    """The permission of clients."""

    replication: Replication | None
    """When sends to brokers with replicas are answered: when all in-sync replicas have the message, or the leader has
    it, or as each shard is set."""

    flush: Flush | None
    """When a broker acknowledges messages: after a `sync` of its disk, before that (`async`), or as each is set."""

    retention: timedelta | None
    """Older messages are removed; 0: by the brokers' retention."""

    lite_ttl: timedelta | None
    """In a topic of type lite, a lite topic to which nothing was sent for so long, at least 15 minutes, is dropped; 0:
    when its messages are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic. `type` is a `TopicType` and `permission` a `Permission`, or a newer server's word.

    `queues` is how many message queues it has on each of its `brokers`; a server that is its own broker names none.
    `replication` is when its sends to shards with replicas are answered: `sync`, `async`, or as each `shard` is set.
    `identity` differs when a topic of this name was deleted and created again; it is empty if the server does not send
    it. `flush` is when a broker acknowledges its messages: after a `sync` of its disk, before that (`async`), or as
    each `broker` is set. Messages older than `retention` are removed; None: by the brokers' retention. In a topic of
    type lite, a lite topic to which nothing was sent for `lite_ttl` is dropped; None: when its messages are."""

    name: str
    type: str
    queues: int
    permission: str
    brokers: tuple[str, ...]
    created: datetime | None
    replication: str = "shard"
    identity: str = ""
    flush: str = "broker"
    retention: timedelta | None = None
    lite_ttl: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The messages of a message queue: offsets from `min_offset` up to, not including, `max_offset`. With
    `contents` also about how many bytes they take (`size`), and when the first was stored. `purged_below`: where the
    queue began after the last purge, 0 if there was none; None if the broker does not report it."""

    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    size: int | None = None
    oldest: datetime | None = None
    purged_below: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and its queues, without those of `silent_brokers`, which don't answer. With `contents` also the groups
    that have received messages of it or subscribe it, and messages a second over the last ten seconds. A LITE topic has
    `lite_topics` lite topics with `lite_messages` messages together; its own queues are empty."""

    topic: Topic
    queues: tuple[QueueState, ...]
    silent_brokers: tuple[str, ...]
    groups: tuple[str, ...] = ()
    messages_in: float | None = None
    messages_out: float | None = None
    lite_topics: int | None = None
    lite_messages: int | None = None

    @property
    def messages(self) -> int:
        """How many messages it has, including those of its lite topics."""
        return sum(queue.max_offset - queue.min_offset for queue in self.queues) + (self.lite_messages or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedQueue:
    """A purged queue: its offsets began at `first`, and begin at `after` now."""

    broker: str
    queue_id: int
    first: int
    after: int

    @property
    def removed(self) -> int:
        """How many messages were removed."""
        return self.after - self.first


def create_topic(
    name: str,
    type: TopicType = "normal",  # noqa: A002 - it is called so everywhere
    queues: int | None = None,
    *,
    brokers: Iterable[str] = (),
    **settings: Unpack[TopicSettings],
) -> AdminCall[bool]:
    """Create a topic; False if it exists with the same settings, `BadRequest` if with others.

    `queues` is how many message queues it has on each of its brokers. What is left out is the server's default; a
    topic is on all brokers of a cluster unless some are named.
    """
    topic = admin_pb2.Topic(
        name=check_text("name", name),
        type=TYPES[check_choice("type", type, list(TYPES))],
        brokers=check_texts("brokers", brokers),
        mixed=type == MIXED,
    )
    write_given(topic, "a topic has no setting", TOPIC_SETTINGS, {"queues": queues, **settings})
    return AdminCall(admin_pb2.CreateTopicRequest(topic=topic), lambda answer: answer.created)


def list_topics(names: Iterable[str] = (), *, search: str = "") -> AdminCall[list[Topic]]:
    """List all topics by name, or those of `names` that exist, including retry and dead letter topics. With
    `search` only those whose name contains it, in any case."""
    request = admin_pb2.ListTopicsRequest(names=check_texts("names", names), search=check_text("search", search))
    return AdminCall(request, _read_list)


def describe_topic(name: str, *, contents: bool = False) -> AdminCall[TopicDescription]:
    """Describe a topic and its queues. `contents` adds sizes, ages, groups and rates, which cost more."""
    request = admin_pb2.DescribeTopicRequest(name=check_text("name", name), contents=contents)
    return AdminCall(request, _read_description)


def update_topic(
    name: str,
    *,
    queues: int | None = None,
    add_brokers: Iterable[str] = (),
    remove_brokers: Iterable[str] = (),
    **settings: Unpack[TopicSettings],
) -> AdminCall[Topic]:
    """Change a topic; what is left out stays. Queues can be added but not removed. Returns the changed topic.

    A broker can be removed when it is draining, or nobody can write to the topic: its messages are lost.
    """
    request = admin_pb2.UpdateTopicRequest(
        name=check_text("name", name),
        added_brokers=check_texts("add_brokers", add_brokers),
        removed_brokers=check_texts("remove_brokers", remove_brokers),
    )
    write_given(request, "a topic has no setting", TOPIC_SETTINGS, {"queues": queues, **settings})
    return AdminCall(request, lambda answer: _read_topic(answer.topic))


def delete_topic(name: str) -> AdminCall[None]:
    """Delete a topic with all its messages."""
    request = admin_pb2.DeleteTopicRequest(name=check_text("name", name))
    return AdminCall(request, read_nothing)


def purge_topic(name: str, *, before: datetime | None = None, dry_run: bool = False) -> AdminCall[list[PurgedQueue]]:
    """Remove a topic's messages, all or those that were stored before a time, and keep the topic. Groups continue
    with what is left; delayed and half messages stay."""
    request = admin_pb2.PurgeTopicRequest(name=check_text("name", name), dry_run=dry_run)
    if before is not None:
        request.before.CopyFrom(to_timestamp(to_nanos(check_moment("before", before))))
    return AdminCall(request, _read_purged, at_least_s=PURGE_TIMEOUT_S)


def _read_list(answer: admin_pb2.ListTopicsResponse) -> list[Topic]:
    return sorted(map(_read_topic, answer.topics), key=lambda topic: topic.name)


def _read_purged(answer: admin_pb2.PurgeTopicResponse) -> list[PurgedQueue]:
    queues = (
        PurgedQueue(broker=queue.broker, queue_id=queue.queue_id, first=queue.first, after=queue.after)
        for queue in answer.queues
    )
    return sorted(queues, key=lambda queue: (queue.broker, queue.queue_id))


def _read_description(answer: admin_pb2.DescribeTopicResponse) -> TopicDescription:
    return TopicDescription(
        topic=_read_topic(answer.topic),
        queues=tuple(map(_read_queue, answer.queues)),
        silent_brokers=tuple(answer.silent_brokers),
        groups=tuple(answer.groups),
        messages_in=answer.messages_in if answer.HasField("messages_in") else None,
        messages_out=answer.messages_out if answer.HasField("messages_out") else None,
        lite_topics=answer.lite_topics if answer.HasField("lite_topics") else None,
        lite_messages=answer.lite_messages if answer.HasField("lite_messages") else None,
    )


def _read_topic(topic: admin_pb2.Topic) -> Topic:
    return Topic(
        name=topic.name,
        type=MIXED if topic.mixed else word_of(topic.type, TYPES),
        brokers=tuple(topic.brokers),
        created=read_moment(topic.created),
        identity=topic.identity,
        **read_given(topic, TOPIC_SETTINGS),
    )


def _read_queue(queue: admin_pb2.QueueState) -> QueueState:
    return QueueState(
        broker=queue.broker,
        queue_id=queue.queue_id,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        size=queue.bytes if queue.HasField("bytes") else None,
        oldest=read_moment(queue.oldest),
        purged_below=queue.purged_below if queue.HasField("purged_below") else None,
    )
