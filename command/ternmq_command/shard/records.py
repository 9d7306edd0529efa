"""Formats shards and replicas for output."""

from typing import TYPE_CHECKING

from ternmq_command.terminal.output import iso_or_none

if TYPE_CHECKING:
    from ternmq.admin.brokers import Broker, Replica


def shard_record(broker: "Broker") -> dict[str, object]:
    """Return the record of a shard; without replicas it has no leader and no mode.

    `min_in_sync` is the number of replicas that must have a message.
    """
    leader = broker.leader
    is_replicated = bool(broker.replicas)
    return {
        "shard": broker.name,
        "epoch": broker.epoch,
        "live": broker.live,
        "leader": leader and leader.name,
        "moving_to": broker.move_to or None,
        "mode": broker.replication if is_replicated else None,
        "in_sync": sum(replica.in_sync for replica in broker.replicas) if is_replicated else None,
        "min_in_sync": broker.min_insync if is_replicated else None,
        "replicas_wanted": broker.replicas_wanted,
        "replicas": [replica_record(replica, broker) for replica in broker.replicas],
    }


def shard_row(broker: "Broker") -> dict[str, object]:
    """Return the row of a shard in a table."""
    record = shard_record(broker)
    shown = {name: record[name] for name in ("shard", "epoch", "leader", "mode", "min_in_sync")}
    marks = " ".join(f"{replica.name}:{_replica_mark(replica, broker)}" for replica in broker.replicas)
    return {**shown, "replicas": marks or "none"}


def _replica_mark(replica: "Replica", broker: "Broker") -> str:
    state = "leader" if replica.leader else "in-sync" if replica.in_sync else "behind"
    return state if _is_live(replica, broker) else f"{state},away"


def _is_live(replica: "Replica", broker: "Broker") -> bool:
    """Return whether a replica is live; a leader that does not serve counts as away."""
    return replica.live and (broker.live or not replica.leader)


def replica_record(replica: "Replica", broker: "Broker") -> dict[str, object]:
    """Return the record of a replica; `position` is its durable log end, `behind` its distance to the leader in
    bytes."""
    leader = broker.leader
    return {
        "replica": replica.name,
        "address": replica.address,
        "leader": replica.leader,
        "in_sync": replica.in_sync,
        "live": _is_live(replica, broker),
        "position": replica.position,
        "behind": None if leader is None else max(0, leader.position - replica.position),
        "version": replica.version or None,
        "started": iso_or_none(replica.started),
        "lease_end": iso_or_none(replica.lease_end),
        "store": replica.store_id,
    }


def format_position(replica: "Replica") -> str:
    state = "" if replica.live else ", before it went away"
    return f"byte {replica.position}{state}"
