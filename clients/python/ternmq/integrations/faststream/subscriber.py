"""One subscription of FastStream: a push consumer that calls its handlers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from faststream._internal.configs import SubscriberSpecificationConfig, SubscriberUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream.exceptions import FeatureNotSupportedException
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message as MessageSpec
from faststream.specification.schema import Operation, SubscriberSpec

from ternmq.hooks import ConsumeResult
from ternmq.integrations.faststream.message import HandledDelivery, TernmqParser
from ternmq.messages.filters import SqlFilter, TagFilter
from ternmq.messages.message_view import MessageView

if TYPE_CHECKING:
    from ternmq.consuming.push_consumer import PushConsumer
    from ternmq.integrations.faststream.config import TernmqBrokerConfig

BY_HANDLERS_ONLY = (
    "a subscriber of TernMQ only calls handlers; to receive messages one by one use ternmq.SimpleConsumer"
)

Filter = str | TagFilter | SqlFilter


@dataclass(kw_only=True)
class TernmqSubscriberConfig(SubscriberUsecaseConfig):
    """The declaration of a subscriber."""

    topic: str
    group: str
    filter_by: Filter
    max_workers: int

    @property
    def ack_policy(self) -> AckPolicy:
        own = self._ack_policy if self._ack_policy is not EMPTY else self._outer_config.ack_policy
        if own is AckPolicy.ACK_FIRST:
            raise FeatureNotSupportedException("ACK_FIRST: TernMQ settles a message when its handler has ended")
        return AckPolicy.NACK_ON_ERROR if own is EMPTY else own


@dataclass(kw_only=True)
class TernmqSubscriberSpecificationConfig(SubscriberSpecificationConfig):
    """The documentation of a subscriber."""

    topic: str


class TernmqSubscriberSpecification(SubscriberSpecification[Any, TernmqSubscriberSpecificationConfig]):
    """Its page in AsyncAPI."""

    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def channel_labels(self) -> list[str]:
        return [self.topic]

    def get_schema(self) -> dict[str, SubscriberSpec]:
        message = MessageSpec(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads()))
        spec = SubscriberSpec(
            address=self.topic,
            description=self.description,
            operation=Operation(message=message, bindings=None),
            bindings=None,
        )
        return {self.name: spec}


class TernmqSubscriber(SubscriberUsecase[HandledDelivery]):
    """Calls its handlers for the messages of a topic that its group gets."""

    _outer_config: "TernmqBrokerConfig"

    def __init__(
        self,
        config: TernmqSubscriberConfig,
        specification: TernmqSubscriberSpecification,
        calls: Any,  # noqa: ANN401
    ) -> None:
        parser = TernmqParser()
        config.parser = parser.parse_message
        config.decoder = parser.decode_message
        super().__init__(config, specification, calls)  # type: ignore[arg-type] # it is invariant
        self._topic = config.topic
        self.group = config.group
        self._filter = config.filter_by
        self._max_workers = config.max_workers
        self._consumer: PushConsumer | None = None
        self._handling: set[asyncio.Task[Any]] = set()
        self._closing: asyncio.Task[None] | None = None

    @property
    def topic(self) -> str:
        """The topic with the prefix of its router."""
        return f"{self._outer_config.prefix}{self._topic}"

    async def start(self) -> None:
        """Begin to consume; a missing topic is created, of type NORMAL."""
        await super().start()
        self._post_start()
        if self.calls:
            client = self._outer_config.client
            await client.declare_topic(self.topic)
            self._consumer = client.create_consumer(
                self.group, {self.topic: self._filter}, self._listen, concurrency=self._max_workers
            )
            await self._consumer.start()

    async def stop(self) -> None:
        """Finish the running handlers, give back the rest. From a handler (`StopConsume`) it does not wait for that
        handler."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._closing = asyncio.create_task(consumer.close())
        if self._closing is not None and asyncio.current_task() not in self._handling:
            await asyncio.wait([self._closing])
        await super().stop()

    async def _listen(self, view: MessageView) -> ConsumeResult:
        delivery = HandledDelivery(view)
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        try:
            await self.consume(delivery)
        finally:
            self._handling.discard(task)
        return delivery.result

    async def get_one(self, *, timeout: float = 5.0) -> NoReturn:
        raise FeatureNotSupportedException(BY_HANDLERS_ONLY)

    def __aiter__(self) -> AsyncIterator[StreamMessage[HandledDelivery]]:
        raise FeatureNotSupportedException(BY_HANDLERS_ONLY)

    def _make_response_publisher(self, message: StreamMessage[HandledDelivery]) -> Sequence[Any]:
        return ()  # there are no replies

    def get_log_context(self, message: StreamMessage[HandledDelivery] | None) -> dict[str, str]:
        """Return the fields of each line of the log."""
        return create_log_context(self.topic, self.group, message)


def create_log_context(topic: str, group: str, message: StreamMessage[HandledDelivery] | None) -> dict[str, str]:
    return {"topic": topic, "group": group, "message_id": getattr(message, "message_id", "")}
