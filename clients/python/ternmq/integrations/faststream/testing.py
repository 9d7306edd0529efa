"""FastStream's test broker: what is published is handled at once, in the same process, without a server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

from faststream._internal.testing.broker import TestBroker, change_producer
from faststream.response.response import PublishCommand

from ternmq.connections.endpoints import Endpoints
from ternmq.integrations.faststream.broker import TernmqBroker
from ternmq.integrations.faststream.message import HandledDelivery
from ternmq.integrations.faststream.publishing import (
    BaseProducer,
    TernmqPublishCommand,
    TernmqPublisher,
    create_message,
)
from ternmq.integrations.faststream.subscriber import TernmqSubscriber
from ternmq.messages.message import Message, SendReceipt
from ternmq.messages.message_id import MESSAGE_IDS
from ternmq.messages.message_view import MessageView
from ternmq_protos.v2 import definition_pb2 as pb

FAKE_GROUP = "faststream-test"


class TestTernmqBroker(TestBroker[TernmqBroker, TernmqBroker], broker=TernmqBroker):
    """`async with TestTernmqBroker(broker) as broker: ...`; each group gets each message, regardless of its filter and
    delay."""

    __test__ = False

    def create_publisher_fake_subscriber(
        self, broker: TernmqBroker, publisher: TernmqPublisher
    ) -> tuple[TernmqSubscriber, bool]:
        for subscriber in own_subscribers(self.brokers):
            if subscriber.topic == publisher.topic:
                return subscriber, True
        return broker.subscriber(publisher.topic, group=FAKE_GROUP, persistent=False), False

    @contextmanager
    def _patch_producer(self, broker: TernmqBroker) -> Iterator[None]:
        with change_producer(broker.config.broker_config, _FakeProducer(broker, self.brokers)):
            yield

    async def _fake_connect(self, broker: TernmqBroker, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return MagicMock()


class _FakeProducer(BaseProducer):
    def __init__(self, broker: TernmqBroker, brokers: tuple[TernmqBroker, ...]) -> None:
        config = broker.config.broker_config
        super().__init__(parser=config.broker_parser, decoder=config.broker_decoder)
        self.codec = config.broker_codec or self.codec
        self.serializer = config.fd_config._serializer  # noqa: SLF001 - as FastStream's own brokers do
        self._brokers = brokers

    async def publish(self, cmd: PublishCommand) -> SendReceipt:
        message = await create_message(TernmqPublishCommand.of(cmd), self.codec, self.serializer)
        view = _create_view(message)
        served: set[str] = set()
        for subscriber in own_subscribers(self._brokers):
            if subscriber.topic == message.topic and subscriber.group not in served:
                served.add(subscriber.group)
                await subscriber.process_message(HandledDelivery(view))
        return SendReceipt(view.message_id, message.topic, 0)


def own_subscribers(brokers: tuple[TernmqBroker, ...]) -> list[TernmqSubscriber]:
    """Return all subscribers of TernMQ."""
    found = (subscriber for broker in brokers for subscriber in broker.subscribers)
    return [subscriber for subscriber in found if isinstance(subscriber, TernmqSubscriber)]


def _create_view(message: Message) -> MessageView:
    [message_id] = MESSAGE_IDS.next_ids(1)
    system = pb.SystemProperties(
        message_id=message_id,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        priority=message.priority,
        delivery_attempt=1,
    )
    stored = pb.Message(
        topic=pb.Resource(name=message.topic),
        body=message.body,
        user_properties=message.properties,
        system_properties=system,
    )
    return MessageView(stored, broker="test", endpoints=Endpoints.parse("127.0.0.1:8081"))
