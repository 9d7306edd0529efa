"""Stores of removed brokers: operators consider their messages lost, so none comes back by itself.

Topics  of the removed broker are remembered with the store, as JSON: the version at which each was created, by name. A
        broker that rejoins is on them again, as far as they are still the same: a topic that was deleted, or created
        again, has nothing to do with what the store has of that name.
"""

import json
import logging
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from ternmq_common.errors import StartupError
from ternmq_registry.tables import REMOVED_STORES, TOPIC_BROKERS, TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from ternmq_registry.sql.database import RegistryDatabase

TOPICS_SHOWN = 5
_log = logging.getLogger(__name__)


class RemovedStoreTable:
    """The part of the registry for removed stores."""

    _database: "RegistryDatabase"

    def list_deleted_topics(self, store_id: str) -> list[str]:
        """Topics of a removed store that were deleted since, even if they were created again; [] of any other store."""
        with self._database.read_transaction() as connection:
            remembered = _remembered_topics(connection, store_id)
            return sorted(remembered.keys() - _unchanged_topics(connection, remembered))


def remember_removed(connection: "Connection", broker: str, stores: "Iterable[str]") -> None:
    """Record that the broker with these stores was removed, with the topics that it was on."""
    placed = select(TOPICS.c.name, TOPICS.c.made).join(TOPIC_BROKERS, TOPIC_BROKERS.c.topic == TOPICS.c.name)
    rows = connection.execute(placed.where(TOPIC_BROKERS.c.broker == broker))
    topics = {row.name: row.made for row in rows}
    values = [{"store_id": each, "broker": broker, "topics": json.dumps(topics)} for each in sorted(stores)]
    connection.execute(insert(REMOVED_STORES), values)


def readmit_store(connection: "Connection", store_id: str, *, rejoin: bool) -> set[str]:
    """Admit a store; returns the topics on which it is placed again.

    StartupError for a removed store without `rejoin`; with it the store is not removed any more.
    """
    its = REMOVED_STORES.c.store_id == store_id
    broker = connection.execute(select(REMOVED_STORES.c.broker).where(its)).scalar()
    if broker is None:
        return set()
    if not rejoin:
        raise StartupError(
            f"this store was that of broker {broker!r}, which was removed from the cluster; start with an empty "
            "--data-dir, or with --rejoin to have it back with what it has"
        )
    topics = _unchanged_topics(connection, _remembered_topics(connection, store_id))
    connection.execute(delete(REMOVED_STORES).where(its))
    return topics


def place_again(connection: "Connection", broker: str, topics: set[str], version: int) -> None:
    """Put the new broker on these topics, in the change of that version."""
    if not topics:
        return
    names = sorted(topics)
    connection.execute(insert(TOPIC_BROKERS), [{"topic": name, "broker": broker} for name in names])
    connection.execute(update(TOPICS).where(TOPICS.c.name.in_(names)).values(changed=version))
    _log.info("broker %s is on %d topics again: %s", broker, len(names), list_topic_names(names))


def list_topic_names(names: "list[str]") -> str:
    """The first names, for a line of a log or an error."""
    return ", ".join(names[:TOPICS_SHOWN]) + (", ..." if len(names) > TOPICS_SHOWN else "")


def _remembered_topics(connection: "Connection", store_id: str) -> "Mapping[str, int]":
    text = connection.execute(select(REMOVED_STORES.c.topics).where(REMOVED_STORES.c.store_id == store_id)).scalar()
    return {str(name): int(made) for name, made in json.loads(text or "{}").items()}


def _unchanged_topics(connection: "Connection", remembered: "Mapping[str, int]") -> set[str]:
    """The topics that are still the same as when the store was removed."""
    rows = connection.execute(select(TOPICS.c.name, TOPICS.c.made))
    return {row.name for row in rows if remembered.get(row.name) == row.made}
