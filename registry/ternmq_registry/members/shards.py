"""Shards with replicas: their replicas, the in-sync set, and the leader.

Leader   the broker's row is the leader's: its store, address, epoch and lease. The epoch grows with each leader, and
         when one leads again. The leader of record is the one whose store is in that row, live or not; it may lead
         again until another one does.
In sync  `in_sync` replicas have all that was acknowledged, so only they may follow a leader whose lease has run out. A
         leader that acknowledges a message therefore first changes the set here, and learns whether that worked.
Races    changes wait for each other (`Database.change_transaction`), heartbeats do not: a lease may be prolonged
         between a query
         and the change that follows. So the change itself checks again, in its WHERE.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import ColumnElement, delete, insert, select, update

from ternmq_common.catalog.cluster import (
    REPLICAS_MAX,
    BrokerEntry,
    BrokerLoad,
    ReplicaEntry,
    ReplicationMode,
    UncleanElection,
)
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_registry.members.brokers import broker_in, list_replica_names, raise_not_found
from ternmq_registry.members.removals import place_again, readmit_store
from ternmq_registry.members.replica_rows import (
    admit_new_replica,
    check_own,
    insert_replica,
    insert_shard,
    replica_row,
    update_returning,
)
from ternmq_registry.sql.database import raise_version
from ternmq_registry.sql.rows import effective_min_insync, load_text
from ternmq_registry.tables import BROKERS, DATABASE_NOW_MS, REMOVED_STORES, REPLICAS, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from ternmq_registry.sql.database import RegistryDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningReplica:
    """A process that joins as a replica; the fields are those of `ReplicaEntry`."""

    store_id: str
    name: str
    address: str
    version: str


class _NotAllowed(Exception):  # never leaves this module
    """Ends a transaction that must change nothing."""


class ShardTable:
    """The part of the registry for replicas."""

    _database: "RegistryDatabase"

    def join_shard(
        self,
        broker: str,
        replica: JoiningReplica,
        lease_ms: int,
        *,
        replicas: int,
        min_insync: int,
        replication: ReplicationMode,
        rejoin: bool = False,
    ) -> BrokerEntry:
        """Join the shard as a replica; StartupError with the reason if that is refused.

        The first one creates the shard, with these settings, and is its leader of record; so does the broker that had
        no replicas. Later `replicas` changes only by `add_replica` and `remove_replica`, the others by
        `take_leadership`.
        """
        terms = {"replicas": replicas, "min_insync": min_insync, "replication": replication.value}
        with self._database.change_transaction() as connection:
            topics = readmit_store(connection, replica.store_id, rejoin=rejoin)
            shard = broker_in(connection, broker)
            version = raise_version(connection)
            if shard is None:
                insert_shard(connection, broker, replica, terms, epoch=version)
                insert_replica(connection, broker, replica, lease_ms, in_sync=True)
                place_again(connection, broker, topics, version)
            elif not shard.replicas:
                check_own(shard, replica, replicas)
                connection.execute(update(BROKERS).where(BROKERS.c.name == broker).values(**terms))
                insert_replica(connection, broker, replica, lease_ms, in_sync=True)
            elif any(each.store_id == replica.store_id for each in shard.replicas):
                update_returning(connection, shard, replica, lease_ms)
            else:
                admit_new_replica(connection, shard, replica, lease_ms, version=version)
            joined = broker_in(connection, broker)
            assert joined is not None
            return joined

    def take_leadership(
        self,
        broker: str,
        store_id: str,
        epoch: int,
        lease_ms: int,
        *,
        min_insync: int,
        replication: ReplicationMode,
        keeps_move: bool = True,
    ) -> int | None:
        """Become leader; returns the new epoch, None if that is not allowed.

        The leader of record may at any time, an in-sync replica when the leader's lease has run out and no replica led
        since `epoch`. The former leader leaves the in-sync set, unless too few would be left: what only it has was not
        acknowledged. Without `keeps_move` a requested handover is dropped, as it was tried. Otherwise the requested
        replica, if it is another one, is to lead after this one.
        """
        row = BROKERS.c
        is_free = (row.epoch == epoch) & (row.lease_end_ms <= DATABASE_NOW_MS)
        settings = {"min_insync": min_insync, "replication": replication.value}
        try:
            with self._database.change_transaction() as connection:
                shard, candidate = _find_in_sync(connection, broker, store_id)
                allowed = (row.store_id == store_id) | is_free
                moves_on = keeps_move and shard.move_to != store_id
                move_to = shard.move_to if moves_on else ""
                raised = _write_leader(connection, shard, candidate, lease_ms, allowed, **settings, move_to=move_to)
                in_sync = {each.store_id for each in shard.replicas if each.in_sync}
                left = in_sync - {shard.store_id} | {store_id}
                if len(left) >= effective_min_insync(min_insync, shard.replicas_wanted):
                    _write_in_sync(connection, shard, left)
                return raised
        except _NotAllowed:
            return None

    def hand_over(self, broker: str, epoch: int, target: str, lease_ms: int) -> int | None:
        """Hand the leadership that the caller has in this `epoch` to the replica with the store `target`.

        Returns its epoch, None if the caller does not lead, or the target is not in sync. The in-sync set stays. The
        target has `lease_ms` to call `take_leadership` itself before another replica may.
        """
        try:
            with self._database.change_transaction() as connection:
                shard, successor = _find_in_sync(connection, broker, target)
                leads = (BROKERS.c.epoch == epoch) & (BROKERS.c.store_id != target)
                return _write_leader(connection, shard, successor, lease_ms, leads)
        except _NotAllowed:
            return None

    def heartbeat_replica(self, broker: str, store_id: str, position: int, lease_ms: int) -> int | None:
        """Renew the replica's own lease, and note up to which log offset it is durable.

        A leader has this lease beside that of the broker. Returns up to which version deletions are done in the shard;
        None for a replica that was removed, or replaced.
        """
        values = {"lease_end_ms": DATABASE_NOW_MS + lease_ms, "position": position}
        applied = select(BROKERS.c.applied).where(BROKERS.c.name == broker)
        with self._database.write_transaction() as connection:
            if not connection.execute(update(REPLICAS).where(replica_row(broker, store_id)).values(**values)).rowcount:
                return None
            return connection.execute(applied).scalar()

    def leave_shard(self, broker: str, store_id: str) -> None:
        """End the replica's own lease at once, as the process stops. It stays a replica, in sync or not."""
        with self._database.write_transaction() as connection:
            connection.execute(update(REPLICAS).where(replica_row(broker, store_id)).values(lease_end_ms=0))

    def set_in_sync(
        self,
        broker: str,
        epoch: int,
        expected: frozenset[str],
        in_sync: frozenset[str],
        *,
        version: int | None = None,
    ) -> bool:
        """Set the in-sync set, if the caller leads in this `epoch` and the set is `expected`; else False.

        Nothing is changed then; also if one of the new ones is no replica any more. `version`: that of the registry
        which the caller has read, if nothing may have changed since. A call whose answer was lost may take effect
        late, when the set has changed meanwhile and is the expected one again.
        """
        with self._database.change_transaction() as connection:
            shard = broker_in(connection, broker)
            if shard is None or shard.epoch != epoch:
                return False
            if version is not None and connection.execute(select(VERSION.c.version)).scalar_one() != version:
                return False
            assert shard.store_id in in_sync, "a leader is in sync with itself"
            found = {each.store_id for each in shard.replicas if each.in_sync}
            if found != expected or not in_sync <= {each.store_id for each in shard.replicas}:
                return False
            if in_sync != found:
                raise_version(connection)
                _write_in_sync(connection, shard, in_sync)
            return True

    def request_handover(self, broker: str, replica_name: str) -> None:
        """Request a handover to this replica. BAD_REQUEST if it leads already, or can't; NOT_FOUND."""
        with self._database.change_transaction() as connection:
            shard, replica = _find_replica(connection, broker, replica_name)
            if replica.store_id == shard.store_id:
                _raise_refusal(f"replica {replica_name!r} of broker {broker!r} leads already")
            if not replica.in_sync:
                _raise_refusal(
                    f"replica {replica_name!r} of broker {broker!r} is not in sync: it does not have all that was "
                    "acknowledged yet; wait until `ternmq shard show` shows that it is"
                )
            if not replica.live:
                _raise_refusal(f"replica {replica_name!r} of broker {broker!r} is not running")
            raise_version(connection)
            connection.execute(update(BROKERS).where(BROKERS.c.name == broker).values(move_to=replica.store_id))

    def elect_unclean(self, broker: str, replica_name: str, *, lease_ms: int = 0) -> UncleanElection:
        """Make a replica leader of record although it is not in sync: what only others have is lost.

        It is the only in-sync replica then. BAD_REQUEST while the leader is live, and unless the replica is;
        NOT_FOUND. `lease_ms` is the lease that it gets with it; with none it is live when it leads.
        """
        is_free = BROKERS.c.lease_end_ms <= DATABASE_NOW_MS
        try:
            with self._database.change_transaction() as connection:
                shard, replica = _find_replica(connection, broker, replica_name)
                if not replica.live:
                    _raise_refusal(f"replica {replica_name!r} of broker {broker!r} is not running; start it first")
                raised = _write_leader(connection, shard, replica, lease_ms, is_free)
                _write_in_sync(connection, shard, {replica.store_id})
                others = [each for each in shard.replicas if each.in_sync and each != replica]
                return UncleanElection(epoch=raised, elected=replica, in_sync=tuple(others))
        except _NotAllowed:
            _raise_refusal(
                f"the leader of broker {broker!r} is live: give leadership to another one with `ternmq shard "
                f"move-leader {broker} {replica_name}`, which loses nothing"
            )

    def add_replica(self, broker: str) -> None:
        """Allow the shard one more replica; a process of another store may then join.

        BAD_REQUEST at `REPLICAS_MAX`, and for a broker without replicas; NOT_FOUND.
        """
        with self._database.change_transaction() as connection:
            shard = _find_replicated(connection, broker)
            if shard.replicas_wanted >= REPLICAS_MAX:
                _raise_refusal(
                    f"broker {broker!r} may have {shard.replicas_wanted} replicas already, the most there can be"
                )
            raise_version(connection)
            more = update(BROKERS).where(BROKERS.c.name == broker).values(replicas=BROKERS.c.replicas + 1)
            connection.execute(more)

    def remove_replica(self, broker: str, replica_name: str) -> None:
        """Remove the replica, and allow the shard one less; its store does not come back by itself.

        BAD_REQUEST for the leader, and if too few would be in sync; NOT_FOUND.
        """
        with self._database.change_transaction() as connection:
            shard, replica = _find_replica(connection, broker, replica_name)
            if replica.store_id == shard.store_id:
                _raise_refusal(
                    f"replica {replica_name!r} leads broker {broker!r}: give leadership to another one first, with "
                    "`ternmq shard move-leader`"
                )
            _check_enough(connection, shard, replica)
            raise_version(connection)
            values: dict[str, Any] = {"replicas": BROKERS.c.replicas - 1}
            if shard.move_to == replica.store_id:
                values["move_to"] = ""
            connection.execute(update(BROKERS).where(BROKERS.c.name == broker).values(**values))
            connection.execute(delete(REPLICAS).where(replica_row(broker, replica.store_id)))
            connection.execute(insert(REMOVED_STORES).values(store_id=replica.store_id, broker=broker))


