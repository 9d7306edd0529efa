"""Changes of replicas in the registry, visible here when a call is done, and logged."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_common.catalog.cluster import UncleanElection
    from ternmq_proxy.catalog.catalog import Catalog
    from ternmq_proxy.catalog.change_log import ChangeLog
    from ternmq_registry.registry import Registry


class ShardChanges:
    """Changes replicas; errors are those of `ternmq_registry.members.shards`."""

    def __init__(self, catalog: "Catalog", registry: "Registry", change_log: "ChangeLog") -> None:
        self._catalog = catalog
        self._registry = registry
        self._change_log = change_log

    async def request_handover(self, broker: str, replica: str) -> None:
        """Request a handover; it is done when the broker's epoch has changed."""
        await self._catalog.apply_change(self._registry.request_handover, broker, replica)
        self._change_log.done(f"broker {broker} is to be led by replica {replica}")

    async def elect_unclean(self, broker: str, replica: str) -> "UncleanElection":
        """Elect a replica as leader though it may lack messages."""
        elected = await self._catalog.apply_change(self._registry.elect_unclean, broker, replica)
        lost = f"{elected.lost_bytes} bytes or more are lost" if elected.lost_bytes else "it is not known what is lost"
        self._change_log.done(f"replica {replica} of broker {broker} was elected, though not in sync ({lost}),")
        return elected

    async def add_replica(self, broker: str) -> None:
        """Allow the shard one more replica."""
        await self._catalog.apply_change(self._registry.add_replica, broker)
        self._change_log.done(f"broker {broker} was let have one replica more")

    async def remove_replica(self, broker: str, replica: str) -> None:
        """Remove a replica from the shard."""
        await self._catalog.apply_change(self._registry.remove_replica, broker, replica)
        self._change_log.done(f"replica {replica} of broker {broker} was removed")
