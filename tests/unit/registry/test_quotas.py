"""Quotas in the registry: kept whole, seen by snapshots, and what proxies want of them."""

from dataclasses import replace

from ternmq_common.model import Topic
from ternmq_common.quotas import Quota, QuotaKind
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.registry import Registry

ALICE = Quota(kind=QuotaKind.USER, name="alice", messages_in=10, bytes_out=20, burst_ms=500)
EVERY_CLIENT = Quota(kind=QuotaKind.CLIENT, name="*", connections=4)
KEY = (QuotaKind.USER, "alice")


def test_a_quota_is_there_until_it_is_deleted(registry: Registry) -> None:
    assert registry.put_quota(ALICE)
    assert registry.put_quota(EVERY_CLIENT)
    assert registry.snapshot().quotas.quotas == {KEY: ALICE, (QuotaKind.CLIENT, "*"): EVERY_CLIENT}
    changed = replace(ALICE, messages_in=None, topics_per_hour=3)
    assert not registry.put_quota(changed)
    assert registry.snapshot().quotas.quotas[KEY] == changed
    assert registry.delete_quota(*KEY)
    assert not registry.delete_quota(*KEY)
    assert registry.snapshot().quotas.quotas == {(QuotaKind.CLIENT, "*"): EVERY_CLIENT}


def test_a_snapshot_keeps_the_very_quotas_while_they_do_not_change(registry: Registry) -> None:
    registry.put_quota(ALICE)
    first = registry.snapshot()
    registry.create_topic(Topic(name="orders", type=pb.NORMAL, queues=1, created_ms=1))
    second = registry.snapshot(first)
    assert second.version > first.version
    assert second.quotas is first.quotas
    registry.put_quota(replace(ALICE, messages_in=11))
    third = registry.snapshot(second)
    assert third.quotas.quotas[KEY].messages_in == 11
    registry.delete_quota(*KEY)
    assert not registry.snapshot(third).quotas.quotas


def test_proxies_hear_of_each_other_while_they_live(registry: Registry) -> None:
    version = registry.snapshot().version
    assert registry.exchange_demand("a", {"user:alice": {"messages_in": 5.5}}, 60_000).keys() == {"a"}
    heard = registry.exchange_demand("b", {}, 60_000)
    assert heard == {"a": {"user:alice": {"messages_in": 5.5}}, "b": {}}
    registry.exchange_demand("a", {}, -1)
    assert registry.exchange_demand("b", {}, 60_000).keys() == {"b"}
    registry.leave_proxies("b")
    assert registry.exchange_demand("c", {}, 60_000).keys() == {"c"}
    assert registry.snapshot().version == version
