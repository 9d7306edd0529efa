"""Publishing: the command that middlewares get, the producer that executes it, the object of `@broker.publisher`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from faststream._internal.configs import PublisherSpecificationConfig, PublisherUsecaseConfig
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.exceptions import FeatureNotSupportedException, IncorrectState
from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message as MessageSpec
from faststream.specification.schema import Operation, PublisherSpec

from ternmq.integrations.faststream.message import CONTENT_TYPE, CORRELATION_ID, TernmqParser
from ternmq.messages.message import Message, SendReceipt

if TYPE_CHECKING:
    from ternmq.producing.producer import Producer

NO_REPLIES = "TernMQ has no replies: publish the answer to a topic"
# An empty body can't be sent, and a handler without an answer returns None.
NULL = (b"null", "application/json")


class TernmqPublishCommand(PublishCommand):
    """A message to send: `destination` is the topic, the rest are fields of `ternmq.Message`."""

    def __init__(
        self,
        message: Any,  # noqa: ANN401 - whatever the codec takes
        *,
        topic: str,
        correlation_id: str | None = None,
        headers: Mapping[str, Any] | None = None,
        tag: str | None = None,
        keys: Sequence[str] = (),
        message_group: str | None = None,
        delay: timedelta | None = None,
        delivery_timestamp: datetime | int | None = None,
        priority: int | None = None,
        publish_type: PublishType = PublishType.PUBLISH,
    ) -> None:
        super().__init__(
            message,
            _publish_type=publish_type,
            destination=topic,
            correlation_id=correlation_id,
            headers=dict(headers or {}),
        )
        self.tag = tag
        self.keys = keys
        self.message_group = message_group
        self.delay = delay
        self.delivery_timestamp = delivery_timestamp
        self.priority = priority

    @classmethod
    def of(cls, command: PublishCommand) -> "TernmqPublishCommand":
        """Convert a command of any broker, such as a handler's answer, to one of ours."""
        if isinstance(command, cls):
            return command
        return cls(
            command.body,
            topic=command.destination,
            correlation_id=command.correlation_id,
            headers=command.headers,
            publish_type=command.publish_type,
        )


async def create_message(command: TernmqPublishCommand, codec: CodecProto, serializer: Any) -> Message:  # noqa: ANN401
    """Create the message of a command; raises the errors of `ternmq.Message`."""
    body, content_type = await codec.encode(command.body, serializer) if command.body is not None else NULL
    properties = {str(name): str(value) for name, value in (command.headers or {}).items()}
    if content_type:
        properties[CONTENT_TYPE] = content_type
    if command.correlation_id:
        properties[CORRELATION_ID] = command.correlation_id
    return Message(
        command.destination,
        body,
        tag=command.tag,
        keys=command.keys,
        properties=properties,
        message_group=command.message_group,
        delay=command.delay,
        delivery_timestamp=command.delivery_timestamp,
        priority=command.priority,
    )


class BaseProducer(ProducerProto[PublishCommand]):
    """The base of the real producer and that of the tests."""

    def __init__(self, *, parser: Any, decoder: Any) -> None:  # noqa: ANN401 - as FastStream declares them
        default = TernmqParser()
        self._parser = ParserComposition(parser, default.parse_message)
        self._decoder = ParserComposition(decoder, default.decode_message)
        self.codec: CodecProto = DefaultCodec()
        self.serializer: Any = None

    async def request(self, cmd: PublishCommand) -> NoReturn:
        raise FeatureNotSupportedException(NO_REPLIES)

    async def publish_batch(self, cmd: PublishCommand) -> NoReturn:
        raise FeatureNotSupportedException("publish_batch is not supported; publish sends many at a time together")


class TernmqProducer(BaseProducer):
    """Sends by a `ternmq.Producer`, while it is connected."""

    def __init__(self, *, parser: Any, decoder: Any) -> None:  # noqa: ANN401
        super().__init__(parser=parser, decoder=decoder)
        self.client: Producer | None = None

    async def publish(self, cmd: PublishCommand) -> SendReceipt:
        """Send a message, and return when it is stored; `ternmq.ClientError` if that failed."""
        if self.client is None:
            raise IncorrectState("the broker isn't connected: await broker.connect(), or broker.start()")
        return await self.client.send(await create_message(TernmqPublishCommand.of(cmd), self.codec, self.serializer))


@dataclass(kw_only=True)
class TernmqPublisherSpecificationConfig(PublisherSpecificationConfig):
    """The documentation of a publisher."""

    topic: str


class TernmqPublisherSpecification(PublisherSpecification[Any, TernmqPublisherSpecificationConfig]):
    """Its page in AsyncAPI."""

    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        message = MessageSpec(title=f"{self.name}:Message", payload=payload)
        spec = PublisherSpec(
            address=self.topic,
            description=self.config.description_,
            operation=Operation(message=message, bindings=None),
            bindings=None,
        )
        return {self.name: spec}


class TernmqPublisher(PublisherUsecase):
    """Publishes to one topic: what the decorated function returns, or the argument of `publish`."""

    def __init__(
        self,
        config: PublisherUsecaseConfig,
        specification: TernmqPublisherSpecification,
        *,
        topic: str,
        headers: Mapping[str, Any] | None,
        tag: str | None,
    ) -> None:
        super().__init__(config, specification)  # type: ignore[arg-type] # it is invariant, FastStream's own differ too
        self._topic = topic
        self.headers = dict(headers or {})
        self.tag = tag

    @property
    def topic(self) -> str:
        """The topic with the prefix of its router."""
        return f"{self._outer_config.prefix}{self._topic}"

    async def publish(
        self,
        message: Any,  # noqa: ANN401
        topic: str = "",
        *,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        tag: str | None = None,
        **fields: Any,  # noqa: ANN401 - those of the command, which checks them
    ) -> Any:  # noqa: ANN401 - a middleware may return what it likes
        """Send one message; what is left out is that of the publisher."""
        command = TernmqPublishCommand(
            message,
            topic=topic or self.topic,
            headers=self.headers | dict(headers or {}),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            tag=tag or self.tag,
            **fields,
        )
        return await self._basic_publish(command, producer=self._outer_config.producer, _extra_middlewares=())

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[Any]) -> None:
        """Send what a handler returned."""
        command = TernmqPublishCommand.of(cmd)
        command.destination = command.destination or self.topic
        command.add_headers(self.headers, override=False)
        command.tag = command.tag or self.tag
        await self._basic_publish(command, producer=self._outer_config.producer, _extra_middlewares=_extra_middlewares)

    async def request(self, message: Any, /, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401
        raise FeatureNotSupportedException(NO_REPLIES)
