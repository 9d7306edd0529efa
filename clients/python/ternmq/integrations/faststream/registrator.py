"""The decorators `subscriber` and `publisher` of a broker and of a router."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faststream._internal.broker.registrator import Registrator
from faststream._internal.configs import PublisherUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.middlewares import AckPolicy

from ternmq.integrations.faststream.config import TernmqBrokerConfig
from ternmq.integrations.faststream.message import HandledDelivery
from ternmq.integrations.faststream.publishing import (
    TernmqPublisher,
    TernmqPublisherSpecification,
    TernmqPublisherSpecificationConfig,
)
from ternmq.integrations.faststream.subscriber import (
    Filter,
    TernmqSubscriber,
    TernmqSubscriberConfig,
    TernmqSubscriberSpecification,
    TernmqSubscriberSpecificationConfig,
)

MAX_WORKERS = 20


class TernmqRegistrator(Registrator[HandledDelivery, TernmqBrokerConfig]):
    """Declares subscribers and publishers, on brokers and routers alike."""

    def subscriber(  # type: ignore[override]
        self,
        topic: str,
        *,
        group: str,
        filter_by: Filter = "*",
        max_workers: int = MAX_WORKERS,
        ack_policy: AckPolicy = EMPTY,
        dependencies: Sequence[Any] = (),
        parser: Any = None,  # noqa: ANN401 - as FastStream declares it
        decoder: Any = None,  # noqa: ANN401
        codec: Any = None,  # noqa: ANN401
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
    ) -> TernmqSubscriber:
        """Have a function called for the messages of `topic` that `group` gets.

        `filter_by` is a tag expression (`"paid || sent"`) or a `ternmq.SqlFilter`, applied by the server;
        `max_workers` is how many handlers run at a time. The rest is FastStream's.
        """
        if max_workers < 1:
            raise ValueError(f"{max_workers=} must be at least 1")
        config = TernmqSubscriberConfig(
            topic=topic,
            group=group,
            filter_by=filter_by,
            max_workers=max_workers,
            no_reply=True,
            _outer_config=self.config,  # type: ignore[arg-type] # a composition of them
            _ack_policy=ack_policy,
        )
        specified = TernmqSubscriberSpecificationConfig(
            topic=topic, title_=title, description_=description, include_in_schema=include_in_schema
        )
        calls = CallsCollection[HandledDelivery]()
        subscriber = TernmqSubscriber(config, TernmqSubscriberSpecification(self.config, specified, calls), calls)
        super().subscriber(subscriber, persistent=persistent)
        return subscriber.add_call(
            parser_=parser or self._parser, decoder_=decoder or self._decoder, dependencies_=dependencies, codec_=codec
        )

    def publisher(  # type: ignore[override]
        self,
        topic: str,
        *,
        headers: Mapping[str, Any] | None = None,
        tag: str | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any = None,  # noqa: ANN401
        include_in_schema: bool = True,
    ) -> TernmqPublisher:
        """Send to `topic` what a function returns; `None` is sent as the JSON `null`."""
        specified = TernmqPublisherSpecificationConfig(
            topic=topic, schema_=schema, title_=title, description_=description, include_in_schema=include_in_schema
        )
        publisher = TernmqPublisher(
            PublisherUsecaseConfig(_outer_config=self.config),  # type: ignore[arg-type]
            TernmqPublisherSpecification(self.config, specified),
            topic=topic,
            headers=headers,
            tag=tag,
        )
        super().publisher(publisher, persistent=persistent)
        return publisher


class TernmqRouter(TernmqRegistrator):
    """Declarations that a broker includes: `broker.include_router(router)`. `prefix` is put before its topics."""

    def __init__(
        self,
        prefix: str = "",
        *,
        dependencies: Sequence[Any] = (),
        middlewares: Sequence[Any] = (),
        routers: Iterable[TernmqRegistrator] = (),
        ack_policy: AckPolicy = EMPTY,
        include_in_schema: bool | None = None,
    ) -> None:
        config = TernmqBrokerConfig(
            prefix=prefix,
            broker_dependencies=dependencies,
            broker_middlewares=middlewares,
            ack_policy=ack_policy,
            include_in_schema=include_in_schema,
        )
        super().__init__(config=config, routers=routers)
