"""The broker for FastStream: one producer, and a push consumer for each subscriber."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NoReturn, Unpack

from fast_depends import dependency_provider
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger
from faststream._internal.parser import DefaultCodec
from faststream.exceptions import FeatureNotSupportedException
from faststream.middlewares import AckPolicy
from faststream.specification.schema import BrokerSpec

from ternmq.integrations.faststream.config import ClientFactory, TernmqBrokerConfig
from ternmq.integrations.faststream.message import HandledDelivery
from ternmq.integrations.faststream.publishing import NO_REPLIES, TernmqProducer, TernmqPublishCommand
from ternmq.integrations.faststream.registrator import TernmqRegistrator
from ternmq.options import ClientOptions
from ternmq.producing.producer import Producer

PROTOCOL = "rocketmq"
MESSAGE_ID_WIDTH = 10
LOG_FORMAT = "%(asctime)s %(levelname)-8s - %(topic)s | %(group)s | %(message_id)-10s - %(message)s"


class _LoggerStorage(DefaultLoggerStorage):
    """Creates the logger that FastStream uses unless it is given one."""

    def __init__(self) -> None:
        super().__init__()
        self.level = logging.INFO

    def set_level(self, level: int) -> None:
        self.level = level

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Do nothing: the log's format does not depend on the length of names."""

    def get_logger(self, *, context: ContextRepo) -> Any:  # noqa: ANN401
        logger = self._get_logger_ref()
        if logger is None:
            logger = get_broker_logger(
                name="ternmq",
                default_context={"topic": "", "group": ""},
                message_id_ln=MESSAGE_ID_WIDTH,
                fmt=LOG_FORMAT,
                context=context,
                log_level=self.level,
            )
            self._logger_ref.add(logger)
        return logger


_logger_state = partial(make_logger_state, default_storage_cls=_LoggerStorage)


class TernmqBroker(TernmqRegistrator, BrokerUsecase[HandledDelivery, Producer, TernmqBrokerConfig]):
    """Publishes to topics of the server at `endpoint`, and subscribes to them.

    The named keyword arguments are FastStream's; the others are those of `ternmq.options.ClientOptions`.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        ack_policy: AckPolicy = EMPTY,
        graceful_timeout: float | None = 15.0,
        decoder: Any = None,  # noqa: ANN401 - these are as FastStream declares them
        parser: Any = None,  # noqa: ANN401
        codec: Any = None,  # noqa: ANN401
        dependencies: Sequence[Any] = (),
        middlewares: Sequence[Any] = (),
        routers: Iterable[TernmqRegistrator] = (),
        description: str | None = None,
        tags: Iterable[Any] = (),
        logger: Any = EMPTY,  # noqa: ANN401
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: Any = EMPTY,  # noqa: ANN401
        **options: Unpack[ClientOptions],
    ) -> None:
        config = TernmqBrokerConfig(
            producer=TernmqProducer(parser=parser, decoder=decoder),
            server=ClientFactory(endpoint, options),
            broker_middlewares=middlewares,
            broker_parser=parser,
            broker_decoder=decoder,
            broker_codec=codec,
            logger=_logger_state(logger=logger, log_level=log_level),
            fd_config=FastDependsConfig(
                use_fastdepends=apply_types,
                serializer=serializer,
                provider=dependency_provider,
                context=ContextRepo(),
            ),
            broker_dependencies=dependencies,
            graceful_timeout=graceful_timeout,
            ack_policy=ack_policy,
            extra_context={"broker": self},
        )
        specification = BrokerSpec(
            url=[endpoint], protocol=PROTOCOL, protocol_version="5", description=description, tags=tags, security=None
        )
        super().__init__(config=config, specification=specification, routers=routers)

    async def _connect(self) -> Producer:
        config = self.config.broker_config
        client = await config.client.create_producer().start()
        producer = config.producer
        producer.codec = config.broker_codec or DefaultCodec()
        producer.serializer = config.fd_config._serializer  # noqa: SLF001 - as FastStream's own brokers do
        producer.client = client
        return client

    async def start(self) -> None:
        """Connect, and begin to consume."""
        await self.connect()
        await super().start()

    async def stop(self, exc_type: Any = None, exc_val: Any = None, exc_tb: Any = None) -> None:  # noqa: ANN401
        """Finish the running handlers, and disconnect."""
        try:
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()
                self.config.broker_config.producer.client = None

    async def ping(self, timeout: float | None = None) -> bool:
        """Return whether it is connected; the client itself repairs its connections."""
        return self._connection is not None

    async def publish(
        self,
        message: Any,  # noqa: ANN401
        topic: str,
        *,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        tag: str | None = None,
        keys: Sequence[str] = (),
        message_group: str | None = None,
        delay: timedelta | None = None,
        delivery_timestamp: datetime | int | None = None,
        priority: int | None = None,
    ) -> Any:  # noqa: ANN401 - a middleware may return what it likes
        """Send one message; return its `ternmq.SendReceipt` when it is stored. The fields are those of
        `ternmq.Message`."""
        command = TernmqPublishCommand(
            message,
            topic=topic,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            tag=tag,
            keys=keys,
            message_group=message_group,
            delay=delay,
            delivery_timestamp=delivery_timestamp,
            priority=priority,
        )
        return await self._basic_publish(command, producer=self.config.producer)

    async def request(self, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401
        raise FeatureNotSupportedException(NO_REPLIES)
