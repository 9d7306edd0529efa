"""The heartbeat of a proxy process to the registry of a cluster, so that operators see the process at every proxy.

Every two seconds the process writes its row, with a lease of six; at a clean end it removes the row before it closes
its clients' connections. While the registry is away nothing is written, and the directory says why. The embedded stack
has no such heartbeat: it has one server, whose processes ask each other, and each write would cost its disk a flush.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import ProxyEntry, ProxyLoad
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.printable import cut_text
from ternmq_common.process.own_version import own_version
from ternmq_proxy.quotas.shares import name_of
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.tables import PROXY_CHARACTERS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_proxy.catalog.proxy_table import ProxyTable
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)
INTERVAL_S = 2.0
LEASE_MS = 6000
PROBLEM_CHARACTERS = 300


def make_proxy_entry(services: "Services") -> ProxyEntry:
    """Return the row of this process."""
    process, latest = services.process, services.history.latest
    calls = latest.get("calls")
    return ProxyEntry(
        name=name_of(process),
        server=process.server[:PROXY_CHARACTERS_MAX],
        address=services.store_host,
        version=own_version(),
        started_ms=services.started_ms,
        load=ProxyLoad(
            connections=services.connections(),
            clients=services.history.client_count,
            calls=None if calls is None else round(calls, 3),
            call_p99_ms=latest["call_p99_ms"] if calls else None,
            problem=cut_text(services.messages.outage_reason or process.degraded() or "", PROBLEM_CHARACTERS),
        ),
    )


class ProxyHeartbeat:
    """Sends the heartbeat of one process; `own` returns its row."""

    def __init__(self, own: "Callable[[], ProxyEntry]", table: "ProxyTable", *, interval_s: float = INTERVAL_S) -> None:
        self._own = own
        self._table = table
        self._interval_s = interval_s
        self._tasks, self._heartbeats = BackgroundTasks(), BackgroundTasks()
        self._may_be_listed = False
        self._has_failed = False

    def start_heartbeats(self) -> None:
        """Send heartbeats from now on, until `stop_heartbeats`."""
        self._tasks.start(self._send_forever(), name="proxy heartbeats")

    async def stop_heartbeats(self) -> None:
        """Remove this process from the registry; if that is unavailable, the lease ends by itself."""
        await self._tasks.stop()
        await self._heartbeats.wait_until_done()
        if self._may_be_listed:
            try:
                await self._table.remove_proxy(self._own().name)
            except RegistryUnavailable as error:
                _log.info(
                    "cannot remove this proxy from the registry; it stays listed until its lease ends: %s",
                    error.message,
                )

    async def _send_forever(self) -> None:
        while True:
            # A running call continues after the cancellation, so the removal is the last one.
            await self._heartbeats.run_to_end(self._send_heartbeat())
            await asyncio.sleep(self._interval_s)

    async def _send_heartbeat(self) -> None:
        try:
            await self._table.report_proxy(self._own(), LEASE_MS)
        except RegistryUnavailable:
            pass  # the directory, which reads it too, logs it
        except Exception:  # noqa: BLE001 - the outermost of this, and it logs
            if not self._has_failed:  # logged once, until it works again
                _log.exception("cannot send this proxy's heartbeat to the registry: lists of proxies lack it")
            self._has_failed = True
        else:
            # From now on: a later heartbeat that fails leaves the row of an earlier one, with its lease.
            self._may_be_listed, self._has_failed = True, False
