"""Changes of replicas in the registry: seen here when a call is done, and said in the log."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_common.cluster import UncleanElection
    from ternmq_proxy.catalog import Catalog
    from ternmq_proxy.change_log import ChangeLog
    from ternmq_registry.registry import Registry


class ShardChanges:
    """Errors are those of `ternmq_registry.shards`."""

    def __init__(self, catalog: "Catalog", registry: "Registry", change_log: "ChangeLog") -> None:
        self._catalog = catalog
        self._registry = registry
        self._change_log = change_log

    async def request_handover(self, broker: str, replica: str) -> None:
        """Ask the leader to hand over; it is done when the broker's epoch is another."""
        await self._catalog.apply_change(self._registry.request_handover, broker, replica)
        self._change_log.done(f"broker {broker} was asked to be led by replica {replica}")

    async def elect_unclean(self, broker: str, replica: str) -> "UncleanElection":
        """Make a replica leader though it may lack messages."""
        elected = await self._catalog.apply_change(self._registry.elect_unclean, broker, replica)
        lost = f"{elected.lost_bytes} bytes or more are lost" if elected.lost_bytes else "it is not known what is lost"
        self._change_log.done(f"replica {replica} of broker {broker} was elected, though not in sync ({lost}),")
        return elected

    async def add_replica(self, broker: str) -> None:
        """Let the shard have one more."""
        await self._catalog.apply_change(self._registry.add_replica, broker)
        self._change_log.done(f"broker {broker} was let have one replica more")

    async def remove_replica(self, broker: str, replica: str) -> None:
        """Forget one."""
        await self._catalog.apply_change(self._registry.remove_replica, broker, replica)
        self._change_log.done(f"replica {replica} of broker {broker} was removed")
