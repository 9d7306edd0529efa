"""The configuration that a broker shares with its subscribers and publishers: how they reach the server."""

from dataclasses import dataclass, field
from typing import Any

from faststream._internal.configs import BrokerConfig
from faststream.exceptions import IncorrectState

from ternmq.consuming.listener_calls import Listener
from ternmq.consuming.push_consumer import PushConsumer
from ternmq.integrations.declarations import declare_objects
from ternmq.messages.filters import Subscriptions
from ternmq.options import ClientOptions
from ternmq.producing.producer import Producer


class ClientFactory:
    """Creates clients of one server."""

    def __init__(self, endpoint: str, options: ClientOptions) -> None:
        self.endpoint = endpoint
        self._options = options

    async def declare_topic(self, topic: str) -> None:
        """Create the topic if it is missing; an existing one may have any type."""
        await declare_objects(self.endpoint, {topic: "normal"}, options=self._options, any_type=True)

    def create_producer(self) -> Producer:
        return Producer(self.endpoint, **self._options)

    def create_consumer(
        self, group: str, subscriptions: Subscriptions, listener: Listener, *, concurrency: int
    ) -> PushConsumer:
        return PushConsumer(self.endpoint, group, subscriptions, listener, concurrency=concurrency, **self._options)


@dataclass(kw_only=True)
class TernmqBrokerConfig(BrokerConfig):
    """The configuration of a broker or a router. A router has no `server` of its own: it uses that of its broker."""

    producer: Any = None
    server: ClientFactory | None = field(default=None, repr=False)

    @property
    def client(self) -> ClientFactory:
        if self.server is None:
            raise IncorrectState("the router is not included in a broker")
        return self.server
