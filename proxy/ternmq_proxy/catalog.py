"""The topics and groups that this process knows, in front of the registry.

Reads answer from memory. A change goes to the registry, in a thread, and into memory when it is done.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.clock import now_ms
from ternmq_common.errors import MessagingError
from ternmq_common.limits import DEFAULT_MAX_ATTEMPTS
from ternmq_common.model import Group, Topic
from ternmq_common.names import group_of_derived
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import MessageType
    from ternmq_registry.registry import Registry


class Catalog:
    """Finds topics and groups, and makes missing ones if `auto_create` says so."""

    def __init__(self, registry: "Registry", *, auto_create: bool, default_queues: int) -> None:
        self._registry = registry
        self._auto_create = auto_create
        self._default_queues = default_queues
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, Group] = {}

    async def load(self) -> None:
        topics, groups = await asyncio.to_thread(lambda: (self._registry.topics(), self._registry.groups()))
        self._topics = {topic.name: topic for topic in topics}
        self._groups = {group.name: group for group in groups}

    def topics(self) -> list[Topic]:
        return sorted(self._topics.values(), key=lambda topic: topic.name)

    def groups(self) -> list[Group]:
        return sorted(self._groups.values(), key=lambda group: group.name)

    @property
    def default_queues(self) -> int:
        """Message queues of a topic that is made without a number."""
        return self._default_queues

    def rules(self, group: str) -> Group:
        """The settings of the group, the defaults if it isn't there; makes nothing."""
        return self._groups.get(group) or Group(name=group)

    def has_group(self, name: str) -> bool:
        return name in self._groups

    def type_of(self, name: str) -> "MessageType":
        """What the topic takes, unspecified if it isn't there."""
        topic = self._topics.get(name)
        return definition_pb2.MESSAGE_TYPE_UNSPECIFIED if topic is None else topic.type

    def find_topic(self, name: str, kind: "MessageType" = definition_pb2.NORMAL) -> Topic:
        """TOPIC_NOT_FOUND if it isn't there, with a word on how to make it for messages of that kind; makes nothing.
        A group has its retry and dead letter topics."""
        topic = self._topics.get(name)
        if topic is None and (group := group_of_derived(name)) in self._groups:
            return Topic(name=name, type=definition_pb2.NORMAL, queues=1, created_ms=self._groups[group].created_ms)
        if topic is None:
            of_kind = (
                "" if kind == definition_pb2.NORMAL else f" --type {definition_pb2.MessageType.Name(kind).lower()}"
            )
            raise MessagingError(
                definition_pb2.TOPIC_NOT_FOUND,
                f"topic {name!r} does not exist; make it with `ternmq topic create {name}{of_kind}`",
            )
        return topic

    def find_group(self, name: str) -> Group:
        """CONSUMER_GROUP_NOT_FOUND if it isn't there; makes nothing."""
        group = self._groups.get(name)
        if group is None:
            raise MessagingError(
                definition_pb2.CONSUMER_GROUP_NOT_FOUND,
                f"consumer group {name!r} does not exist; make it with `ternmq group create {name}`",
            )
        return group

    async def topic(self, name: str, kind: "MessageType" = definition_pb2.NORMAL) -> Topic:
        """The topic, made now as a NORMAL one if that is allowed. `name` is a checked name.

        It is not made for messages of another `kind`, which a NORMAL topic would refuse from then on.
        """
        # Names with % are derived by the broker (%RETRY%, %DLQ%); to make one by asking for it would help nobody.
        may_be_made = self._auto_create and kind == definition_pb2.NORMAL and not name.startswith("%")
        if may_be_made and name not in self._topics:
            topic = Topic(name=name, type=definition_pb2.NORMAL, queues=self._default_queues, created_ms=now_ms())
            try:
                await self.create_topic(topic)
            except MessagingError as error:
                if error.code != definition_pb2.BAD_REQUEST:
                    raise
                await self.load()  # somebody made it otherwise at the same moment
        return self.find_topic(name, kind)

    async def group(self, name: str) -> Group:
        """The group, made now with the defaults if that is allowed. `name` is a checked name."""
        if name not in self._groups and self._auto_create:
            try:
                await self.create_group(Group(name=name, max_attempts=DEFAULT_MAX_ATTEMPTS, created_ms=now_ms()))
            except MessagingError as error:
                if error.code != definition_pb2.BAD_REQUEST:
                    raise
                await self.load()
        return self.find_group(name)

    async def create_topic(self, topic: Topic) -> bool:
        """Whether it is new; BAD_REQUEST if it exists with other settings."""
        topic, created = await asyncio.to_thread(self._registry.create_topic, topic)
        self._topics[topic.name] = topic
        return created

    async def create_group(self, group: Group) -> bool:
        """Whether it is new; BAD_REQUEST if it exists with other settings."""
        group, created = await asyncio.to_thread(self._registry.create_group, group)
        self._groups[group.name] = group
        return created

    async def update_group(self, group: Group) -> None:
        """Give a group that is there these settings."""
        await asyncio.to_thread(self._registry.update_group, group)
        self._groups[group.name] = group

    async def delete_topic(self, name: str) -> None:
        """TOPIC_NOT_FOUND if it isn't there."""
        self.find_topic(name)
        await asyncio.to_thread(self._registry.delete_topic, name)
        self._topics.pop(name, None)

    async def delete_group(self, name: str) -> None:
        """CONSUMER_GROUP_NOT_FOUND if it isn't there."""
        self.find_group(name)
        await asyncio.to_thread(self._registry.delete_group, name)
        self._groups.pop(name, None)
