"""The configuration that a broker shares with its subscribers and publishers: how they reach the server."""

from dataclasses import dataclass, field
from typing import Any

from faststream._internal.configs import BrokerConfig
from faststream.exceptions import IncorrectState

from ternmq.filters import Subscriptions
from ternmq.integrations.declaring import declare
from ternmq.listening import Listener
from ternmq.options import ClientOptions
from ternmq.producer import Producer
from ternmq.push_consumer import PushConsumer


class ServerClient:
    """Creates clients of one server."""

    def __init__(self, endpoint: str, options: ClientOptions) -> None:
        self.endpoint = endpoint
        self._options = options

    async def declare(self, topic: str) -> None:
        """Create the topic if it is missing; an existing one may have any type."""
        await declare(self.endpoint, {topic: "normal"}, options=self._options, any_type=True)

    def producer(self) -> Producer:
        return Producer(self.endpoint, **self._options)

    def consumer(
        self, group: str, subscriptions: Subscriptions, listener: Listener, *, concurrency: int
    ) -> PushConsumer:
        return PushConsumer(self.endpoint, group, subscriptions, listener, concurrency=concurrency, **self._options)


@dataclass(kw_only=True)
class TernmqBrokerConfig(BrokerConfig):
    """The configuration of a broker or a router. A router has no `server` of its own: it uses that of its broker."""

    producer: Any = None
    server: ServerClient | None = field(default=None, repr=False)

    @property
    def client(self) -> ServerClient:
        if self.server is None:
            raise IncorrectState("the router is not included in a broker")
        return self.server
