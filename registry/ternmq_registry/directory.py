"""Each process's recent copy of the registry in memory, for code that can't wait for a database.

Reading  `read_snapshot` is in memory. It is read again every `interval_s`, after changes of ours (`refresh_snapshot`),
         and when a
         newer version is known to exist (`wait_for_version`). Callers that need it at the same time share an attempt.
Outage   nothing changes. When it is over, brokers that were live before stay so for one lease: they could not renew
         theirs. A slow answer counts as an outage: then the brokers' heartbeats were waiting too.
Copy     a process that starts during an outage may begin with a copy of the registry (`start_from_copy`), as if it had
         run since that was written; it knows the registry itself when that was `wait_until_reached`.
Threads  a thread reads the registry, everything else happens on the event loop.
"""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import RegistrySnapshot
from ternmq_common.clock import now_ms
from ternmq_common.errors import StartupError
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_registry.clock_skew import ClockSkew
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from ternmq_common.shard.model import Topic
    from ternmq_registry.security.secret_encryption import SecretEncryption

    Attempt = Callable[[], Coroutine[None, None, None]]

logger = logging.getLogger(__name__)

RETRY_INTERVAL_S = 1.0
SLOW_ANSWER_S = 1.0
GRACE_S = 6.0


class RegistryAway(StartupError):
    """The registry could not be reached in time; `unavailable` is the reason."""

    def __init__(self, unavailable: RegistryUnavailable) -> None:
        self.unavailable = unavailable
        super().__init__(f"the registry can't be reached: {unavailable.reason}; check --registry")


async def connect_registry(
    url: str,
    secret_encryption: "SecretEncryption | None" = None,
    *,
    password_file: "Path | None" = None,
    wait_s: float,
    retry_interval_s: float = RETRY_INTERVAL_S,
) -> Registry:
    """Open a cluster's registry, waiting for it up to `wait_s`; StartupError if it can't be reached by then."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + wait_s
    while True:
        try:
            return await asyncio.to_thread(Registry.open_postgres, url, secret_encryption, password_file=password_file)
        except RegistryUnavailable as error:
            await _wait_or_give_up(error, give_up, retry_interval_s)


class RegistryDirectory:
    """Keeps the registry's snapshot, and calls back when it changes."""

    def __init__(
        self,
        registry: Registry,
        *,
        interval_s: float | None = 1.0,
        grace_s: float = GRACE_S,
        seconds: "Callable[[], float]" = time.monotonic,
        retry_interval_s: float = RETRY_INTERVAL_S,
        clock_skew: ClockSkew | None = None,
    ) -> None:
        """`clock_skew` gets the readings of the registry's clock."""
        self.registry = registry
        self._clock_skew = clock_skew
        self._interval_s = interval_s
        self._loop = BackgroundLoop(
            self._refresh_if_reachable, name="directory", what="can't read the registry", every_s=interval_s or 0.0
        )
        self._retry_interval_s = retry_interval_s
        self._seconds = seconds
        self.snapshot = RegistrySnapshot()
        """The registry as it was read last; `_LeaseGrace` may have put off the ends of leases."""
        self._callbacks: list[Callable[[RegistrySnapshot], None]] = []
        self._attempts = _SharedAttempts()
        self._grace = _LeaseGrace(grace_s)
        self._problem: str | None = None
        self._failed_at = 0.0
        self._reached = asyncio.Event()
        self._refusal: StartupError | None = None
        self._read_ms: int | None = None

    def find_topic(self, name: str) -> "Topic | None":
        """The topic as it is known now, None if it is unknown."""
        return self.snapshot.topics.get(name)

    @property
    def clock_skew_s(self) -> float | None:
        """How many seconds this process's clock is ahead of the registry's, None if unknown. For any thread."""
        return None if self._clock_skew is None else self._clock_skew.skew_s

    @property
    def problem(self) -> str | None:
        """Why the registry can't be reached, None while it can."""
        return self._problem

    @property
    def read_ms(self) -> int | None:
        """When the registry was read last, in milliseconds since the epoch; of a copy, when that was read."""
        return self._read_ms

    @property
    def copy_age_s(self) -> float | None:
        """How old the copy is that the snapshot is from; None when the registry itself was read."""
        if self._reached.is_set() or self._read_ms is None:
            return None
        return max(0, now_ms() - self._read_ms) / 1000

    def on_change(self, callback: "Callable[[RegistrySnapshot], None]") -> None:
        """Call the callback, on the loop, after each snapshot with another version or other live brokers."""
        self._callbacks.append(callback)

    async def start(self, wait_s: float = 0.0) -> None:
        """Read the registry once, waiting for it up to `wait_s`, and go on reading; StartupError if it stays away."""
        give_up = asyncio.get_running_loop().time() + wait_s
        while True:
            try:
                await self.refresh_snapshot()
                break
            except RegistryUnavailable as error:
                await _wait_or_give_up(error, give_up, self._retry_interval_s)
        self._start_reading()

    def start_from_copy(self, snapshot: RegistrySnapshot, read_ms: int, error: RegistryUnavailable) -> None:
        """Begin with a copy that was read at that time, as the registry is away, and go on trying to read it."""
        self.snapshot, self._read_ms = snapshot, read_ms
        self._problem, self._failed_at = error.reason, self._seconds()
        self._start_reading()

    async def wait_until_reached(self) -> None:
        """Wait until the registry itself was read; StartupError if it can't be used."""
        await self._reached.wait()
        if self._refusal is not None:
            raise self._refusal

    def _start_reading(self) -> None:
        if self._interval_s is not None:
            self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    async def refresh_snapshot(self) -> None:
        """Read everything that is in the registry at the time of the call; RegistryUnavailable."""
        await self._attempts.run_after_now(self._read_snapshot)
        if self._problem is not None:
            raise RegistryUnavailable(self._problem)

    async def wait_for_version(self, version: int) -> None:
        """Read again if the snapshot is older than `version`, unless the registry is away."""
        # The attempt that runs may have begun too early to see it.
        for _ in range(2):
            if self.snapshot.version >= version or self._has_just_failed():
                return
            await self._attempts.run_or_join(self._read_snapshot)

    def _has_just_failed(self) -> bool:
        return self._problem is not None and self._seconds() - self._failed_at < self._retry_interval_s

    async def _refresh_if_reachable(self) -> None:
        with suppress(RegistryUnavailable):  # logged where it was found
            await self.refresh_snapshot()

    async def _read_snapshot(self) -> None:
        began = self._seconds()
        try:
            # After an outage it may be another server, without the last changes of the former one.
            known = self.snapshot if self._problem is None else None
            read = await asyncio.to_thread(_read_newer, self.registry, known)
        except RegistryUnavailable as error:
            self._note_failure(error)
            return
        except StartupError as error:  # only of a registry that was not read before
            self._refusal = error
            self._note_failure(RegistryUnavailable(str(error)))
            self._reached.set()
            return
        finally:
            if self._clock_skew is not None:
                self._clock_skew.note_reading(self.registry.clock_reading)
                self._clock_skew.check_skew()
        now = self._seconds()
        if self._problem is not None or now - began > SLOW_ANSWER_S:
            self._grace.start_grace(self.snapshot, now)
        if self._problem is not None:
            logger.info("the registry is back")
            self._problem = None
        self._read_ms, self._refusal = now_ms(), None
        self._reached.set()
        self._set_snapshot(self._grace.apply_grace(read, now))

    def _note_failure(self, error: RegistryUnavailable) -> None:
        if self._problem is None:
            logger.warning("%s", error.message)
        self._problem = error.reason
        self._failed_at = self._seconds()

    def _set_snapshot(self, snapshot: RegistrySnapshot) -> None:
        is_change = _comparable_part(snapshot) != _comparable_part(self.snapshot)
        self.snapshot = snapshot
        if is_change:
            for callback in self._callbacks:
                callback(snapshot)


