"""Converts rows of the tables from and to values."""

import dataclasses
import json
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ternmq_common.catalog.cluster import (
    BrokerEntry,
    BrokerLoad,
    ProxyEntry,
    ProxyLoad,
    QueuePermission,
    ReplicaEntry,
    ReplicationMode,
)
from ternmq_common.catalog.lite_group import parse_lite_group
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.catalog.retry_backoff import DEFAULT_BACKOFF, parse_backoff
from ternmq_common.resources.quotas import Quota, QuotaKind
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS
from ternmq_common.shard.model import ConsumerGroup, Topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import RowMapping


L = TypeVar("L", BrokerLoad, ProxyLoad)


def topic_of(row: "Mapping[Any, Any]", brokers: tuple[str, ...]) -> Topic:
    # A row that was salvaged from a damaged file of an older schema has fewer settings.
    there = [each for each in TOPIC_SETTINGS if each.attribute in row]
    settings: dict[str, Any] = {each.attribute: each.kind.from_row(row[each.attribute]) for each in there}
    return Topic(
        name=row["name"],
        type=MessageType[row["type"]],
        created_ms=row["created_ms"],
        brokers=brokers,
        created_version=row["made"],
        mixed=bool(row.get("mixed")),
        **settings,
    )


def topic_row(topic: Topic) -> dict[str, object]:
    """The row of a topic, without its brokers, which have a table of their own, and the versions of changes."""
    return {
        "name": topic.name,
        "type": MessageType(topic.type).name,
        "created_ms": topic.created_ms,
        "mixed": topic.mixed,
        **topic_settings_row(topic),
    }


def topic_settings_row(topic: Topic) -> dict[str, object]:
    """The settings of a topic, as its row has them."""
    return {each.attribute: each.kind.row_value(getattr(topic, each.attribute)) for each in TOPIC_SETTINGS}


def group_of(row: "Mapping[Any, Any]") -> ConsumerGroup:
    # A row that was salvaged from a damaged file of an older schema has no settings of lite groups.
    fields = {field.name: row[field.name] for field in dataclasses.fields(ConsumerGroup) if field.name in row}
    lite = parse_lite_group(row.get("lite") or "")
    fields["created_version"] = row.get("made", 0)
    return ConsumerGroup(**{**fields, "retry_backoff": parse_backoff(row["retry_backoff"]), "lite": lite})


def group_row(group: ConsumerGroup) -> dict[str, object]:
    """The row of a group, without the versions of changes."""
    # The default is stored as an empty text, so that a later version may have another.
    backoff = "" if group.retry_backoff == DEFAULT_BACKOFF else str(group.retry_backoff)
    row = {**dataclasses.asdict(group), "retry_backoff": backoff, "lite": str(group.lite or "")}
    del row["created_version"]
    return row


def quota_of(row: "Mapping[Any, Any]") -> Quota:
    # A row that was salvaged from a damaged file of an older schema has fewer limits.
    fields = {field.name: row[field.name] for field in dataclasses.fields(Quota) if field.name in row}
    return Quota(**{**fields, "kind": QuotaKind(row["kind"])})


def quota_row(quota: Quota) -> dict[str, object]:
    """The row of a quota, without the version of its change."""
    return {**dataclasses.asdict(quota), "kind": quota.kind.value}


def broker_of(row: "RowMapping", replicas: tuple[ReplicaEntry, ...] = ()) -> BrokerEntry:
    """The broker of a row; `live` is a column of the query, as only the database knows its time."""
    return BrokerEntry(
        name=row["name"],
        address=row["address"],
        epoch=row["epoch"],
        permission=QueuePermission(row["permission"]),
        draining=row["draining"],
        live=bool(row["live"]),
        version=row["version"],
        started_ms=row["started_ms"],
        load=_load_of(row["load"], BrokerLoad),
        store_id=row["store_id"],
        replicas=replicas,
        replicas_wanted=row["replicas"],
        min_insync=effective_min_insync(row["min_insync"], row["replicas"]),
        replication=ReplicationMode(row["replication"]),
        move_to=row["move_to"],
        lease_end_ms=row["lease_end_ms"],
    )


def replica_of(row: "RowMapping") -> ReplicaEntry:
    """The replica of a row; `live` as in `broker_of`."""
    fields = {field.name: row[field.name] for field in dataclasses.fields(ReplicaEntry)}
    return ReplicaEntry(**{**fields, "live": bool(row["live"])})


def effective_min_insync(min_insync: int, replicas: int) -> int:
    """How many replicas must have a message: the configured number, or a majority."""
    return min_insync or replicas // 2 + 1


def proxy_of(row: "RowMapping") -> ProxyEntry:
    """The proxy of a row that has all columns, which an older proxy's row has not."""
    return ProxyEntry(
        name=row["name"],
        server=row["server"],
        address=row["address"],
        version=row["version"],
        started_ms=row["started_ms"],
        load=_load_of(row["load"], ProxyLoad),
        lease_end_ms=row["lease_end_ms"],
    )


def load_text(load: BrokerLoad | ProxyLoad) -> str:
    return json.dumps(dataclasses.asdict(load))


def _load_of(text: str, kind: type[L]) -> L:
    # A process of another version may report more, or less.
    known = {field.name for field in dataclasses.fields(kind)}
    values = cast("dict[str, Any]", json.loads(text))
    return kind(**{name: value for name, value in values.items() if name in known})
