"""The values that tools of RocketMQ keep in a name server, as this process reads and changes them in the registry.

Like proxies they are not cached: every call asks the registry, and raises RegistryUnavailable at once while that is
unavailable.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from ternmq_proxy.catalog.catalog import Catalog
    from ternmq_registry.directory import RegistryDirectory


class NameServerValues:
    """A text for each namespace and name."""

    def __init__(self, catalog: "Catalog", directory: "RegistryDirectory") -> None:
        self._catalog = catalog
        self._directory = directory
        self._registry = directory.registry

    async def read_values(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace by name."""
        if self._directory.problem is not None:
            raise RegistryUnavailable(self._directory.problem)
        return await asyncio.to_thread(self._registry.read_values, namespace)

    async def put_value(self, namespace: str, name: str, value: str) -> None:
        """Set a value. TOO_MANY_REQUESTS if there are too many."""
        await self._catalog.apply_change(self._registry.put_value, namespace, name, value)

    async def delete_value(self, namespace: str, name: str) -> None:
        """Delete a value, if it is there."""
        if name in await self.read_values(namespace):
            await self._catalog.apply_change(self._registry.delete_value, namespace, name)
