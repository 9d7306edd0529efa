"""The registry's table of proxies as one of them uses it: their heartbeats, and how they share quotas.

Unlike topics and groups it is not cached: every call asks the registry, and raises RegistryUnavailable at once while
that is unavailable.
"""

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.catalog.cluster import ProxyEntry
    from ternmq_registry.directory import RegistryDirectory
    from ternmq_registry.quotas import Demand, Uses

P = ParamSpec("P")
R = TypeVar("R")


class ProxyTable:
    """The table of proxies in the registry of the directory."""

    def __init__(self, directory: "RegistryDirectory") -> None:
        self._directory = directory
        self._registry = directory.registry

    async def report_proxy(self, proxy: "ProxyEntry", lease_ms: int) -> None:
        """Prolong the lease of this process."""
        await self._call_registry(self._registry.report_proxy, proxy, lease_ms)

    async def list_proxies(self) -> "list[ProxyEntry]":
        """Return all processes with a lease."""
        return await self._call_registry(self._registry.list_proxies)

    async def exchange_demand(self, proxy: str, demand: "Demand", uses: "Uses", lease_ms: int) -> "dict[str, Demand]":
        """Report this proxy's demand, and return that of all, as the registry has it."""
        return await self._call_registry(self._registry.exchange_demand, proxy, demand, uses, lease_ms)

    async def uses_elsewhere(self, proxy: str) -> "list[Uses]":
        """Return the last reports of other proxies of what is taken of quotas there."""
        return await self._call_registry(self._registry.uses_elsewhere, proxy)

    async def remove_proxy(self, proxy: str) -> None:
        """Remove this process, which then wants nothing of any quota."""
        await self._call_registry(self._registry.remove_proxy, proxy)

    async def _call_registry(self, call: "Callable[P, R]", *args: P.args, **kwargs: P.kwargs) -> R:
        if self._directory.problem is not None:
            raise RegistryUnavailable(self._directory.problem)
        return await asyncio.to_thread(call, *args, **kwargs)
