"""Who the brokers are: registrations, leases, and what operators say of them.

A name belongs to one store. A process registers with its store's id and gets an epoch, higher than any before; from
then on heartbeats of lower epochs are refused, so that of two processes with one store only the last is the broker.
Another store gets the name when the lease has run out. Time is the database's.
"""

from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import delete, exists, insert, select, update

from ternmq_common.cluster import BrokerEntry, BrokerLoad, Permission
from ternmq_common.errors import MessagingError, StartupError
from ternmq_protos.v2 import definition_pb2
from ternmq_registry.database import raised_version
from ternmq_registry.deletions import forget_done
from ternmq_registry.rows import broker_of, load_text
from ternmq_registry.tables import BROKERS, DATABASE_NOW_MS, REMOVED_STORES, TOPIC_BROKERS, TOPICS, VERSION

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ternmq_registry.database import Database

IS_LIVE = (BROKERS.c.lease_end_ms > DATABASE_NOW_MS).label("live")
TOPICS_SHOWN = 5


class Brokers:
    """The part of the registry that knows brokers."""

    _database: "Database"

    def look(self) -> tuple[int, dict[str, BrokerEntry]]:
        """The version and all brokers, of one moment: what to ask often."""
        with self._database.reading() as connection:
            return version_in(connection), brokers_in(connection)

    def register(
        self, name: str, store_id: str, address: str, version: str, lease_ms: int, *, rejoin: bool = False
    ) -> int:
        """Become the broker of this name, and get the epoch. `StartupError` while one with another store is alive, and
        for a store that was removed, unless it is to `rejoin`: operators take what was removed for gone."""
        with self._database.changing() as connection:
            _check_removed(connection, store_id, rejoin=rejoin)
            found = connection.execute(select(BROKERS, IS_LIVE).where(BROKERS.c.name == name)).mappings().one_or_none()
            is_same = found is not None and found["store_id"] == store_id
            if found is not None and found["live"] and not is_same:
                raise StartupError(
                    f"broker {name!r} is running at {found['address']}, with another store; stop that one, "
                    "or give this one another --broker-name"
                )
            # The registry's version is above all epochs that it gave, also to a broker that was removed since.
            epoch = raised_version(connection)
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
                # A store that wasn't here has no deletions to do; what it has may be newer than old deletions.
                values["applied"] = epoch
            if found is None:
                connection.execute(
                    insert(BROKERS).values(name=name, permission=Permission.READ_WRITE.value, draining=False, **values)
                )
            else:
                connection.execute(update(BROKERS).where(BROKERS.c.name == name).values(**values))
            return epoch

    def heartbeat(self, name: str, epoch: int, load: BrokerLoad, lease_ms: int) -> bool:
        """Prolong the lease; False for a process that isn't the broker any more, and must not act as if it were."""
        values = {"lease_end_ms": DATABASE_NOW_MS + lease_ms, "load": load_text(load)}
        return self._of_epoch(name, epoch, values)

    def deregister(self, name: str, epoch: int) -> None:
        """End the lease at once: the process stops and has said good-bye to everybody."""
        self._of_epoch(name, epoch, {"lease_end_ms": 0})

    def _of_epoch(self, name: str, epoch: int, values: dict[str, Any]) -> bool:
        its = update(BROKERS).where(BROKERS.c.name == name, BROKERS.c.epoch == epoch)
        with self._database.writing() as connection:
            return connection.execute(its.values(**values)).rowcount > 0

    def set_broker(self, name: str, *, permission: Permission | None = None, draining: bool | None = None) -> None:
        """Change what is given; NOT_FOUND if there is no such broker, BAD_REQUEST if nothing is given."""
        values: dict[str, Any] = {}
        if permission is not None:
            values["permission"] = permission.value
        if draining is not None:
            values["draining"] = draining
        if not values:
            raise MessagingError(
                definition_pb2.BAD_REQUEST, "nothing to change: give a permission, or whether it drains"
            )
        with self._database.changing() as connection:
            if not connection.execute(update(BROKERS).where(BROKERS.c.name == name).values(**values)).rowcount:
                _not_found(name)
            raised_version(connection)

    def remove_broker(self, name: str, *, force: bool = False) -> None:
        """Forget it, and that topics were there; if it runs, its next heartbeat is refused, and so is its return.

        NOT_FOUND if there is no such broker. BAD_REQUEST if topics are on no other one, unless `force` leaves them
        without any.
        """
        with self._database.changing() as connection:
            if not force and (alone := _topics_only_on(connection, name)):
                shown = ", ".join(alone[:TOPICS_SHOWN]) + (", ..." if len(alone) > TOPICS_SHOWN else "")
                raise MessagingError(
                    definition_pb2.BAD_REQUEST,
                    f"broker {name!r} is the only one with {len(alone)} topic(s) ({shown}): add another to them with "
                    "`ternmq topic update`, or delete them",
                )
            store_id = connection.execute(select(BROKERS.c.store_id).where(BROKERS.c.name == name)).scalar()
            if store_id is None:
                _not_found(name)
            connection.execute(delete(BROKERS).where(BROKERS.c.name == name))
            connection.execute(insert(REMOVED_STORES).values(store_id=store_id, broker=name))
            there = select(TOPIC_BROKERS.c.topic).where(TOPIC_BROKERS.c.broker == name)
            changed = update(TOPICS).where(TOPICS.c.name.in_(there)).values(changed=raised_version(connection))
            connection.execute(changed)
            connection.execute(delete(TOPIC_BROKERS).where(TOPIC_BROKERS.c.broker == name))
            forget_done(connection)


def version_in(connection: "Connection") -> int:
    return int(connection.execute(select(VERSION.c.version)).scalar_one())


def brokers_in(connection: "Connection") -> dict[str, BrokerEntry]:
    rows = connection.execute(select(BROKERS, IS_LIVE).order_by(BROKERS.c.name)).mappings()
    return {row["name"]: broker_of(row) for row in rows}


def _topics_only_on(connection: "Connection", name: str) -> list[str]:
    other = TOPIC_BROKERS.alias()
    is_elsewhere = exists(select(other.c.topic).where(other.c.topic == TOPIC_BROKERS.c.topic, other.c.broker != name))
    alone = select(TOPIC_BROKERS.c.topic).where(TOPIC_BROKERS.c.broker == name, ~is_elsewhere)
    return list(connection.execute(alone.order_by(TOPIC_BROKERS.c.topic)).scalars())


def _check_removed(connection: "Connection", store_id: str, *, rejoin: bool) -> None:
    its = REMOVED_STORES.c.store_id == store_id
    broker = connection.execute(select(REMOVED_STORES.c.broker).where(its)).scalar()
    if broker is None:
        return
    if not rejoin:
        raise StartupError(
            f"this store was that of broker {broker!r}, which was removed from the cluster; start with an empty "
            "--data-dir, or with --rejoin to have it back with what it has"
        )
    connection.execute(delete(REMOVED_STORES).where(its))


def _not_found(name: str) -> NoReturn:
    raise MessagingError(definition_pb2.NOT_FOUND, f"there is no broker {name!r}; `ternmq broker list` shows them")
