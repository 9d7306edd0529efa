"""Sends to the chosen queue, or to another broker's when that broker can't be reached, or refuses.

A message whose storing is not certain is not sent again here: its producer can do that, and knows whether it wants to.
Each send has the version of its topic's creation, from the registry's snapshot: a broker that missed the deletion of an
earlier topic of that name would remove the messages with it, and refuses them instead.
"""

from typing import TYPE_CHECKING, Any

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import lite_parent
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.message_service.cluster.background_calls import BackgroundCalls
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerRefused, BrokerUnavailable

if TYPE_CHECKING:
    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_proxy.message_service.cluster.broker_links.calls import ResultCallback
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls
    from ternmq_proxy.message_service.cluster.routes import TopicRoutes
    from ternmq_registry.directory import RegistryDirectory

# The codes of a broker that could not store: its disk failed, or it has an unexpected error.
_FAILURES = frozenset({ErrorCode.INTERNAL_SERVER_ERROR, ErrorCode.PROXY_TIMEOUT})


class BrokerChoice:
    """Chooses the broker of each send, and backs off from those that fail."""

    def __init__(
        self, directory: "RegistryDirectory", links: "BrokerLinks", routes: "TopicRoutes", repeats: "RepeatedCalls"
    ) -> None:
        self._directory = directory
        self._links = links
        self._routes = routes
        self._repeats = repeats
        self._background_calls = BackgroundCalls()

    async def to_queue(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        """Send to the queue, the first argument, or, when its broker did nothing, to the same queue of another one;
        messages of a FIFO topic have no other place."""
        queue: QueueRef = values[0]
        try:
            return await self._send(queue, call, values)
        except BrokerUnavailable as error:
            if error.maybe_done:
                raise
            refusal = error
        return await self._send_elsewhere(queue, call, values, refusal)

    def to_queue_nowait(self, call: "ShardCall", values: "Values", on_result: "ResultCallback") -> None:
        """Send like `to_queue`, without waiting; `on_result` is called at the end, possibly at once."""
        queue: QueueRef = values[0]

        def take_result(result: object, error: Exception | None) -> None:
            self._note_outcome(queue.broker, error)
            if isinstance(error, BrokerUnavailable) and not error.maybe_done:
                self._background_calls.start(self._send_elsewhere(queue, call, values, error), on_result)
            else:
                on_result(result, error)

        try:
            self._links.require_broker(queue.broker).ask_nowait(call, values, take_result)
        except Exception as error:  # noqa: BLE001 - the caller gets it, and logs unexpected errors
            take_result(None, error)

    async def _send_elsewhere(
        self, queue: QueueRef, call: "ShardCall", values: "Values", refusal: BrokerUnavailable
    ) -> Any:  # noqa: ANN401 - it is the call's own
        """Send what the queue's broker did not do, for `refusal`: to other brokers, or to that one again."""
        others = self._others(queue)
        if not others:
            if isinstance(refusal, BrokerRefused):
                raise refusal
            return await self._repeats.ask_broker(queue.broker, call, values)
        for number, name in enumerate(others):
            try:
                return await self._send(QueueRef(queue.topic, name, queue.queue_id), call, values)
            except BrokerUnavailable as error:
                if error.maybe_done or number + 1 == len(others):
                    raise
        raise AssertionError("there are others")

    async def _send(self, queue: QueueRef, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401
        try:
            result = await self._links.require_broker(queue.broker).ask_broker(call, (queue, *values[1:]))
        except MessagingError as error:
            self._note_outcome(queue.broker, error)
            raise
        self._note_outcome(queue.broker, None)
        return result

    def _note_outcome(self, broker: str, error: Exception | None) -> None:
        if error is None:
            self._routes.send_worked(broker)
        elif is_broker_s_failure(error):
            self._routes.send_failed(broker)

    async def anywhere(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        """Send to the first broker that can be reached and accepts the message."""
        refused = BrokerUnavailable("no broker can be reached", maybe_done=False)
        for broker in self._links.connected_brokers():
            try:
                return await broker.ask_broker(call, values)
            except BrokerUnavailable as error:
                if error.maybe_done:
                    raise
                refused = error
        raise refused

    def _others(self, queue: QueueRef) -> list[str]:
        """Other brokers that take messages of the topic now."""
        topic = self._directory.snapshot.topics.get(lite_parent(queue.topic))
        if topic is None or topic.keeps_order:
            return []
        return [
            name
            for name in self._routes.find_route(topic).writable
            if name != queue.broker and self._links.is_connected(name)
        ]


def is_broker_s_failure(error: Exception) -> bool:
    """Whether another broker is to get the next messages for a while."""
    return isinstance(error, MessagingError) and (error.code in _FAILURES or isinstance(error, BrokerUnavailable))
