"""Turns the figures of a process into samples of instruments, when a scrape or an export needs them."""

import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ternmq_runtime.observability import instruments as its
from ternmq_runtime.observability.durations import DurationHistogram
from ternmq_runtime.observability.figures import (
    BrokerFigures,
    BrokerSource,
    CertificateFigures,
    FollowerReadFigures,
    GroupLag,
    LinkFigures,
    MemberFigures,
    MessageCounts,
    ReplicaFigures,
)
from ternmq_runtime.observability.front_figures import FrontFigures
from ternmq_runtime.observability.instruments import Instrument
from ternmq_runtime.observability.series_limit import SeriesLimit

Attributes = dict[str, str]
Value = float | DurationHistogram
Samples = dict[Instrument, list[tuple[Value, Attributes]]]
_NO_ATTRIBUTES: Attributes = {}
_BYTES_OF_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class FigureSources:
    """The parts of this process that have figures; each is read when samples are taken, in any thread."""

    limit: SeriesLimit
    fronts: list[FrontFigures] = field(default_factory=list)
    broker: BrokerSource | None = None
    links: Callable[[], Iterable[LinkFigures]] | None = None
    follower_reads: Callable[[], Iterable[FollowerReadFigures]] | None = None
    member: Callable[[], MemberFigures] | None = None
    replica: Callable[[], ReplicaFigures] | None = None
    certificates: Callable[[], Iterable[CertificateFigures]] | None = None
    lags: list[GroupLag] = field(default_factory=list)
    """Counted at intervals on the event loop, and kept."""

    timers: int | None = None
    began: float = field(default_factory=time.monotonic)

    def take_samples(self) -> Samples:
        """Return the samples of now."""
        samples: Samples = {}
        for instrument, value, attributes in self._all_samples():
            samples.setdefault(instrument, []).append((value, attributes))
        return samples

    def _all_samples(self) -> Iterator[tuple[Instrument, Value, Attributes]]:
        yield from _process_samples(self.began)
        for front in self.fronts:
            yield from _front_samples(front)
        if self.broker is not None:
            figures, lags = self.broker.current_figures(), self.limit.limit_lags(self.lags)
            yield from _broker_samples(figures)
            yield from _topic_samples(figures.messages, self.limit)
            yield from _group_samples(figures.dead_letters, lags, self.limit)
        if self.timers is not None:
            yield its.TIMERS, self.timers, _NO_ATTRIBUTES
        for link in self.links() if self.links is not None else ():
            yield from _link_samples(link)
        for read in self.follower_reads() if self.follower_reads is not None else ():
            yield its.COLD_PULLS, read.by_followers, {its.BROKER: read.broker, its.ROLE: "follower"}
            yield its.COLD_PULLS, read.by_leader, {its.BROKER: read.broker, its.ROLE: "leader"}
        if self.member is not None:
            yield from _member_samples(self.member())
        if self.replica is not None:
            yield from _replica_samples(self.replica())
        for certificate in self.certificates() if self.certificates is not None else ():
            yield its.CERTIFICATE_EXPIRY, certificate.left_s, {its.CERTIFICATE: certificate.name}


def _process_samples(began: float) -> Iterator[tuple[Instrument, Value, Attributes]]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield its.CPU_TIME, usage.ru_utime, {"cpu.mode": "user"}
    yield its.CPU_TIME, usage.ru_stime, {"cpu.mode": "system"}
    yield its.UPTIME, time.monotonic() - began, _NO_ATTRIBUTES
    # Not every system has /proc.
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        yield its.MEMORY, pages * _BYTES_OF_PAGE, _NO_ATTRIBUTES
        yield its.FILES, len(os.listdir("/proc/self/fd")), _NO_ATTRIBUTES  # noqa: PTH208 - half the cost


def _front_samples(front: FrontFigures) -> Iterator[tuple[Instrument, Value, Attributes]]:
    for instrument, durations in ((its.CALL_DURATION, front.calls), (its.POLL_DURATION, front.polls)):
        for (method, code), taken in durations.copy().items():
            yield instrument, taken, {its.METHOD: method, its.CODE: code}
    yield its.BYTES_IN, front.bytes_in, _NO_ATTRIBUTES
    yield its.BYTES_OUT, front.bytes_out, _NO_ATTRIBUTES
    yield its.CLIENTS, front.clients, _NO_ATTRIBUTES
    yield its.STREAMS, front.streams, _NO_ATTRIBUTES
    yield its.FRONT_POLLS, front.polls_waiting, _NO_ATTRIBUTES
    traffic = front.traffic()
    yield its.CONNECTIONS, traffic.connections, _NO_ATTRIBUTES
    yield its.REQUESTS_HELD, traffic.requests_held, _NO_ATTRIBUTES
    yield its.ANSWERS_UNREAD, traffic.answers_unread, _NO_ATTRIBUTES
    yield its.SHEDDING, int(traffic.shedding), _NO_ATTRIBUTES
    for limit, times in traffic.limits_passed.items():
        yield its.LIMITS_PASSED, times, {its.LIMIT: limit}


