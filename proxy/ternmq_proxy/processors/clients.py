"""The clients that this proxy knows, from settings, heartbeats and calls. Lost in a restart, and learned again."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_protos.v2.definition_pb2 import ClientType, Settings

# A client whose Telemetry stream broke reconnects within seconds (Rust and Python up to 30 s) or is gone.
DETACHED_EXPIRY_S = 45.0


@dataclass(slots=True)
class Client:
    """One client: `settings` as it sent them last, None when only its calls have been seen. After a restart its
    heartbeat still tells its type."""

    client_id: str
    group: str = ""
    settings: "Settings | None" = None
    client_type: "ClientType" = definition_pb2.CLIENT_TYPE_UNSPECIFIED
    streams: int = 0
    was_attached: bool = False
    last_seen: float = 0.0
    topics: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_push(self) -> bool:
        """Whether the server hands it messages as they come, and keeps them hidden meanwhile."""
        return self.client_type == definition_pb2.PUSH_CONSUMER

    @property
    def is_pulling(self) -> bool:
        """Whether it reads by offset, so that queues are shared out to it."""
        return self.client_type == definition_pb2.PULL_CONSUMER

    def pulls(self, topic: str) -> bool:
        """Whether it reads that topic by offset; one that names no topics may read any."""
        entries = self.settings.subscription.subscriptions if self.settings else ()
        return self.is_pulling and (not entries or any(entry.topic.name == topic for entry in entries))


class ClientRegistry:
    """Who is there. `now` is a monotonic clock in seconds."""

    def __init__(self, now: "Callable[[], float]", *, expiry_s: float) -> None:
        self._now = now
        self._expiry_s = expiry_s
        self._clients: dict[str, Client] = {}

    def seen(
        self,
        client_id: str,
        group: str = "",
        client_type: "ClientType" = definition_pb2.CLIENT_TYPE_UNSPECIFIED,
    ) -> Client:
        """The client made a call, which may tell of what group and type it is; it is known from now on."""
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = Client(client_id)
        client.last_seen = self._now()
        client.group = group or client.group
        client.client_type = client_type or client.client_type
        return client

    def configured(self, client_id: str, settings: "Settings") -> Client:
        """The client sent its settings."""
        client = self.seen(client_id, settings.subscription.group.name, settings.client_type)
        client.settings = settings
        client.topics = frozenset(topic.name for topic in settings.publishing.topics)
        return client

    def find(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def attach(self, client_id: str) -> None:
        """A Telemetry stream of the client began."""
        client = self.seen(client_id)
        client.streams += 1
        client.was_attached = True

    def detach(self, client_id: str) -> None:
        """A Telemetry stream of the client ended; the client itself may be back in a moment."""
        client = self._clients.get(client_id)
        if client is not None:
            client.streams = max(0, client.streams - 1)
            client.last_seen = self._now()

    def forget(self, client_id: str) -> bool:
        """The client said good-bye; whether it was known."""
        return self._clients.pop(client_id, None) is not None

    def members(self, group: str) -> list[Client]:
        """The group's consumers, by their ids."""
        return sorted(
            (client for client in self._clients.values() if client.group == group), key=lambda client: client.client_id
        )

    def pulling_members(self, group: str, topic: str) -> list[str]:
        """The ids of the group's members that pull the topic, in order."""
        return [client.client_id for client in self.members(group) if client.pulls(topic)]

    def expire(self) -> list[Client]:
        """Forget the clients that are gone without a word, and say who."""
        now = self._now()
        gone = [client for client in self._clients.values() if now - client.last_seen > self._patience(client)]
        for client in gone:
            del self._clients[client.client_id]
        return gone

    def _patience(self, client: Client) -> float:
        detached = client.was_attached and not client.streams
        return min(DETACHED_EXPIRY_S, self._expiry_s) if detached else self._expiry_s
