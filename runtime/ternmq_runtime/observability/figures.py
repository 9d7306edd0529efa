"""The figures of the parts of a process: plain numbers that the part itself keeps, read when metrics are collected.

Threads     the owner's thread writes; `otel_metrics` reads in another, so everything that is read is a number, or a
            dict that is copied in one step.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ternmq_runtime.observability.durations import DurationHistogram
from ternmq_runtime.observability.name_counts import NameCounts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


@dataclass(frozen=True, slots=True)
class TrafficFigures:
    """The memory of a front's connections together, in bytes, how often each limit was exceeded, and whether sends may
    be refused now because there are too many."""

    connections: int = 0
    requests_held: int = 0
    answers_unread: int = 0
    limits_passed: "Mapping[str, int]" = field(default_factory=dict)
    shedding: bool = False


@dataclass(frozen=True, slots=True)
class CertificateFigures:
    """A certificate that this process uses: its name, and the seconds until it ends, below 0 if it has ended."""

    name: str
    left_s: float


@dataclass(slots=True, kw_only=True)
class MessageCounts:
    """A broker's counts of its messages since it was started, by topic."""

    sent: NameCounts = field(default_factory=NameCounts)
    delivered: NameCounts = field(default_factory=NameCounts)
    acknowledged: NameCounts = field(default_factory=NameCounts)

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic."""
        for counted in (self.sent, self.delivered, self.acknowledged):
            counted.forget_name(topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """The figures of a broker at one moment. `records` counts records of any kind that were appended to the log; dead
    letters are by group."""

    messages: MessageCounts
    retries: int
    dead_letters: dict[str, int]
    lost: int
    accepts: bool
    polls_waiting: int
    transactions: int
    log_bytes: int
    segments: int
    records: int
    skipped_bytes: int
    torn_bytes: int
    damaged_bytes: int
    repaired_bytes: int
    journal_lines_skipped: int
    files_set_aside: int
    disk_used: float
    disk_free_bytes: int
    disk_free_min_bytes: int
    disk_refuses: bool
    syncs: DurationHistogram


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group in a topic on this broker, retries included: messages that are not finished, and how many of
    these are in flight. In a queue that it never read, the messages count from where it would begin.

    `oldest_age_ms`: how long ago the first of them was stored, or became a retry; 0 if there are none. `lost`: messages
    that retention or a purge ever removed before the group had read them."""

    group: str
    topic: str
    messages: int
    in_flight: int
    oldest_age_ms: int
    lost: int = 0


class BrokerSource(Protocol):
    """Provides a broker's figures."""

    def current_figures(self) -> BrokerFigures:
        """Return the figures of now; called in any thread."""

    def count_lags(self) -> "AsyncIterator[GroupLag]":
        """Return the lags; called at intervals on the loop, which may do other things between two of them."""

    async def count_timers(self) -> int:
        """Return how many timers are pending; called at intervals on the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFigures:
    """A proxy's link to one broker at one moment; the counts are since the proxy knows the broker.

    `late`: calls that were not answered in time; `lost`: calls that were lost with the connection.
    """

    broker: str
    up: bool
    set_aside: bool
    calls: int
    late: int
    lost: int
    frames_out: int
    frames_in: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerReadFigures:
    """How many of a proxy's cold pulls in one shard followers and the leader have answered, since it knows the
    shard."""

    broker: str
    by_followers: int
    by_leader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFigures:
    """A process of a cluster at one moment. Its clock is `clock_skew_s` ahead of the registry's, if that is known.
    `registry_copy_age_s`: how old the copy of the registry is that it uses, None if it has read the registry. A broker
    also has a lease, renewed `lease_age_s` ago, and proxies that are connected to it."""

    registry_reachable: bool
    registry_version: int
    lease_age_s: float | None = None
    proxies: int | None = None
    clock_skew_s: float | None = None
    registry_copy_age_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFigures:
    """One replica of a shard at one moment; positions are log offsets in bytes.

    It leads, and serves while it may, or follows: then it lacked `behind_bytes` of the leader's log when it last heard
    from the leader. `times_led` counts since the process was started. `led` has the shard and its followers; only the
    leader has it.
    """

    shard: str
    leads: bool
    serves: bool
    epoch: int
    times_led: int
    position: int
    acknowledged: int
    behind_bytes: int = 0
    led: "LedShard | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedShard:
    """A shard as its leader sees it; `followers`: the bytes that each lacks, by its name, connected or not. It
    `refuses` messages while too few of the in-sync replicas keep up."""

    in_sync: int
    replicas: int
    min_insync: int
    refuses: bool
    followers: "Mapping[str, int]"