def _broker_samples(broker: BrokerFigures) -> Iterator[tuple[Instrument, Value, Attributes]]:
    plain: dict[Instrument, Value] = {
        its.RETRIES: broker.retries,
        its.LOST: broker.lost,
        its.TRANSACTIONS: broker.transactions,
        its.LOG_BYTES: broker.log_bytes,
        its.SEGMENTS: broker.segments,
        its.DISK_USED: broker.disk_used,
        its.DISK_FREE: broker.disk_free_bytes,
        its.DISK_FREE_MIN: broker.disk_free_min_bytes,
        its.DISK_REFUSES: int(broker.disk_refuses),
        its.RECORDS: broker.records,
        its.SKIPPED: broker.skipped_bytes,
        its.TORN: broker.torn_bytes,
        its.DAMAGED: broker.damaged_bytes,
        its.REPAIRED: broker.repaired_bytes,
        its.JOURNAL_SKIPPED: broker.journal_lines_skipped,
        its.SET_ASIDE: broker.files_set_aside,
        its.SYNC_DURATION: broker.syncs,
        its.ACCEPTS: int(broker.accepts),
        its.BROKER_POLLS: broker.polls_waiting,
    }
    for instrument, value in plain.items():
        yield instrument, value, _NO_ATTRIBUTES


def _topic_samples(messages: MessageCounts, limit: SeriesLimit) -> Iterator[tuple[Instrument, Value, Attributes]]:
    by_topic = (its.SENT, messages.sent), (its.DELIVERED, messages.delivered), (its.ACKNOWLEDGED, messages.acknowledged)
    for instrument, counted in by_topic:
        for topic, count in limit.limit_counts(instrument.name, "topics", counted.copy_counts()).items():
            yield instrument, count, {its.TOPIC: topic}


def _group_samples(
    dead_letters: dict[str, int], lags: list[GroupLag], limit: SeriesLimit
) -> Iterator[tuple[Instrument, Value, Attributes]]:
    for lag in lags:
        attributes = {its.GROUP: lag.group, its.TOPIC: lag.topic}
        yield its.LAG, lag.messages, attributes
        yield its.IN_FLIGHT, lag.in_flight, attributes
        yield its.OLDEST_AGE, lag.oldest_age_ms / 1000, attributes
        yield its.LOST_UNREAD, lag.lost, attributes
    limited = limit.limit_counts(its.DEAD_LETTERS.name, "groups with dead letters", dead_letters)
    for group, count in limit.add_zeros(limited, dead_letters, (lag.group for lag in lags)).items():
        yield its.DEAD_LETTERS, count, {its.GROUP: group}


def _link_samples(link: LinkFigures) -> Iterator[tuple[Instrument, Value, Attributes]]:
    attributes = {its.BROKER: link.broker}
    yield its.LINK_UP, int(link.up), attributes
    yield its.LINK_SET_ASIDE, int(link.set_aside), attributes
    yield its.LINK_CALLS, link.calls, attributes
    yield its.LINK_FAILURES, link.late, {**attributes, "error.type": "late"}
    yield its.LINK_FAILURES, link.lost, {**attributes, "error.type": "lost"}
    yield its.LINK_FRAMES_OUT, link.frames_out, attributes
    yield its.LINK_FRAMES_IN, link.frames_in, attributes


def _member_samples(member: MemberFigures) -> Iterator[tuple[Instrument, Value, Attributes]]:
    yield its.REGISTRY_REACHABLE, int(member.registry_reachable), _NO_ATTRIBUTES
    yield its.REGISTRY_VERSION, member.registry_version, _NO_ATTRIBUTES
    yield its.REGISTRY_COPY_AGE, member.registry_copy_age_s or 0.0, _NO_ATTRIBUTES
    if member.lease_age_s is not None:
        yield its.LEASE_AGE, member.lease_age_s, _NO_ATTRIBUTES
    if member.clock_skew_s is not None:
        yield its.CLOCK_SKEW, member.clock_skew_s, _NO_ATTRIBUTES
    if member.proxies is not None:
        yield its.PROXIES, member.proxies, _NO_ATTRIBUTES


def _replica_samples(replica: ReplicaFigures) -> Iterator[tuple[Instrument, Value, Attributes]]:
    attributes = {its.BROKER: replica.shard}
    yield its.REPLICA_LEADING, int(replica.leads), attributes
    yield its.REPLICA_SERVING, int(replica.serves), attributes
    yield its.REPLICA_EPOCH, replica.epoch, attributes
    yield its.REPLICA_TIMES_LED, replica.times_led, attributes
    yield its.REPLICA_POSITION, replica.position, attributes
    yield its.REPLICA_ACKNOWLEDGED, replica.acknowledged, attributes
    yield its.REPLICA_BEHIND, replica.behind_bytes, attributes
    if (shard := replica.led) is not None:
        yield its.SHARD_IN_SYNC, shard.in_sync, attributes
        yield its.SHARD_REPLICAS, shard.replicas, attributes
        yield its.SHARD_MIN_INSYNC, shard.min_insync, attributes
        yield its.SHARD_REFUSING, int(shard.refuses), attributes
        for name, behind_bytes in shard.followers.items():
            yield its.FOLLOWER_BEHIND, behind_bytes, {**attributes, its.REPLICA: name}
