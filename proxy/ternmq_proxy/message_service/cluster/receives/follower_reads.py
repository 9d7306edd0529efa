"""Sends pulls of cold backlogs to in-sync followers, which leaves the leader's disk and memory to live messages.

Cold    the offset of the pull is far behind the end of its queue, by bounds that the leader returned: a client's
        pull requests these first. So the leader also reports what is deleted, purged or expired before a follower is
        read.
Leader  serves all else: receives, offsets, groups that lock their queues, long polls. If a follower returns no
        messages at once, the leader is read in the same call, and that follower is left alone for a growing while.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ternmq_common.errors import MessagingError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.shard.calls import CALLS
from ternmq_proxy.message_service.cluster.broker_links.circuit_breaker import CircuitBreaker
from ternmq_proxy.message_service.cluster.broker_links.link import BrokerLink
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LINK_TIMING, LinkTiming
from ternmq_runtime.observability.figures import FollowerReadFigures

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from ternmq_common.catalog.cluster import BrokerEntry, RegistrySnapshot
    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.shard.model import DroppedLite, OrphanedTransaction, PulledMessages, QueueBounds, QueueRef
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)
_METHOD = "/ternmq.storage.v1.Storage/ReadCopy"
COLD_MESSAGES = 1000
_PULL = CALLS["pull"]


class _IgnoredEvents:
    """Ignores the notifications of a link to a follower, which is only read."""

    def link_changed(self, broker: str) -> None: ...

    def messages_ready(self, broker: str, group: str, topic: str) -> None: ...

    def registry_changed(self, version: int) -> None: ...

    def lite_dropped(self, dropped: "list[DroppedLite]") -> None: ...

    async def check_orphan(self, orphan: "OrphanedTransaction") -> bool:
        del orphan
        return False

    async def answer_question(self, question: str, argument: str) -> None:
        del question, argument


@dataclass(slots=True)
class _FollowerLink:
    link: BrokerLink
    started_ms: int
    failing: CircuitBreaker = field(default_factory=CircuitBreaker)


@dataclass(slots=True)
class _ReadCounts:
    by_followers: int = 0
    by_leader: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Limits of follower reads. `ends_max` is for how many queues the end is known, since a pull comes right after the
    bounds of its queue. `answer_s` is how long a hanging follower delays the first pulls that use it."""

    ends_max: int = 10_000
    answer_s: float = 1.0


READ_LIMITS = ReadLimits()