def _write_leader(
    connection: "Connection",
    shard: BrokerEntry,
    replica: ReplicaEntry,
    lease_ms: int,
    allowed: "ColumnElement[bool]",
    **more: Any,  # noqa: ANN401 - values of columns
) -> int:
    """Make the replica the leader of a new epoch, which is returned; `_NotAllowed` unless the row is as `allowed`
    demands."""
    epoch = raise_version(connection)
    values = {
        "store_id": replica.store_id,
        "address": replica.address,
        "version": replica.version,
        "epoch": epoch,
        "started_ms": DATABASE_NOW_MS,
        "lease_end_ms": DATABASE_NOW_MS + lease_ms if lease_ms else 0,
        "load": load_text(BrokerLoad()),
        "move_to": "",
    }
    seated = update(BROKERS).where(BROKERS.c.name == shard.name, allowed).values({**values, **more})
    if not connection.execute(seated).rowcount:
        raise _NotAllowed
    return epoch


def _write_in_sync(connection: "Connection", shard: BrokerEntry, in_sync: "Iterable[str]") -> None:
    its = REPLICAS.c.broker == shard.name
    connection.execute(update(REPLICAS).where(its).values(in_sync=REPLICAS.c.store_id.in_(in_sync)))


def _check_enough(connection: "Connection", shard: BrokerEntry, replica: ReplicaEntry) -> None:
    """Check that enough replicas are left in sync.

    A replica that is not in sync may go even if too few are: so the ways out of that stay open.
    """
    min_insync = int(connection.execute(select(BROKERS.c.min_insync).where(BROKERS.c.name == shard.name)).scalar_one())
    wanted = shard.replicas_wanted - 1
    if min_insync > wanted:
        _raise_refusal(
            f"broker {shard.name!r} would have {wanted} replicas, and each message must be on {min_insync}: "
            "restart its leader with a lower --min-insync first"
        )
    left = sum(each.in_sync for each in shard.replicas if each != replica)
    if replica.in_sync and left < effective_min_insync(min_insync, wanted):
        _raise_refusal(
            f"without replica {replica.name!r} broker {shard.name!r} has {left} in sync, and "
            f"{effective_min_insync(min_insync, wanted)} are needed; see `ternmq shard show {shard.name}`"
        )


def _find_in_sync(connection: "Connection", broker: str, store_id: str) -> tuple[BrokerEntry, ReplicaEntry]:
    """The shard and the in-sync replica; `_NotAllowed` if there is none."""
    shard = broker_in(connection, broker)
    if shard is not None:
        for each in shard.replicas:
            if each.store_id == store_id and each.in_sync:
                return shard, each
    raise _NotAllowed


def _find_replica(connection: "Connection", broker: str, name: str) -> tuple[BrokerEntry, ReplicaEntry]:
    shard = _find_replicated(connection, broker)
    for each in shard.replicas:
        if each.name == name:
            return shard, each
    raise MessagingError(
        ErrorCode.NOT_FOUND, f"broker {broker!r} has no replica {name!r}; it has {list_replica_names(shard.replicas)}"
    )


def _find_replicated(connection: "Connection", broker: str) -> BrokerEntry:
    shard = broker_in(connection, broker)
    if shard is None:
        raise_not_found(broker)
    if not shard.replicas:
        _raise_refusal(
            f"broker {broker!r} has no replicas: restart it with --replicas, which makes it the first of them"
        )
    return shard


def _raise_refusal(text: str) -> NoReturn:
    raise MessagingError(ErrorCode.BAD_REQUEST, text)
