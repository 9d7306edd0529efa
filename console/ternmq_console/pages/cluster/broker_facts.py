"""Derives facts about brokers and replicas, which pages show, from the server's answers. Pure."""

from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import BrokerLoad
from ternmq_common.catalog.removal_warning import has_nothing_to_lose
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_console.operator_calls import Message


def is_of_cluster(broker: "Message") -> bool:
    """Return whether the broker is one of a cluster; the only broker of an embedded stack has no epoch."""
    return bool(broker.epoch)


def permission_of(broker: "Message") -> str:
    """Return the name of the broker's permission."""
    return definition_pb2.Permission.Name(broker.permission)


def reported_load(load: "Message") -> BrokerLoad:
    """Convert the load that a broker reported last; figures that it has not counted yet are None."""
    counted = {name: getattr(load, name) for name in ("messages", "unfinished", "timers") if load.HasField(name)}
    return BrokerLoad(
        messages_in=load.messages_in,
        messages_out=load.messages_out,
        proxies=load.proxies,
        transactions=load.transactions,
        disk_used=load.disk_used,
        clock_skew=load.clock_skew if load.HasField("clock_skew") else None,
        **counted,
    )


def is_drained(broker: "Message") -> bool:
    """Return whether the broker is draining and reported that it is empty."""
    return broker.draining and has_nothing_to_lose(reported_load(broker.load))


def is_async(broker: "Message") -> bool:
    """Return whether a send is acknowledged when only the leader has the message."""
    return bool(broker.replication == admin_pb2.REPLICATION_ASYNC)


def leader_of(broker: "Message") -> "Message | None":
    """Return the replica that leads, or led last; None if there is none."""
    return next((each for each in broker.replicas if each.leader), None)


def is_live(replica: "Message", broker: "Message") -> bool:
    """Return whether the replica is live; a leader that does not serve counts as away."""
    return replica.live and (broker.live or not replica.leader)


def behind(replica: "Message", broker: "Message") -> int | None:
    """Return how many bytes the replica is behind the leader; None without a leader."""
    leader = leader_of(broker)
    return None if leader is None else max(0, leader.position - replica.position)


def may_lead(broker: "Message") -> list[str]:
    """Return the names of the replicas to which the leader could hand over now."""
    return [each.name for each in broker.replicas if each.in_sync and each.live and not each.leader]


def is_electable(replica: "Message", broker: "Message") -> bool:
    """Return whether the replica could be elected although it is not in sync: only without a live leader."""
    return replica.live and not replica.in_sync and not broker.live


def in_sync_without(replica: "Message", broker: "Message") -> "list[Message]":
    """Return the other replicas that are in sync."""
    return [each for each in broker.replicas if each.in_sync and each.name != replica.name]


def known_loss(replica: "Message", broker: "Message") -> int:
    """Return how many bytes of the log are lost at least if this replica leads, by the reports of in-sync replicas."""
    most: int = max((each.position for each in in_sync_without(replica, broker)), default=0)
    return most - replica.position if most > replica.position else 0
