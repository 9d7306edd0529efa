"""Stores of brokers that were removed: operators take what is there for gone, so none comes back by itself.

Topics      of the removed broker are remembered with the store, as JSON: the version at which each was made, by name.
            One that rejoins is on them again, as far as they are still the same: a topic that was deleted, or made
            anew, has nothing to do with what the store has of that name.
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

    from ternmq_registry.database import Database

TOPICS_SHOWN = 5
_log = logging.getLogger(__name__)


class Removals:
    """The part of the registry that remembers removed stores."""

    _database: "Database"

    def topics_gone(self, store_id: str) -> list[str]:
        """Topics of a removed store that were deleted since, whether or not they were made anew; [] of any other."""
        with self._database.reading() as connection:
            remembered = _remembered(connection, store_id)
            return sorted(remembered.keys() - _same(connection, remembered))


def remember_removed(connection: "Connection", broker: str, stores: "Iterable[str]") -> None:
    """The broker with these stores is removed now, from the topics that it is on."""
    placed = select(TOPICS.c.name, TOPICS.c.made).join(TOPIC_BROKERS, TOPIC_BROKERS.c.topic == TOPICS.c.name)
    rows = connection.execute(placed.where(TOPIC_BROKERS.c.broker == broker))
    topics = {row.name: row.made for row in rows}
    values = [{"store_id": each, "broker": broker, "topics": json.dumps(topics)} for each in sorted(stores)]
    connection.execute(insert(REMOVED_STORES), values)


def readmitted(connection: "Connection", store_id: str, *, rejoin: bool) -> set[str]:
    """The topics that it is to be on again; StartupError for a store that was removed, which with `rejoin` it is not
    any more."""
    its = REMOVED_STORES.c.store_id == store_id
    broker = connection.execute(select(REMOVED_STORES.c.broker).where(its)).scalar()
    if broker is None:
        return set()
    if not rejoin:
        raise StartupError(
            f"this store was that of broker {broker!r}, which was removed from the cluster; start with an empty "
            "--data-dir, or with --rejoin to have it back with what it has"
        )
    topics = _same(connection, _remembered(connection, store_id))
    connection.execute(delete(REMOVED_STORES).where(its))
    return topics


def place_again(connection: "Connection", broker: str, topics: set[str], version: int) -> None:
    """Have the broker, which is new, on these topics; the change is of that version."""
    if not topics:
        return
    names = sorted(topics)
    connection.execute(insert(TOPIC_BROKERS), [{"topic": name, "broker": broker} for name in names])
    connection.execute(update(TOPICS).where(TOPICS.c.name.in_(names)).values(changed=version))
    _log.info("broker %s is on %d topics again: %s", broker, len(names), shown(names))


def shown(names: "list[str]") -> str:
    """The first ones, for a line of a log or an error."""
    return ", ".join(names[:TOPICS_SHOWN]) + (", ..." if len(names) > TOPICS_SHOWN else "")


def _remembered(connection: "Connection", store_id: str) -> "Mapping[str, int]":
    text = connection.execute(select(REMOVED_STORES.c.topics).where(REMOVED_STORES.c.store_id == store_id)).scalar()
    return {str(name): int(made) for name, made in json.loads(text or "{}").items()}


def _same(connection: "Connection", remembered: "Mapping[str, int]") -> set[str]:
    """Those that are what they were when the store was removed."""
    rows = connection.execute(select(TOPICS.c.name, TOPICS.c.made))
    return {row.name for row in rows if remembered.get(row.name) == row.made}
