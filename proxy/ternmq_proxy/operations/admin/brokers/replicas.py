"""Replicas of a cluster's brokers; the embedded stack's one broker has none."""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.cluster import BrokerEntry, UncleanElection
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.access.needs import CLUSTER_UPDATE

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


class ElectedReplica(NamedTuple):
    """The broker after an unclean election, and what that did."""

    broker: BrokerEntry
    election: UncleanElection


async def move_leader(broker: str, replica: str, call: "Call", services: "Services") -> BrokerEntry:
    """Ask the leader to hand over to a replica; the list of brokers says when that is done."""
    _check_change("MoveLeader", call, services)
    await services.catalog.shards.request_handover(broker, replica)
    return await services.catalog.existing_broker(broker)


async def elect_replica(broker: str, replica: str, call: "Call", services: "Services") -> ElectedReplica:
    """Make a replica leader though it is not in sync; what only others have is lost."""
    _check_change("ElectReplica", call, services)
    election = await services.catalog.shards.elect_unclean(broker, replica)
    return ElectedReplica(await services.catalog.existing_broker(broker), election)


async def add_replica(broker: str, call: "Call", services: "Services") -> BrokerEntry:
    """Let a shard have one replica more."""
    _check_change("AddReplica", call, services)
    await services.catalog.shards.add_replica(broker)
    return await services.catalog.existing_broker(broker)


async def remove_replica(broker: str, replica: str, call: "Call", services: "Services") -> BrokerEntry:
    """Forget a replica; BAD_REQUEST for the leader, and if too few would be in sync."""
    _check_change("RemoveReplica", call, services)
    await services.catalog.shards.remove_replica(broker, replica)
    return await services.catalog.existing_broker(broker)


def _check_change(call_name: str, call: "Call", services: "Services") -> None:
    services.access.require_change(call_name, call, (CLUSTER_UPDATE, "brokers"))
    if services.catalog.is_embedded:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            "this server is its own and only broker, without replicas; those are of a cluster's brokers "
            "(`ternmq broker --replicas`)",
        )
