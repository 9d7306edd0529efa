"""What pages say of brokers and replicas, by what the server answered. Pure."""

from typing import TYPE_CHECKING

from ternmq_common.cluster import BrokerLoad
from ternmq_common.removal_warning import is_empty
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_console.desk import Message


def is_of_cluster(broker: "Message") -> bool:
    """Whether it can be looked after: the one broker of a server that is its own has no epoch."""
    return bool(broker.epoch)


def permission_of(broker: "Message") -> str:
    """What clients may do there, by its name."""
    return definition_pb2.Permission.Name(broker.permission)


def told_of(load: "Message") -> BrokerLoad:
    """What a broker told of itself last; what it has not counted yet is None."""
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
    """Whether nobody would miss what it has, by what it told, and it gets nothing new."""
    return broker.draining and is_empty(told_of(broker.load))


def is_async(broker: "Message") -> bool:
    """Whether a send is acknowledged when the leader alone has the message."""
    return bool(broker.replication == admin_pb2.REPLICATION_ASYNC)


def leader_of(broker: "Message") -> "Message | None":
    """The replica that leads, or did last."""
    return next((each for each in broker.replicas if each.leader), None)


def is_live(replica: "Message", broker: "Message") -> bool:
    """Whether it is heard of; a leader that serves nobody is as good as away."""
    return replica.live and (broker.live or not replica.leader)


def behind(replica: "Message", broker: "Message") -> int | None:
    """How many bytes the leader's log has more; None if nobody leads."""
    leader = leader_of(broker)
    return None if leader is None else max(0, leader.position - replica.position)


def may_lead(broker: "Message") -> list[str]:
    """The replicas to which the leader could hand over now."""
    return [each.name for each in broker.replicas if each.in_sync and each.live and not each.leader]


def is_electable(replica: "Message", broker: "Message") -> bool:
    """Whether it could lead although it is not in sync: while nobody does."""
    return replica.live and not replica.in_sync and not broker.live


def in_sync_without(replica: "Message", broker: "Message") -> "list[Message]":
    """The others that are in sync."""
    return [each for each in broker.replicas if each.in_sync and each.name != replica.name]


def known_loss(replica: "Message", broker: "Message") -> int:
    """How many bytes of the log are lost at least if this one leads: what those in sync told that they have more."""
    most: int = max((each.position for each in in_sync_without(replica, broker)), default=0)
    return most - replica.position if most > replica.position else 0
