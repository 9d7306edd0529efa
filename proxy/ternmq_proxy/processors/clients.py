"""The clients that this proxy knows, from settings, heartbeats and calls. A restart loses them, and they are learned
again."""

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import PullingMember
from ternmq_proxy.processors.client_limits import (
    CLIENT_LIMITS,
    ClientLimits,
    refuse_excess,
)
from ternmq_proxy.processors.client_type import ClientType
from ternmq_proxy.processors.shared_settings import SharedSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    AnnounceMembers = Callable[
        [Sequence[PullingMember], Sequence[PullingMember], Callable[[], Sequence[PullingMember]]], None
    ]

    from ternmq_proxy.processors.client_commands import ClientCommand
    from ternmq_proxy.processors.client_settings import ClientSettings, NamedTopic

# A client whose Telemetry stream broke reconnects within seconds (Rust and Python up to 30 s) or is gone.
DETACHED_EXPIRY_S = 45.0


class CommandStream(Protocol):
    """A Telemetry stream as the server sees it, the same for every front."""

    async def push_command(self, command: "ClientCommand") -> bool:
        """Send a command; return whether it was sent. It never raises for a broken stream, and never waits for long."""


@dataclass(slots=True)
class ConnectedClient:
    """One client. `settings` are the last that it sent, None when only calls were seen; after a restart its heartbeat
    still tells its type. `streams` are its open Telemetry streams, the newest last. `got_fifo`: whether the answer
    to its settings called its group FIFO. `address` is where its last settings came from, `user` its user for as long
    as it is known. `has_joined`: `group` existed when the client made a call for it; `was_refused`: the deletion of the
    group since then is logged. `popping` is the group for which it may receive."""

    client_id: str
    group: str = ""
    settings: "ClientSettings | None" = None
    client_type: int = ClientType.CLIENT_TYPE_UNSPECIFIED
    streams: list[CommandStream] = field(default_factory=list)
    was_attached: bool = False
    last_seen: float = 0.0
    topics: frozenset[str] = field(default_factory=frozenset)
    got_fifo: bool = False
    address: str = ""
    first_seen: float = 0.0
    user: str = ""
    has_joined: bool = False
    was_refused: bool = False
    popping: str = ""

    @property
    def is_by_remoting(self) -> bool:
        """Whether it is a client of the remoting protocol."""
        return self.settings is not None and bool(self.settings.member_id)

    @property
    def own_id(self) -> str:
        """The id by which it calls itself."""
        return (self.settings.member_id if self.settings else "") or self.client_id

    @property
    def keeps_offsets(self) -> bool:
        """Whether it is a member of its group by the remoting protocol, and keeps the group's offsets itself."""
        return self.is_pulling and self.is_by_remoting

    @property
    def is_push(self) -> bool:
        """Whether it is a push consumer, whose messages are renewed."""
        return self.client_type in (ClientType.PUSH_CONSUMER, ClientType.LITE_PUSH_CONSUMER)

    @property
    def request_timeout_ms(self) -> int:
        """How long it waits for answers by its settings, 0 without settings."""
        return self.settings.request_timeout_ms if self.settings else 0

    @property
    def is_consumer(self) -> bool:
        """Whether it consumes, as far as its settings or heartbeats say."""
        return self.client_type not in (ClientType.CLIENT_TYPE_UNSPECIFIED, ClientType.PRODUCER)

    def reads_topic(self, topic: str) -> bool:
        """Return whether its settings subscribe to the topic."""
        return topic in self.subscribed_topics

    @property
    def subscribed_topics(self) -> tuple[str, ...]:
        """The topics that its settings subscribe to."""
        return tuple(entry.topic for entry in self.settings.subscriptions) if self.settings else ()

    @property
    def is_pulling(self) -> bool:
        """Whether it reads by offset, so that queues are shared among members."""
        return self.client_type == ClientType.PULL_CONSUMER

    def named_topic(self, name: str) -> "NamedTopic | None":
        """Return the topic as its settings publish to it, namespace included; None for any other."""
        topics = self.settings.published_topics if self.settings else ()
        return next((topic for topic in topics if topic.name == name), None)

    async def push_command(self, command: "ClientCommand") -> bool:
        """Send a command on its newest Telemetry stream; return whether it was sent."""
        return bool(self.streams) and await self.streams[-1].push_command(command)

    @property
    def pulling_member(self) -> PullingMember | None:
        """The member for sharing queues, None if it does not pull."""
        if not (self.is_pulling and self.group):
            return None
        return PullingMember(self.group, self.own_id, self.subscribed_topics)


