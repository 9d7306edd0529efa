"""The broker's lease: while it is renewed, the broker is in the routes.

The registry's epoch fences: of two processes of one name only the later one may renew, and the other ends.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.event_loop.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.catalog.cluster import BrokerLoad
    from ternmq_registry.registry import Registry

_log = logging.getLogger(__name__)
_BEATS_PER_LEASE = 3


class BrokerLease:
    """The registration of one broker, whose store is `store_id`."""

    def __init__(
        self, registry: "Registry", *, name: str, store_id: str, address: str, version: str, lease_ms: int
    ) -> None:
        self._registry = registry
        self._name = name
        self.store_id = store_id
        self._address = address
        self._version = version
        self._lease_ms = lease_ms
        self._epoch = 0
        self._is_unsure = False
        self._renewed_at = time.monotonic()
        self._tasks = BackgroundTasks()
        self.problem: str | None = "the broker is not registered yet"
        self.superseded = asyncio.Event()

    @property
    def age_s(self) -> float:
        """How many seconds ago the lease was renewed."""
        return time.monotonic() - self._renewed_at

    async def register_broker(self, *, rejoin: bool = False, is_empty: bool = False, instead_of: str = "") -> None:
        """Register the broker. RegistryUnavailable without the registry.

        StartupError if another store has the name, unless this one `is_empty` and replaces it (`instead_of`); or if
        the broker was removed and is not to `rejoin`.
        """
        self._is_unsure = True
        self._epoch = await asyncio.to_thread(
            self._registry.register_broker,
            self._name,
            self.store_id,
            self._address,
            self._version,
            self._lease_ms,
            rejoin=rejoin,
            is_empty=is_empty,
            instead_of=instead_of,
        )
        self._is_unsure = False
        self.problem = None
        self._renewed_at = time.monotonic()
        _log.info("registered as %s, epoch %d, at %s", self._name, self._epoch, self._address)

    def start(self, load: "Callable[[], BrokerLoad]") -> None:
        """Renew the lease from now on."""
        self._tasks.start(self._renew_forever(load), name="heartbeat")

    async def give_up(self) -> None:
        """End the lease, so that the broker leaves the routes at once, if the registry can be reached."""
        await self._tasks.stop()
        if self._epoch and not self.superseded.is_set():
            try:
                await asyncio.to_thread(self._registry.deregister_broker, self._name, self._epoch)
            except MessagingError as error:
                _log.warning("cannot end the lease, which will expire: %s", error)

    async def report_load(self, load: "BrokerLoad") -> None:
        """Report the last load of a broker that has given up its lease, if the registry can be reached."""
        try:
            await asyncio.to_thread(self._registry.report_load, self._name, self._epoch, load)
        except MessagingError as error:
            _log.warning("cannot report load: %s", error)

    async def _renew_forever(self, load: "Callable[[], BrokerLoad]") -> None:
        beat_s = self._lease_ms / 1000 / _BEATS_PER_LEASE
        while True:
            await asyncio.sleep(beat_s if self.problem is None else beat_s / 2)
            try:
                await self._renew_once(load())
            except StartupError as error:
                _log.critical("this process is not broker %s any more, and ends: %s", self._name, error)
                self.superseded.set()
                return
            except MessagingError as error:
                self._note_failure(error)
            except Exception as error:  # noqa: BLE001 - the outermost of this task, and it logs
                _log.exception("the heartbeat failed unexpectedly")
                self._note_failure(error)
            else:
                if self.problem is not None:
                    _log.info("the lease is renewed again")
                self.problem = None
                self._renewed_at = time.monotonic()

    def _note_failure(self, error: Exception) -> None:
        if self.problem is None:
            _log.warning("the lease can't be renewed: %s", error)
        self.problem = str(error)

    async def _renew_once(self, load: "BrokerLoad") -> None:
        """Renew the lease; StartupError if another process is the broker now."""
        if await asyncio.to_thread(self._registry.record_heartbeat, self._name, self._epoch, load, self._lease_ms):
            return
        _, brokers = await asyncio.to_thread(self._registry.read_brokers)
        entry = brokers.get(self._name)
        # A later epoch may also be a registration of ours whose answer was lost.
        if entry is not None and entry.epoch > self._epoch and not self._is_unsure:
            raise StartupError(f"it is at {entry.address}, epoch {entry.epoch}")
        # The broker was removed, or an older registry was restored.
        await self.register_broker()
