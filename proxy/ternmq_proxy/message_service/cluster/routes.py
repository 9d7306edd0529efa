"""The routes of topics, from the registry's snapshot and from which brokers are connected."""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import TopicRoute
from ternmq_proxy.message_service.cluster.broker_links.circuit_breaker import CircuitBreaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.catalog.cluster import BrokerEntry
    from ternmq_common.shard.model import Topic
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_registry.directory import RegistryDirectory


class TopicRoutes:
    """Routes, each computed once until something changes. `now` is a monotonic clock in seconds."""

    def __init__(self, directory: "RegistryDirectory", links: "BrokerLinks", now: "Callable[[], float]") -> None:
        self._directory = directory
        self._links = links
        self._now = now
        self._known: dict[str, TopicRoute] = {}
        self._failing: dict[str, CircuitBreaker] = {}

    def forget_routes(self) -> None:
        """Forget all routes after the registry or a link changed."""
        self._known.clear()
        for broker in self._failing.keys() - self._directory.snapshot.brokers.keys():
            del self._failing[broker]

    def find_route(self, topic: "Topic") -> TopicRoute:
        if self._failing:
            return self._make_route(topic)
        route = self._known.get(topic.name)
        if route is None or route.topic is not topic:
            route = self._known[topic.name] = self._make_route(topic)
        return route

    def send_failed(self, broker: str) -> None:
        """Give the next messages to other brokers for a while, after this one failed to store a message."""
        self._failing.setdefault(broker, CircuitBreaker()).record_failure(self._now())

    def send_worked(self, broker: str) -> None:
        if self._failing:
            self._failing.pop(broker, None)

    def aside_brokers(self) -> list[str]:
        """Return the brokers that get no new messages for a while, though they are connected."""
        now = self._now()
        return [name for name, failing in list(self._failing.items()) if failing.is_aside(now)]

    def _make_route(self, topic: "Topic") -> TopicRoute:
        entries = self.topic_brokers(topic)
        reads = topic.permission.can_read
        writes = [entry.name for entry in entries if entry.can_write] if topic.permission.can_write else []
        live = {entry.name for entry in entries if entry.live}
        aside = set(self.aside_brokers())
        usable = tuple(name for name in writes if name in live and self._links.is_connected(name))
        return TopicRoute(
            topic,
            brokers=tuple(entry.name for entry in entries),
            readable=tuple(entry.name for entry in entries if reads and entry.live and entry.can_read),
            # When all fail, a failing one is tried; when none is there, the caller gets the names.
            writable=tuple(name for name in usable if name not in aside)
            or usable
            or tuple(name for name in writes if name in live),
            ordered=tuple(writes),
        )

    def topic_brokers(self, topic: "Topic") -> "list[BrokerEntry]":
        """Return the brokers of the topic, sorted by name. A topic that the registry does not have, such as a retry
        topic, is on all brokers."""
        known = self._directory.snapshot
        is_placed = known.is_placed and topic.name in known.topics
        names = topic.brokers if is_placed else topic.brokers or known.brokers
        return [known.brokers[name] for name in sorted(names) if name in known.brokers]
