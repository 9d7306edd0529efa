"""Routes: where the queues of topics are, and which of them to use.

The choice is pure; `RouteCache` keeps what the access point answered and refreshes it at intervals. A route that can't
be refreshed stays unchanged: brokers from a minute ago are the best guess.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from ternmq.connections.endpoints import Endpoints
from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.connections.siphash import hash_siphash24
from ternmq.errors import ClientError, Forbidden
from ternmq_protos.v2 import definition_pb2 as pb

logger = logging.getLogger(__name__)

MASTER = 0
_WRITABLE = (pb.WRITE, pb.READ_WRITE)
_READABLE = (pb.READ, pb.READ_WRITE)


@dataclass(frozen=True, slots=True)
class RouteQueue:
    """One message queue; `proto` is the server's own form, which it gets back unchanged."""

    topic: str
    queue_id: int
    broker: str
    endpoints: Endpoints
    proto: pb.MessageQueue = field(compare=False, repr=False)

    @classmethod
    def from_proto(cls, queue: pb.MessageQueue, access_point: Endpoints) -> "RouteQueue":
        """Create a queue; without addresses it is reached at the access point that its route came from."""
        endpoints = Endpoints.from_proto(queue.broker.endpoints) if queue.broker.endpoints.addresses else access_point
        return cls(queue.topic.name, queue.id, queue.broker.name, endpoints, queue)


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """All queues of a topic that a client may use."""

    topic: str
    writable: tuple[RouteQueue, ...]
    readable: tuple[RouteQueue, ...]

    @classmethod
    def from_proto(cls, topic: str, queues: Sequence[pb.MessageQueue], access_point: Endpoints) -> "TopicRoute":
        masters = [(RouteQueue.from_proto(queue, access_point), queue) for queue in queues if queue.broker.id == MASTER]
        return cls(
            topic,
            writable=tuple(queue for queue, proto in masters if proto.permission in _WRITABLE),
            readable=tuple(queue for queue, proto in masters if proto.permission in _READABLE),
        )

    @property
    def all_endpoints(self) -> list[Endpoints]:
        """The endpoints of all queues, each once, in the order of the route."""
        return list(dict.fromkeys(queue.endpoints for queue in (*self.writable, *self.readable)))

    def require_writable(self) -> tuple[RouteQueue, ...]:
        if not self.writable:
            raise Forbidden(pb.FORBIDDEN, f"topic {self.topic} has no queue that can be written")
        return self.writable

    def require_readable(self) -> tuple[RouteQueue, ...]:
        if not self.readable:
            raise Forbidden(pb.FORBIDDEN, f"topic {self.topic} has no queue that can be read")
        return self.readable


def choose_queues(
    queues: Sequence[RouteQueue], *, turn: int, isolated: Collection[Endpoints], count: int
) -> list[RouteQueue]:
    """Return the queues for up to `count` attempts, beginning at the `turn`-th.

    Endpoints that failed come last, brokers that were not tried yet come first.
    """
    start = turn % len(queues)
    in_turn = [*queues[start:], *queues[:start]]
    if isolated:
        in_turn.sort(key=lambda queue: queue.endpoints in isolated)
    if len(in_turn) > 1 and count > 1:
        in_turn = list(_spread_brokers(in_turn, count))
    return [in_turn[attempt % len(in_turn)] for attempt in range(count)]


def queue_of_group(queues: Sequence[RouteQueue], message_group: str) -> RouteQueue:
    """Return the one queue of a message group: the same that Java's and Go's producers choose."""
    signed = (hash_siphash24(message_group.encode()) ^ (1 << 63)) - (1 << 63)
    return queues[signed % len(queues)]


def _spread_brokers(queues: Sequence[RouteQueue], count: int) -> Iterator[RouteQueue]:
    """Yield one queue of each broker, then the next of each, until there are `count`."""
    rest = list(queues)
    while rest and count > 0:
        seen: set[str] = set()
        later: list[RouteQueue] = []
        for queue in rest:
            if queue.broker in seen:
                later.append(queue)
            else:
                seen.add(queue.broker)
                count -= 1
                yield queue
        rest = later


class RouteCache:
    """The routes that one client knows. `fetch` queries the access point and makes a new route usable."""

    def __init__(self, fetch: Callable[[str], Awaitable[TopicRoute]]) -> None:
        self._fetch = fetch
        self._known: dict[str, TopicRoute] = {}
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}

    @property
    def known_topics(self) -> list[str]:
        return sorted(self._known)

    @property
    def all_endpoints(self) -> set[Endpoints]:
        return {endpoints for route in self._known.values() for endpoints in route.all_endpoints}

    @property
    def has_fetches(self) -> bool:
        return bool(self._fetching)

    async def get_route(self, topic: str) -> TopicRoute:
        """Return the route of a topic; simultaneous callers for a new topic share one request."""
        route = self._known.get(topic)
        if route is not None:
            return route
        task = self._fetching.get(topic)
        if task is None:
            task = self._fetching[topic] = asyncio.ensure_future(self._fetch_topic(topic))
            task.add_done_callback(lambda done: self._fetch_ended(topic, done))
        return await asyncio.shield(task)

    async def refresh_routes(self) -> None:
        """Fetch all known routes again."""
        for topic in self.known_topics:
            try:
                await self._fetch_topic(topic)
            except ClientError as error:
                text = "the route of %s could not be refreshed, the old one stays: %s"
                logger.log(log_level_of(error), text, topic, error)

    def close(self) -> None:
        for task in self._fetching.values():
            task.cancel()

    def _fetch_ended(self, topic: str, task: asyncio.Task[TopicRoute]) -> None:
        self._fetching.pop(topic, None)
        if not task.cancelled():
            task.exception()  # retrieved, even if no caller waits any more

    async def _fetch_topic(self, topic: str) -> TopicRoute:
        route = await self._fetch(topic)
        self._known[topic] = route
        return route
