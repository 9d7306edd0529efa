"""The registry's table of proxies as one of them uses it: what each tells of itself, and how they share quotas.

Unlike topics and groups it is not remembered: every call asks the registry. RegistryUnavailable at once while that is
out.
"""

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.cluster import ProxyEntry
    from ternmq_registry.directory import RegistryDirectory
    from ternmq_registry.quotas import Demand, Uses

P = ParamSpec("P")
R = TypeVar("R")


class ProxyTable:
    """Of the registry that the directory reads."""

    def __init__(self, directory: "RegistryDirectory") -> None:
        self._directory = directory
        self._registry = directory.registry

    async def report_proxy(self, proxy: "ProxyEntry", lease_ms: int) -> None:
        """Have the others know this process for so long."""
        await self._call_registry(self._registry.report_proxy, proxy, lease_ms)

    async def list_proxies(self) -> "list[ProxyEntry]":
        """All processes that live and have told of themselves."""
        return await self._call_registry(self._registry.list_proxies)

    async def exchange_demand(self, proxy: str, demand: "Demand", uses: "Uses", lease_ms: int) -> "dict[str, Demand]":
        """As the registry has it."""
        return await self._call_registry(self._registry.exchange_demand, proxy, demand, uses, lease_ms)

    async def uses_elsewhere(self, proxy: str) -> "list[Uses]":
        """What the other proxies said last that is taken of quotas there."""
        return await self._call_registry(self._registry.uses_elsewhere, proxy)

    async def remove_proxy(self, proxy: str) -> None:
        """This process ends, and wants nothing of any quota."""
        await self._call_registry(self._registry.remove_proxy, proxy)

    async def _call_registry(self, call: "Callable[P, R]", *args: P.args, **kwargs: P.kwargs) -> R:
        if self._directory.problem is not None:
            raise RegistryUnavailable(self._directory.problem)
        return await asyncio.to_thread(call, *args, **kwargs)
