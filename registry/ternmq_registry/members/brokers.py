"""Brokers in the registry: registrations, leases, and operators' settings.

A name belongs to one store. A process registers with its store's id and gets an epoch, higher than any before; from
then on heartbeats of lower epochs are refused, so that of two processes with one store only the last is the broker.
Another store gets the name when the broker was removed; or when it is empty, the lease has run out, and an operator
has named the store that is given up. Time is the database's.

Of a shard with replicas (`shards`) the row is that of the leader.
"""

import time
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import delete, exists, insert, select, update

from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad, QueuePermission, ReplicationMode
from ternmq_common.errors import ErrorCode, MessagingError, StartupError
from ternmq_registry.clock_skew import ClockReading
from ternmq_registry.deletions import forget_done
from ternmq_registry.members import removals
from ternmq_registry.members.removals import place_again, readmit_store, remember_removed
from ternmq_registry.sql.database import raise_version
from ternmq_registry.sql.rows import broker_of, load_text, replica_of
from ternmq_registry.tables import (
    BROKERS,
    DATABASE_NOW_MS,
    REPLICAS,
    TOPIC_BROKERS,
    TOPICS,
    VERSION,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection, RowMapping

    from ternmq_common.catalog.cluster import ReplicaEntry
    from ternmq_registry.sql.database import RegistryDatabase

IS_LIVE = (BROKERS.c.lease_end_ms > DATABASE_NOW_MS).label("live")
_IS_REPLICA_LIVE = (REPLICAS.c.lease_end_ms > DATABASE_NOW_MS).label("live")


class BrokerTable:
    """The part of the registry for brokers."""

    _database: "RegistryDatabase"
    clock_reading: ClockReading | None = None
    """The last reading of the database's clock, None of a database that has no clock of its own."""

    def read_brokers(self) -> tuple[int, dict[str, BrokerEntry]]:
        """Read the version and all brokers at one moment; cheap enough to call often."""
        with self._database.read_transaction() as connection:
            return self._version_in(connection), brokers_in(connection)

    def _version_in(self, connection: "Connection") -> int:
        """Read the version, and the database's time into `clock_reading`."""
        requested_s = time.monotonic()
        version, now_ms = connection.execute(select(VERSION.c.version, DATABASE_NOW_MS)).one()
        if self._database.has_own_clock:
            self.clock_reading = ClockReading(now_ms, requested_s, time.monotonic())
        return int(version)

    def register_broker(
        self,
        name: str,
        store_id: str,
        address: str,
        version: str,
        lease_ms: int,
        *,
        rejoin: bool = False,
        is_empty: bool = False,
        instead_of: str = "",
    ) -> int:
        """Register the broker of this name; returns the epoch.

        StartupError if the broker has another store, unless this one `is_empty` and replaces just that one
        (`instead_of`); for a removed store, unless it is to `rejoin`, since operators consider it lost; and if there
        are other replicas, which would go on without this store's messages.
        """
        with self._database.change_transaction() as connection:
            topics = readmit_store(connection, store_id, rejoin=rejoin)
            _end_replication(connection, name, store_id)
            found = connection.execute(select(BROKERS, IS_LIVE).where(BROKERS.c.name == name)).mappings().one_or_none()
            is_same = found is not None and found["store_id"] == store_id
            if found is not None and not is_same:
                _check_replaceable(connection, found, store_id, is_empty=is_empty, instead_of=instead_of)
            # The registry's version is above all epochs that it gave, even to a broker that was removed since.
            epoch = raise_version(connection)
            values: dict[str, Any] = {
                "store_id": store_id,
                "address": address,
                "epoch": epoch,
                "version": version,
                "started_ms": DATABASE_NOW_MS,
                "lease_end_ms": DATABASE_NOW_MS + lease_ms,
                "load": load_text(BrokerLoad()),
            }
            if not is_same:
                # A new store has no deletions to do; its topics may be newer than old deletions.
                values["applied"] = epoch
            if found is None:
                connection.execute(
                    insert(BROKERS).values(
                        name=name, permission=QueuePermission.READ_WRITE.value, draining=False, **values
                    )
                )
                place_again(connection, name, topics, epoch)
            else:
                connection.execute(update(BROKERS).where(BROKERS.c.name == name).values(**values))
            return epoch

    def record_heartbeat(self, name: str, epoch: int, load: BrokerLoad, lease_ms: int) -> bool:
        """Renew the lease; False for a process that isn't the broker any more, and must not act as if it were."""
        values = {"lease_end_ms": DATABASE_NOW_MS + lease_ms, "load": load_text(load)}
        return self._update_of_epoch(name, epoch, values)

    def report_load(self, name: str, epoch: int, load: BrokerLoad) -> None:
        """Record the load that a process of that epoch reports at its end."""
        self._update_of_epoch(name, epoch, {"load": load_text(load)})

    def deregister_broker(self, name: str, epoch: int) -> None:
        """End the lease at once, as the process stops."""
        self._update_of_epoch(name, epoch, {"lease_end_ms": 0})

    def _update_of_epoch(self, name: str, epoch: int, values: dict[str, Any]) -> bool:
        its = update(BROKERS).where(BROKERS.c.name == name, BROKERS.c.epoch == epoch)
        with self._database.write_transaction() as connection:
            return connection.execute(its.values(**values)).rowcount > 0

    def set_broker(self, name: str, *, permission: QueuePermission | None = None, draining: bool | None = None) -> None:
        """Change the settings that are given; NOT_FOUND if there is no such broker, BAD_REQUEST if none is given."""
        values: dict[str, Any] = {}
        if permission is not None:
            values["permission"] = permission.value
        if draining is not None:
            values["draining"] = draining
        if not values:
            raise MessagingError(ErrorCode.BAD_REQUEST, "nothing to change: give a permission, or whether it drains")
        with self._database.change_transaction() as connection:
            if not connection.execute(update(BROKERS).where(BROKERS.c.name == name).values(**values)).rowcount:
                raise_not_found(name)
            raise_version(connection)

    def remove_broker(self, name: str, *, force: bool = False) -> None:
        """Remove the broker, also from its topics; if it runs, its next heartbeat is refused.

        So is its return, unless it is to rejoin: then it is on its topics again. NOT_FOUND if there is no such broker.
        BAD_REQUEST if topics are on no other broker, unless `force` leaves them without any.
        """
        with self._database.change_transaction() as connection:
            if not force and (alone := _topics_only_on(connection, name)):
                raise MessagingError(
                    ErrorCode.BAD_REQUEST,
                    f"broker {name!r} is the only one with {len(alone)} topic(s) "
                    f"({removals.list_topic_names(alone)}): add "
                    "another to them with `ternmq topic update`, or delete them",
                )
            store_id = connection.execute(select(BROKERS.c.store_id).where(BROKERS.c.name == name)).scalar()
            if store_id is None:
                raise_not_found(name)
            stores = {store_id, *(each.store_id for each in replicas_in(connection, name).get(name, ()))}
            connection.execute(delete(BROKERS).where(BROKERS.c.name == name))
            connection.execute(delete(REPLICAS).where(REPLICAS.c.broker == name))
            remember_removed(connection, name, stores)
            there = select(TOPIC_BROKERS.c.topic).where(TOPIC_BROKERS.c.broker == name)
            changed = update(TOPICS).where(TOPICS.c.name.in_(there)).values(changed=raise_version(connection))
            connection.execute(changed)
            connection.execute(delete(TOPIC_BROKERS).where(TOPIC_BROKERS.c.broker == name))
            forget_done(connection)


def _check_replaceable(
    connection: "Connection", found: "RowMapping", store_id: str, *, is_empty: bool, instead_of: str
) -> None:
    """StartupError unless this store may replace the broker's."""
    name, known = found["name"], found["store_id"]
    if found["live"]:
        raise StartupError(
            f"broker {name!r} is running at {found['address']}, with another store ({known}; this one is {store_id}); "
            "stop that one, or give this one another --broker-name. If it has just died and its disk is lost, start "
            "this one again when its lease has run out"
        )
    if not is_empty:
        owner = connection.execute(select(BROKERS.c.name).where(BROKERS.c.store_id == store_id)).scalar()
        whose = "another store" if owner is None else f"the store of broker {owner!r}"
        raise StartupError(
            f"broker {name!r} has store {known}, as the registry knows, and this data directory has {whose}, "
            f"{store_id}, with messages: it is the wrong directory, or the wrong volume is mounted. Start it with the "
            f"one that has store {known}, or give this store another --broker-name. If it is that store, and its file "
            f"store-id was lost or the registry is an older copy, write {known} into that file. If store {known} is "
            f"lost for good and this store shall have its name: `ternmq broker remove {name} --force`, then start again"
        )
    if instead_of != known:
        given = f", which --accept-empty-store {instead_of} does not name" if instead_of else ""
        raise StartupError(
            f"broker {name!r} has store {known}, as the registry knows{given}, and this data directory has an empty "
            f"one, {store_id}: the disk was lost, or another volume is mounted. Started so it would begin at offset 0, "
            "without the messages, timers, transactions and groups' progress of before. Bring back the volume with "
            f"store {known}; if it is lost for good, start once with --accept-empty-store {known}"
        )


def brokers_in(connection: "Connection") -> dict[str, BrokerEntry]:
    replicas = replicas_in(connection)
    rows = connection.execute(select(BROKERS, IS_LIVE).order_by(BROKERS.c.name)).mappings()
    return {row["name"]: broker_of(row, replicas.get(row["name"], ())) for row in rows}


def broker_in(connection: "Connection", name: str) -> BrokerEntry | None:
    """The broker of this name."""
    row = connection.execute(select(BROKERS, IS_LIVE).where(BROKERS.c.name == name)).mappings().one_or_none()
    return None if row is None else broker_of(row, replicas_in(connection, name).get(name, ()))


def replicas_in(connection: "Connection", broker: str | None = None) -> "dict[str, tuple[ReplicaEntry, ...]]":
    """The replicas of all brokers, or of one, by the broker's name, sorted by their own names."""
    wanted = select(REPLICAS, _IS_REPLICA_LIVE).order_by(REPLICAS.c.broker, REPLICAS.c.name)
    if broker is not None:
        wanted = wanted.where(REPLICAS.c.broker == broker)
    found: dict[str, list[ReplicaEntry]] = {}
    for row in connection.execute(wanted).mappings():
        found.setdefault(row["broker"], []).append(replica_of(row))
    return {name: tuple(replicas) for name, replicas in found.items()}


def _topics_only_on(connection: "Connection", name: str) -> list[str]:
    other = TOPIC_BROKERS.alias()
    is_elsewhere = exists(select(other.c.topic).where(other.c.topic == TOPIC_BROKERS.c.topic, other.c.broker != name))
    alone = select(TOPIC_BROKERS.c.topic).where(TOPIC_BROKERS.c.broker == name, ~is_elsewhere)
    return list(connection.execute(alone.order_by(TOPIC_BROKERS.c.topic)).scalars())


def _end_replication(connection: "Connection", name: str, store_id: str) -> None:
    """Remove the last replica of a shard, which becomes a broker without replicas again."""
    found = broker_in(connection, name)
    if found is None or not found.replicas:
        return
    stores = {each.store_id for each in found.replicas}
    if stores != {store_id} or found.replicas_wanted > 1:
        raise StartupError(
            f"broker {name!r} has replicas ({list_replica_names(found.replicas)}): start it with --replicas "
            f"{found.replicas_wanted}, as one of them"
        )
    connection.execute(delete(REPLICAS).where(REPLICAS.c.broker == name))
    connection.execute(
        update(BROKERS)
        .where(BROKERS.c.name == name)
        .values(min_insync=0, replication=ReplicationMode.SYNC.value, move_to="")
    )


def list_replica_names(replicas: "Iterable[ReplicaEntry]") -> str:
    """The names of the replicas, for an error."""
    return ", ".join(each.name for each in replicas)


def raise_not_found(name: str) -> NoReturn:
    raise MessagingError(ErrorCode.NOT_FOUND, f"there is no broker {name!r}; `ternmq broker list` shows them")
