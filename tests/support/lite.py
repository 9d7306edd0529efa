"""A client of a lite group: it syncs what it subscribes, receives, and settles with the lite topic."""

import asyncio
import json
import uuid
from typing import TYPE_CHECKING

from ternmq_common.names import lite_queue_topic
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Proto, RawClient, Received, code, duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LOOK_S = 0.02


class LiteReader:
    """Reads with a lite group over a connection that is somebody else's."""

    def __init__(self, client: RawClient, topic: str, group: str) -> None:
        self.client = client
        self.topic = topic
        self.group = group
        self._acknowledged: dict[str, int] = {}  # lite topic: the offset after the last message of it

    async def sync(self, action: "pb.LiteSubscriptionAction", *names: str, **option: Proto) -> Proto:
        """Say what is subscribed; `option` is a field of the offset option."""
        request = rpc.SyncLiteSubscriptionRequest(
            action=action, topic={"name": self.topic}, group={"name": self.group}, lite_topic_set=names
        )
        if option:
            request.offset_option.CopyFrom(pb.OffsetOption(**option))
        return await self.client.call("SyncLiteSubscription", request)

    async def subscribe(self, *names: str, **option: int) -> None:
        """Add lite topics, which must succeed."""
        answer = await self.sync(pb.PARTIAL_ADD, *names, **option)
        assert code(answer) == "OK", answer.status.message

    async def unsubscribe(self, *names: str) -> None:
        """Drop lite topics, which must succeed."""
        answer = await self.sync(pb.PARTIAL_REMOVE, *names)
        assert code(answer) == "OK", answer.status.message

    async def receive(self, *, poll_s: float = 0.0, **fields: Proto) -> Received:
        """One poll."""
        return await self.client.receive(self.topic, self.group, poll_s=poll_s, **fields)

    async def taken(self, count: int, *, poll_s: float = 10.0, **fields: Proto) -> "list[tuple[str, bytes]]":
        """Lite topics and bodies of so many messages, each batch acknowledged before the next one is asked for."""
        found: list[tuple[str, bytes]] = []
        while len(found) < count:
            received = await self.receive(poll_s=poll_s, **fields)
            assert received.messages, f"{found} came, and no more"
            found += [(each.system_properties.lite_topic, each.body) for each in received.messages]
            await self.ack(received.messages)
        return found

    async def ack(self, messages: "Sequence[pb.Message]") -> "list[str]":
        """The outcomes, in order."""
        entries = [
            rpc.AckMessageEntry(
                message_id=each.system_properties.message_id,
                receipt_handle=each.system_properties.receipt_handle,
                lite_topic=each.system_properties.lite_topic,
            )
            for each in messages
        ]
        request = rpc.AckMessageRequest(group={"name": self.group}, topic={"name": self.topic}, entries=entries)
        answer = await self.client.call("AckMessage", request)
        for each in messages:
            properties = each.system_properties
            self._acknowledged[properties.lite_topic] = properties.queue_offset + 1
        return [pb.Code.Name(entry.status.code) for entry in answer.entries]

    def acknowledged(self, name: str) -> int:
        """The offset after the last message that was acknowledged of a lite topic."""
        return self._acknowledged[name]

    async def change(self, message: pb.Message, invisible_s: float, *, suspend: bool = False) -> Proto:
        """Hide the message for so long, or with `suspend` its lite topic."""
        request = rpc.ChangeInvisibleDurationRequest(
            group={"name": self.group},
            topic={"name": self.topic},
            receipt_handle=message.system_properties.receipt_handle,
            message_id=message.system_properties.message_id,
            invisible_duration=duration(invisible_s),
            lite_topic=message.system_properties.lite_topic,
            suspend=suspend,
        )
        return await self.client.call("ChangeInvisibleDuration", request)

    async def dead_letter(self, message: pb.Message) -> Proto:
        """Give the message up."""
        request = rpc.ForwardMessageToDeadLetterQueueRequest(
            group={"name": self.group},
            topic={"name": self.topic},
            receipt_handle=message.system_properties.receipt_handle,
            message_id=message.system_properties.message_id,
            lite_topic=message.system_properties.lite_topic,
        )
        return await self.client.call("ForwardMessageToDeadLetterQueue", request)


async def make_lite_topic(client: RawClient, *, ttl_s: float = 0) -> str:
    """The name of a new LITE topic."""
    topic = admin_pb2.Topic(name=f"lite-{uuid.uuid4().hex[:12]}", type=pb.LITE)
    if ttl_s:
        topic.lite_ttl.CopyFrom(duration(ttl_s))
    answer = await client.admin("CreateTopic", topic=topic)
    assert code(answer) == "OK", answer.status.message
    return topic.name


async def make_lite_group(
    client: RawClient, topic: str, *, settings: "dict[str, Proto] | None" = None, **lite: Proto
) -> str:
    """The name of a new lite group that is bound to the topic; `settings` are fields of a group, `lite` of its lite
    settings."""
    group = admin_pb2.Group(
        name=f"lite-group-{uuid.uuid4().hex[:12]}", lite=admin_pb2.LiteSettings(topic=topic, **lite), **(settings or {})
    )
    answer = await client.admin("CreateGroup", group=group)
    assert code(answer) == "OK", answer.status.message
    return group.name


async def in_journal(reader: LiteReader, name: str, *data_dirs: "Path", within_s: float = 10.0) -> None:
    """Return when one of these brokers has written that the reader's group finished what it acknowledged in a lite
    topic: it rests there from then on, and a killed broker goes on from there."""
    async with asyncio.timeout(within_s):
        while not any(_has_finished(reader, name, each / "store" / "consumption" / "journal") for each in data_dirs):  # noqa: ASYNC110 - no event tells of a file
            await asyncio.sleep(_LOOK_S)


def _has_finished(reader: LiteReader, name: str, journal: "Path") -> bool:
    """Whether the last word of the group in that lite topic is that nothing is in flight, and all that it acknowledged
    passed. A lite topic need not begin at offset 0, if any was dropped before."""
    beginning = f'["{reader.group}","{lite_queue_topic(reader.topic, name)}",0,'
    whole, _, _ = journal.read_text().rpartition("\n")  # a line may be on its way
    lines = [line for line in whole.splitlines() if beginning in line]
    if not lines:
        return False
    _, _, _, cursor, _, _, holes, *_ = json.loads(lines[-1].partition(" ")[2])
    return cursor == reader.acknowledged(name) and not holes
