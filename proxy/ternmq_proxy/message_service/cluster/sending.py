"""Sends: to the queue that was chosen, or to another broker's when that one can't be asked.

A message whose storing is not certain is not sent again here: its producer can do that, and knows whether it wants to.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ternmq_common.errors import MessagingError
from ternmq_common.model import QueueRef
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.calls import BrokerUnavailable
from ternmq_proxy.message_service.cluster.remote_broker import RemoteBroker

if TYPE_CHECKING:
    from ternmq_proxy.message_service.cluster.links import Links
    from ternmq_proxy.message_service.cluster.repeats import Repeats
    from ternmq_proxy.message_service.cluster.routes import Routes
    from ternmq_registry.directory import Directory

T = TypeVar("T")
# What says that a broker could not store: its disk, or what nobody foresaw.
_FAILURES = frozenset({definition_pb2.INTERNAL_SERVER_ERROR, definition_pb2.PROXY_TIMEOUT})


class Sending:
    """Chooses the broker of each send, and sets aside those that fail."""

    def __init__(self, directory: "Directory", links: "Links", routes: "Routes", repeats: "Repeats") -> None:
        self._directory = directory
        self._links = links
        self._routes = routes
        self._repeats = repeats

    async def sent(self, queue: QueueRef, send: Callable[[RemoteBroker, QueueRef], Awaitable[T]]) -> T:
        """Send to the queue's broker, or, when that was not asked at all, to the same queue of another one; messages
        of a FIFO topic have no other place."""
        try:
            return await self._send(queue, send)
        except BrokerUnavailable as error:
            if error.maybe_done:
                raise
            others = self._others(queue)
            if not others:
                return await self._repeats.once(queue.broker, lambda broker: send(broker, queue))
        for number, name in enumerate(others):
            try:
                return await self._send(QueueRef(queue.topic, name, queue.queue_id), send)
            except BrokerUnavailable as error:
                if error.maybe_done or number + 1 == len(others):
                    raise
        raise AssertionError("there are others")

    async def _send(self, queue: QueueRef, send: Callable[[RemoteBroker, QueueRef], Awaitable[T]]) -> T:
        try:
            result = await send(self._links.broker(queue.broker), queue)
        except MessagingError as error:
            if error.code in _FAILURES or isinstance(error, BrokerUnavailable):
                self._routes.send_failed(queue.broker)
            raise
        self._routes.send_worked(queue.broker)
        return result

    def _others(self, queue: QueueRef) -> list[str]:
        """Other brokers that take messages of the topic now."""
        topic = self._directory.snapshot.topics.get(queue.topic)
        if topic is None or topic.type == definition_pb2.FIFO:
            return []
        return [
            name
            for name in self._routes.route(topic).writable
            if name != queue.broker and self._links.is_connected(name)
        ]