class _SharedAttempts:
    """Runs one attempt at a time, which all waiting callers share."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._begun = 0
        self._ended = 0

    async def run_after_now(self, attempt: "Attempt") -> None:
        """Run or wait for an attempt that begins after this call, and so reads everything from before it."""
        await self._run_attempt(attempt, self._begun + 1)

    async def run_or_join(self, attempt: "Attempt") -> None:
        """Wait for the running attempt, or run one."""
        await self._run_attempt(attempt, self._begun + (not self._lock.locked()))

    async def _run_attempt(self, attempt: "Attempt", wanted: int) -> None:
        async with self._lock:
            if self._ended >= wanted:
                return
            self._begun += 1
            number = self._begun
            await attempt()
            self._ended = number  # not reached after a cancel: the next caller tries again


class _LeaseGrace:
    """Keeps brokers live although their leases have run out, since they could not renew them in an outage."""

    def __init__(self, duration_s: float) -> None:
        self._duration_s = duration_s
        self._until = 0.0
        self._epochs: dict[str, int] = {}

    def start_grace(self, before: RegistrySnapshot, now: float) -> None:
        """Start the grace; `before` is the snapshot when the outage began."""
        self._epochs = {name: broker.epoch for name, broker in before.brokers.items() if broker.live}
        self._until = now + self._duration_s

    def apply_grace(self, read: RegistrySnapshot, now: float) -> RegistrySnapshot:
        """`read` with those brokers live.

        A broker that was seen live loses the grace: it may stop from then on; and a leader elected since then never
        had it.
        """
        away = {name: broker.epoch for name, broker in read.brokers.items() if not broker.live}
        self._epochs = {name: epoch for name, epoch in self._epochs.items() if away.get(name) == epoch}
        if not self._epochs or now >= self._until:
            self._epochs.clear()
            return read
        kept = {name: replace(read.brokers[name], live=True) for name in self._epochs}
        return replace(read, brokers={**read.brokers, **kept})


def _read_newer(registry: Registry, known: RegistrySnapshot | None) -> RegistrySnapshot:
    if known is None:
        registry.check_schema()
        return registry.read_snapshot()
    version, brokers = registry.read_brokers()
    return replace(known, brokers=brokers) if version == known.version else registry.read_snapshot(known)


def _comparable_part(snapshot: RegistrySnapshot) -> tuple[int, list[tuple[str, str, int]]]:
    """The version and live brokers of a snapshot, to compare: loads and positions of replicas change all the time.

    Everything else of a broker raises the version. Another leader has another epoch.
    """
    live = [(name, broker.address, broker.epoch) for name, broker in snapshot.brokers.items() if broker.live]
    return snapshot.version, live


async def _wait_or_give_up(error: RegistryUnavailable, give_up: float, interval_s: float) -> None:
    left_s = give_up - asyncio.get_running_loop().time()
    if left_s <= 0:
        raise RegistryAway(error) from error
    await asyncio.sleep(min(interval_s, left_s))