class ClientRegistry:
    """The known clients. `now` is a monotonic clock in seconds.

    Invariant: `_entries` is how many topics the settings of all clients name together.
    """

    def __init__(self, now: "Callable[[], float]", *, expiry_s: float, limits: ClientLimits = CLIENT_LIMITS) -> None:
        self._now = now
        self._limits = limits
        self._expiry_s = expiry_s
        self._clients: dict[str, ConnectedClient] = {}
        self._groups: dict[str, dict[str, ConnectedClient]] = {}  # group, client id
        self._entries = 0
        self._settings = SharedSettings()
        self._publishers: dict[str, dict[str, ConnectedClient]] = {}  # topic, client id
        self._pulling: dict[str, PullingMember] = {}  # client id
        self._on_pulling: AnnounceMembers | None = None

    def on_pulling(self, callback: "AnnounceMembers") -> None:
        """Call `callback` whenever pulling members or their topics change, with those that joined, those that left, and
        what returns all."""
        self._on_pulling = callback

    def note_call(
        self,
        client_id: str,
        group: str = "",
        client_type: int = ClientType.CLIENT_TYPE_UNSPECIFIED,
        *,
        user: str = "",
        joined: bool = False,
    ) -> ConnectedClient:
        """Note a call of the user's client, which may tell its group and type; return the client, which is known from
        now on. `joined`: the group exists.

        Raises TOO_MANY_REQUESTS if there are too many clients.
        """
        client = self._touch_client(client_id, group, client_type, user, joined=joined)
        if client.is_pulling or client_id in self._pulling:
            self._share_out(client_id, client.pulling_member)
        return client

    def _touch_client(
        self, client_id: str, group: str, client_type: int, user: str, *, joined: bool
    ) -> ConnectedClient:
        client = self._clients.get(client_id)
        if client is None:
            if len(self._clients) >= self._limits.clients_max:
                refuse_excess(f"{self._limits.clients_max} clients are connected already, the most allowed")
            client = self._clients[client_id] = ConnectedClient(client_id, first_seen=self._now(), user=user)
        elif client.user != user:
            raise MessagingError(ErrorCode.UNAUTHORIZED, "another user's client came with this id a moment ago")
        client.last_seen = self._now()
        if group and group != client.group:
            self._withdraw_member(client)
            client.group, client.has_joined = group, False
            self._groups.setdefault(group, {})[client_id] = client
        if joined:
            client.has_joined, client.was_refused = True, False
        client.client_type = client_type or client.client_type
        return client

    def take_settings(
        self, client_id: str, settings: "ClientSettings", *, user: str = "", joined: bool = False
    ) -> ConnectedClient:
        """Take the settings that the user's client sent; `joined`: their group exists. Raises TOO_MANY_REQUESTS if all
        settings together are too large; the client's earlier state stays then."""
        known = self._clients.get(client_id)
        entries = self._entries + settings.entry_count - _entries_of(known)
        growth = self._settings.growth_bytes(settings)
        if entries > max(self._entries, self._limits.entries_max) or (
            growth and self._settings.size + growth > self._limits.settings_bytes_max
        ):
            refuse_excess("more settings of clients are remembered here than is allowed; no others can be taken now")
        client = self._touch_client(client_id, settings.group, settings.client_type, user, joined=joined)
        self._entries = entries
        before_settings, client.settings = client.settings, self._settings.share_settings(settings)
        if before_settings is not None:
            self._settings.give_back(before_settings)
        self._share_out(client_id, client.pulling_member)
        before, client.topics = client.topics, frozenset(topic.name for topic in settings.published_topics)
        is_producer = settings.client_type == ClientType.PRODUCER
        self._withdraw_topics(client, before - client.topics if is_producer else before)
        for topic in client.topics if is_producer else ():
            self._publishers.setdefault(topic, {})[client_id] = client
        return client

    def is_unchanged(self, client: ConnectedClient, settings: "ClientSettings | None", group: str) -> bool:
        """Return whether the client is still known, with these settings and in that group."""
        known = self._clients.get(client.client_id)
        return known is client and client.settings is settings and client.group == group

    def renew_client(self, client: ConnectedClient) -> None:
        """Note that a known client is alive."""
        client.last_seen = self._now()

    def find_client(self, client_id: str) -> ConnectedClient | None:
        return self._clients.get(client_id)

    def list_clients(self) -> list[ConnectedClient]:
        """Return all known clients."""
        return list(self._clients.values())

    def known_s(self, client: ConnectedClient) -> float:
        """Return for how many seconds the client has been known."""
        return self._now() - client.first_seen

    def attach_stream(self, client_id: str, stream: CommandStream, *, user: str = "") -> None:
        """Add a Telemetry stream of the user's client, as its newest unless it is known."""
        client = self.note_call(client_id, user=user)
        client.was_attached = True
        if stream not in client.streams:
            client.streams.append(stream)

    def detach_stream(self, client_id: str, stream: CommandStream) -> bool:
        """Remove a stream that ended; return whether it was the client's last. The client may reconnect in a moment."""
        client = self._clients.get(client_id)
        if client is None or stream not in client.streams:
            return False
        client.streams.remove(stream)
        client.last_seen = self._now()
        return not client.streams

    def forget_client(self, client_id: str) -> bool:
        """Forget a client that shuts down; return whether it was known."""
        client = self._clients.pop(client_id, None)
        if client is not None:
            self._withdraw_member(client)
            self._withdraw_topics(client, client.topics)
            self._share_out(client_id, None)
            self._entries -= _entries_of(client)
            if client.settings is not None:
                self._settings.give_back(client.settings)
        return client is not None

    def find_publishers(self, topic: str) -> list[ConnectedClient]:
        """Return the producers that publish to the topic and can be sent a command."""
        return [client for client in self._publishers.get(topic, {}).values() if client.streams]

    def _withdraw_topics(self, client: ConnectedClient, topics: frozenset[str]) -> None:
        """Remove topics that the client no longer publishes to."""
        for topic in topics:
            publishers = self._publishers.get(topic, {})
            if publishers.pop(client.client_id, None) is not None and not publishers:
                del self._publishers[topic]

    def group_members(self, group: str) -> list[ConnectedClient]:
        """Return the group's consumers, sorted by id."""
        return sorted(self._groups.get(group, {}).values(), key=lambda client: client.client_id)

    def _withdraw_member(self, client: ConnectedClient) -> None:
        members = self._groups.get(client.group, {})
        members.pop(client.client_id, None)
        if not members:
            self._groups.pop(client.group, None)

    def pulling_members(self, group: str, topic: str) -> list[str]:
        """Return the sorted ids of the group's members here that pull the topic, or any if it is empty."""
        return sorted(
            member.client_id
            for key in self._groups.get(group, ())
            if (member := self._pulling.get(key)) is not None
            and (not topic or not member.topics or topic in member.topics)
        )

    def _share_out(self, client_id: str, member: PullingMember | None) -> None:
        before = self._pulling.get(client_id)
        if before == member:
            return
        if member is None:
            del self._pulling[client_id]
        else:
            self._pulling[client_id] = member
        if self._on_pulling is not None:
            self._on_pulling(
                [] if member is None else [member],
                [] if before is None else [before],
                lambda: tuple(self._pulling.values()),
            )

    def expire_clients(self, at_most: int | None = None) -> list[ConnectedClient]:
        """Forget clients that disappeared, at most `at_most`, and return them."""
        now = self._now()
        silent = (client for client in self._clients.values() if now - client.last_seen > self._patience_s(client))
        gone = list(islice(silent, at_most))
        for client in gone:
            self.forget_client(client.client_id)
        return gone

    def _patience_s(self, client: ConnectedClient) -> float:
        detached = client.was_attached and not client.streams
        return min(DETACHED_EXPIRY_S, self._expiry_s) if detached else self._expiry_s


def _entries_of(client: ConnectedClient | None) -> int:
    """Return how many topics its settings name."""
    return 0 if client is None or client.settings is None else client.settings.entry_count
