"""The rows of a process that becomes a replica of a shard, and the refusals. See `shards`."""

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, update

from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad, QueuePermission, ReplicaEntry
from ternmq_common.errors import StartupError
from ternmq_registry.members.brokers import list_replica_names
from ternmq_registry.sql.rows import load_text
from ternmq_registry.tables import BROKERS, DATABASE_NOW_MS, REPLICAS

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from ternmq_registry.members.shards import JoiningReplica


class ReplicaIsLive(StartupError):
    """Another store has the name, and a live lease; the lease ends if that replica has lost its disk."""


def insert_shard(
    connection: "Connection", broker: str, replica: "JoiningReplica", terms: dict[str, Any], *, epoch: int
) -> None:
    """Insert the shard's row, with this store as the leader of record; a new store has no deletions to do."""
    connection.execute(
        insert(BROKERS).values(
            name=broker,
            store_id=replica.store_id,
            address=replica.address,
            epoch=epoch,
            permission=QueuePermission.READ_WRITE.value,
            draining=False,
            version=replica.version,
            started_ms=DATABASE_NOW_MS,
            lease_end_ms=0,
            load=load_text(BrokerLoad()),
            applied=epoch,
            **terms,
        )
    )


def check_own(shard: BrokerEntry, replica: "JoiningReplica", replicas: int) -> None:
    """StartupError unless this is the store of the broker, which has no replicas."""
    if shard.store_id != replica.store_id:
        raise StartupError(
            f"broker {shard.name!r} at {shard.address} has no replicas, and only it has the messages: restart it with "
            f"--replicas {replicas} first, then start this one again"
        )


def update_returning(connection: "Connection", shard: BrokerEntry, replica: "JoiningReplica", lease_ms: int) -> None:
    """Write the row of a replica that was there before; StartupError if another replica has its name."""
    for each in shard.replicas:
        if each.name == replica.name and each.store_id != replica.store_id:
            raise _name_taken(shard, each)
    its = replica_row(shard.name, replica.store_id)
    connection.execute(update(REPLICAS).where(its).values(**_process_values(replica, lease_ms)))


def admit_new_replica(
    connection: "Connection", shard: BrokerEntry, replica: "JoiningReplica", lease_ms: int, *, version: int
) -> None:
    """Insert a new replica: for one of the same name, whose disk must be lost, or beside the others.

    StartupError if neither is allowed; `version` is that of this change.
    """
    before = next((each for each in shard.replicas if each.name == replica.name), None)
    if before is not None:
        _remove_replaced(connection, shard, before, version)
    elif len(shard.replicas) >= shard.replicas_wanted:
        raise StartupError(
            f"broker {shard.name!r} has its {shard.replicas_wanted} replicas ({list_replica_names(shard.replicas)}): "
            "let it have "
            f"one more with `ternmq shard add-replica {shard.name}`, or remove one with `ternmq shard remove-replica "
            f"{shard.name} NAME`; one that lost its disk is replaced by another of its --replica-name"
        )
    insert_replica(connection, shard.name, replica, lease_ms, in_sync=False)


def _remove_replaced(connection: "Connection", shard: BrokerEntry, before: ReplicaEntry, version: int) -> None:
    if before.live:
        raise _name_taken(shard, before)
    if {each.store_id for each in shard.replicas if each.in_sync} == {before.store_id}:
        # This may only be the wrong data directory: the right one may still come back and lead.
        raise StartupError(
            f"only replica {before.name!r} of broker {shard.name!r} has all that was acknowledged, and this is another "
            f"store: start it with the --data-dir that it had; if that is lost, make another replica the leader with "
            f"`ternmq shard elect --unclean {shard.name} NAME` first"
        )
    gone = delete(REPLICAS).where(replica_row(shard.name, before.store_id), REPLICAS.c.lease_end_ms <= DATABASE_NOW_MS)
    is_gone = connection.execute(gone).rowcount > 0
    if is_gone and before.store_id == shard.store_id:
        # Another epoch, so that a process that comes back does not lead without being a replica.
        fenced = update(BROKERS).where(BROKERS.c.name == shard.name, BROKERS.c.lease_end_ms <= DATABASE_NOW_MS)
        is_gone = connection.execute(fenced.values(epoch=version)).rowcount > 0
    if not is_gone:
        raise _name_taken(shard, before)


def _name_taken(shard: BrokerEntry, other: ReplicaEntry) -> ReplicaIsLive:
    state = "is running" if other.live else "was"
    return ReplicaIsLive(
        f"replica {other.name!r} of broker {shard.name!r} {state} at {other.address}, with another store; stop that "
        "one, or give this one another --replica-name"
    )


def insert_replica(
    connection: "Connection", broker: str, replica: "JoiningReplica", lease_ms: int, *, in_sync: bool
) -> None:
    """Insert one more replica of the shard."""
    values = {"broker": broker, "store_id": replica.store_id, "in_sync": in_sync, "position": 0}
    connection.execute(insert(REPLICAS).values(**values, **_process_values(replica, lease_ms)))


def replica_row(broker: str, store_id: str) -> "ColumnElement[bool]":
    """The condition for that replica's row."""
    return (REPLICAS.c.broker == broker) & (REPLICAS.c.store_id == store_id)


def _process_values(replica: "JoiningReplica", lease_ms: int) -> dict[str, Any]:
    return {
        "name": replica.name,
        "address": replica.address,
        "version": replica.version,
        "started_ms": DATABASE_NOW_MS,
        "lease_end_ms": DATABASE_NOW_MS + lease_ms,
    }
