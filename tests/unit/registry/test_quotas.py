"""Quotas in the registry: kept whole, seen by snapshots, and what proxies want of them."""

from dataclasses import replace

from sqlalchemy import insert

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.resources.quotas import Quota, QuotaKind
from ternmq_common.shard.model import Topic
from ternmq_registry.quotas import QuotaUse
from ternmq_registry.registry import Registry
from ternmq_registry.tables import DATABASE_NOW_MS, PROXIES

ALICE = Quota(kind=QuotaKind.USER, name="alice", messages_in=10, bytes_out=20, burst_ms=500)
BILLING = Quota(kind=QuotaKind.GROUP, name="billing", in_flight=1000)
EVERY_CLIENT = Quota(kind=QuotaKind.CLIENT, name="*", connections=4)
KEY = (QuotaKind.USER, "alice")


def test_a_quota_is_there_until_it_is_deleted(registry: Registry) -> None:
    assert registry.put_quota(ALICE)
    assert registry.put_quota(EVERY_CLIENT)
    assert registry.put_quota(BILLING)
    others = {(QuotaKind.CLIENT, "*"): EVERY_CLIENT, (QuotaKind.GROUP, "billing"): BILLING}
    assert registry.read_snapshot().quotas.quotas == {KEY: ALICE, **others}
    changed = replace(ALICE, messages_in=None, topics_per_hour=3)
    assert not registry.put_quota(changed)
    assert registry.read_snapshot().quotas.quotas[KEY] == changed
    assert registry.delete_quota(*KEY)
    assert not registry.delete_quota(*KEY)
    assert registry.read_snapshot().quotas.quotas == others


def test_a_snapshot_keeps_the_very_quotas_while_they_do_not_change(registry: Registry) -> None:
    registry.put_quota(ALICE)
    first = registry.read_snapshot()
    registry.create_topic(Topic(name="orders", type=MessageType.NORMAL, queues=1, created_ms=1))
    second = registry.read_snapshot(first)
    assert second.version > first.version
    assert second.quotas is first.quotas
    registry.put_quota(replace(ALICE, messages_in=11))
    third = registry.read_snapshot(second)
    assert third.quotas.quotas[KEY].messages_in == 11
    registry.delete_quota(*KEY)
    assert not registry.read_snapshot(third).quotas.quotas


def test_proxies_hear_of_each_other_while_they_live(registry: Registry) -> None:
    version = registry.read_snapshot().version
    assert registry.exchange_demand("a", {"user:alice": {"messages_in": 5.5}}, {}, 60_000).keys() == {"a"}
    heard = registry.exchange_demand("b", {}, {}, 60_000)
    assert heard == {"a": {"user:alice": {"messages_in": 5.5}}, "b": {}}
    registry.exchange_demand("a", {}, {}, -1)
    assert registry.exchange_demand("b", {}, {}, 60_000).keys() == {"b"}
    registry.remove_proxy("b")
    assert registry.exchange_demand("c", {}, {}, 60_000).keys() == {"c"}
    assert registry.read_snapshot().version == version


def test_what_the_other_living_proxies_give_out_can_be_asked(registry: Registry) -> None:
    use = QuotaUse(refused=3, connections=1, share={"messages_in": 5.0}, rate={"messages_in": 4.5})
    registry.exchange_demand("a", {}, {"user:alice": use}, 60_000)
    registry.exchange_demand("b", {}, {}, 60_000)
    registry.exchange_demand("gone", {}, {"user:alice": use}, -1)
    assert registry.uses_elsewhere("b") == [{"user:alice": use}]
    assert registry.uses_elsewhere("a") == [{}]


def test_a_proxy_of_an_older_version_gives_out_what_nobody_knows(registry: Registry) -> None:
    with registry._database.write_transaction() as connection:
        values = {"lease_end_ms": DATABASE_NOW_MS + 60_000, "demand": '{"user:alice": {"messages_in": 1}}'}
        connection.execute(insert(PROXIES).values(name="old", **values))
    assert registry.exchange_demand("new", {}, {}, 60_000)["old"] == {"user:alice": {"messages_in": 1}}
    assert registry.uses_elsewhere("new") == []
