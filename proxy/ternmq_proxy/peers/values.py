"""Reports of processes about their clients, and about themselves, in plain values.

`language` is the name of a client library's language, such as `JAVA`; texts of clients are empty where they sent none.
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuery:
    """A query for clients: at most `limit`, with ids after `after`, of that group and topic if these are not empty."""

    group: str = ""
    topic: str = ""
    after: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEntry:
    """A client that is connected, as the `process` of the server `proxy` knows it since `since_ms`.

    `topics` are the first ones that it uses, of `topic_count`; `address` is its `host:port`. `protocol` is grpc or
    remoting. A client by remoting has an entry for each of its groups.
    """

    client_id: str
    address: str = ""
    client_type: int = 0
    group: str = ""
    topics: list[str]
    topic_count: int = 0
    process: str = ""
    proxy: str = ""
    language: str = ""
    version: str = ""
    hostname: str = ""
    since_ms: int = 0
    protocol: str = ""


class ClientPage(NamedTuple):
    """Clients by their ids, and the id after which the next page begins, empty at the end."""

    clients: list[ClientEntry]
    following: str


class ShownFilter(NamedTuple):
    """A filter expression; `is_sql` None: of which kind it is, is not known."""

    text: str
    is_sql: bool | None = None


class SubscriptionQuery(NamedTuple):
    """A query for subscriptions: of the group, or of all if it is empty; of the topic, or of all."""

    group: str
    topic: str


@dataclass(slots=True)
class Subscription:
    """A group reads a topic. `is_consistent`: by one filter; `filter` is that, or the one of a client."""

    group: str
    topic: str
    is_consistent: bool
    filter: ShownFilter | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Its group and topic."""
        return self.group, self.topic


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer, and what it reported about itself; `ip` is where it connects from."""

    client_id: str
    version: str = ""
    language: str = ""
    hostname: str = ""
    ip: str = ""


class ClientSubscription(NamedTuple):
    """The subscription of a client."""

    consumer: Consumer
    subscription: Subscription

    @property
    def place(self) -> tuple[str, str, str]:
        """Its client, group and topic."""
        return self.consumer.client_id, *self.subscription.place


@dataclass(frozen=True, slots=True)
class FirstEntries(Generic[Entry]):
    """The first `entries`; at how many they were cut, if there are more, and which processes did not answer."""

    entries: list[Entry]
    cut_at: int | None
    silent: list[str]

    @classmethod
    def take_first(cls, entries: list[Entry], entries_max: int, silent: list[str]) -> "FirstEntries[Entry]":
        """Return the first `entries_max` of these."""
        return cls(entries[:entries_max], entries_max if len(entries) > entries_max else None, silent)


class RunningInfo(NamedTuple):
    """A consumer's report about itself, by the names of RocketMQ's tools, and its filter of each topic."""

    properties: dict[str, str]
    filters: dict[str, ShownFilter]


class ServerStats(NamedTuple):
    """How many connections and clients a server, or one of its processes, has."""

    name: str
    version: str
    connections: int
    producers: int
    consumers: int