class FollowerReads:
    """Finds followers for pulls, and keeps a link to each. `seconds` is a monotonic clock."""

    def __init__(
        self,
        directory: "RegistryDirectory",
        *,
        proxy: str,
        timing: LinkTiming = LINK_TIMING,
        tls: "Callable[[], ssl.SSLContext] | None" = None,
        seconds: "Callable[[], float]" = time.monotonic,
        limits: ReadLimits = READ_LIMITS,
    ) -> None:
        self._limits = limits
        self._directory = directory
        self._proxy = proxy
        self._timing = timing
        self._tls = tls
        self._seconds = seconds
        self._followers: dict[tuple[str, str], _FollowerLink] = {}  # by shard and store
        self._ending = BackgroundTasks()
        self._ends: dict[QueueRef, int] = {}
        self._counts: dict[str, _ReadCounts] = {}

    def read_figures(self) -> list[FollowerReadFigures]:
        """Return the figures; any thread may call this."""
        return [
            FollowerReadFigures(broker=broker, by_followers=each.by_followers, by_leader=each.by_leader)
            for broker, each in self._counts.copy().items()
        ]

    # --- links

    def start(self) -> None:
        self.follow_snapshot(self._directory.snapshot)

    def follow_snapshot(self, snapshot: "RegistrySnapshot") -> None:
        """Keep a link to each follower of the snapshot, at its address."""
        wanted = {
            (entry.name, replica.store_id): (f"{entry.name}/{replica.name}", replica)
            for entry in snapshot.brokers.values()
            for replica in entry.replicas
            if replica.store_id != entry.store_id
        }
        for key, follower in list(self._followers.items()):
            if key not in wanted or wanted[key][1].address != follower.link.address:
                self._end_follower(self._followers.pop(key))
        for key, (name, replica) in wanted.items():
            known = self._followers.get(key)
            if known is None:
                self._followers[key] = _FollowerLink(self._make_follower(name, replica.address), replica.started_ms)
            elif known.started_ms != replica.started_ms:
                known.started_ms = replica.started_ms
                known.link.reconnect_now()
        self._counts = {
            name: self._counts.get(name) or _ReadCounts() for name, entry in snapshot.brokers.items() if entry.replicas
        }

    def _make_follower(self, name: str, address: str) -> BrokerLink:
        link = BrokerLink(
            name,
            address,
            _IgnoredEvents(),
            proxy=self._proxy,
            known=lambda: self._directory.snapshot.version,
            timing=self._timing,
            tls=self._tls,
            method=_METHOD,
        )
        link.start()
        return link

    def _end_follower(self, follower: _FollowerLink) -> None:
        self._ending.start(follower.link.close(), name=f"end of the link to {follower.link.broker}")

    async def close(self) -> None:
        followers, self._followers = self._followers, {}
        await asyncio.gather(*(each.link.close() for each in followers.values()))
        await self._ending.wait_until_done()

    # --- pulls

    def note_bounds(self, queue: "QueueRef", bounds: "QueueBounds") -> None:
        """Note the bounds of a queue, as the leader returned them."""
        # The most recent one is at the end, and the oldest one is dropped.
        self._ends.pop(queue, None)
        self._ends[queue] = bounds.maximum
        if len(self._ends) > self._limits.ends_max:
            del self._ends[next(iter(self._ends))]

    async def pull_messages(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        batch: int,
        at_leader: "Callable[[float], Awaitable[PulledMessages]]",
        poll_s: float,
    ) -> "PulledMessages":
        """Return the messages that a follower has there; otherwise the leader's, which waits up to `poll_s` seconds."""
        if self._ends.get(queue, 0) - offset < COLD_MESSAGES:
            return await at_leader(poll_s)
        entry = self._directory.snapshot.brokers.get(queue.broker)
        counts = self._counts.get(queue.broker)
        if entry is None or counts is None:
            return await at_leader(poll_s)
        began_s = self._seconds()
        pulled = await self._pull_from_follower(entry, queue, offset, passing, batch)
        if pulled is not None:
            counts.by_followers += 1
            return pulled
        counts.by_leader += 1
        return await at_leader(max(0.0, poll_s - (self._seconds() - began_s)))

    async def _pull_from_follower(
        self, entry: "BrokerEntry", queue: "QueueRef", offset: int, passing: "MessageFilter", batch: int
    ) -> "PulledMessages | None":
        """Pull from a follower; return None if the leader is to be read."""
        follower = self._usable_follower(entry, queue)
        if follower is None:
            return None
        try:
            answer = await follower.link.ask_broker(
                _PULL, (queue, offset, passing, batch, 0.0, None), timeout_s=self._limits.answer_s
            )
        except MessagingError as error:
            _log.debug("%s did not answer a pull: %s", follower.link.broker, error.message)
        else:
            pulled = cast("PulledMessages", answer)
            if pulled.next_offset > offset:
                follower.failing.record_success()
                return pulled
        follower.failing.record_failure(self._seconds())
        return None

    def _usable_follower(self, entry: "BrokerEntry", queue: "QueueRef") -> _FollowerLink | None:
        """Return an in-sync follower that is connected, the same one for a queue as long as possible."""
        now_s = self._seconds()
        usable: list[_FollowerLink] = []
        for replica in entry.replicas:
            follower = self._followers.get((entry.name, replica.store_id))
            if follower is None or not (replica.in_sync and replica.live and follower.link.is_connected):
                continue
            if not follower.failing.is_aside(now_s):
                usable.append(follower)
        return usable[queue.queue_id % len(usable)] if usable else None
