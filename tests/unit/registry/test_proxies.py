"""Proxies in the registry: each tells of itself while its lease lives, and shares quotas by the same row."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sqlalchemy import insert

from ternmq_common.catalog.cluster import ProxyEntry, ProxyLoad
from ternmq_registry.registry import Registry
from ternmq_registry.tables import DATABASE_NOW_MS, PROXIES
from tests.unit.registry.conftest import Open, Sql

LEASE_MS = 60_000
LOAD = ProxyLoad(connections=3, clients=2, calls=1.5, call_p99_ms=20.0, problem='no broker: "ü"')
ONE = ProxyEntry(name="p/p/1", server="p", address="127.0.0.1:8081", version="1.0", started_ms=17, load=LOAD)
OTHER = ProxyEntry(name="q/q/1", server="q", address="unix:/run/q", version="1.1", started_ms=18)
DEMAND = {"user:alice": {"messages_in": 5.5}}


def told(registry: Registry) -> list[ProxyEntry]:
    """Without their leases."""
    return [replace(each, lease_end_ms=0) for each in registry.list_proxies()]


def test_proxies_are_known_by_what_they_told_last(registry: Registry) -> None:
    version = registry.read_snapshot().version
    assert registry.list_proxies() == []
    registry.report_proxy(OTHER, LEASE_MS)
    registry.report_proxy(replace(ONE, load=ProxyLoad(), version="0.9"), LEASE_MS)
    registry.report_proxy(ONE, LEASE_MS)
    assert told(registry) == [ONE, OTHER]
    registry.remove_proxy(ONE.name)
    assert told(registry) == [OTHER]
    assert registry.read_snapshot().version == version


def test_a_proxy_is_gone_when_its_lease_has_ended(registry: Registry, sql: Sql) -> None:
    registry.report_proxy(ONE, LEASE_MS)
    sql("UPDATE proxies SET lease_end_ms = 1")
    assert registry.list_proxies() == []
    registry.report_proxy(OTHER, LEASE_MS)
    sql(f"UPDATE proxies SET lease_end_ms = lease_end_ms + {10 * LEASE_MS}")
    assert told(registry) == [OTHER]  # the other's row is gone, too


def test_telling_leaves_demand_as_it_is_and_shortens_no_lease(registry: Registry) -> None:
    use = {"refused": 0, "connections": 1, "share": {}, "rate": {}}
    registry.exchange_demand(ONE.name, DEMAND, {"user:alice": use}, 10 * LEASE_MS)  # type: ignore[dict-item]
    registry.report_proxy(replace(ONE, load=ProxyLoad()), LEASE_MS)
    first = registry.list_proxies()[0].lease_end_ms
    registry.report_proxy(ONE, LEASE_MS)
    assert registry.list_proxies()[0].lease_end_ms == first
    assert registry.exchange_demand(OTHER.name, {}, {}, LEASE_MS) == {ONE.name: DEMAND, OTHER.name: {}}
    assert registry.uses_elsewhere(OTHER.name) == [{"user:alice": use}]
    registry.report_proxy(ONE, 20 * LEASE_MS)
    assert registry.list_proxies()[0].lease_end_ms > first


def test_an_exchange_leaves_what_was_told_and_who_only_told_wants_nothing(registry: Registry) -> None:
    registry.report_proxy(ONE, LEASE_MS)
    assert registry.exchange_demand(OTHER.name, DEMAND, {}, LEASE_MS) == {ONE.name: {}, OTHER.name: DEMAND}
    assert registry.uses_elsewhere(OTHER.name) == []  # it has not said yet
    registry.exchange_demand(ONE.name, DEMAND, {}, LEASE_MS)
    assert told(registry) == [ONE]


def test_a_proxy_of_an_older_version_is_not_among_them(registry: Registry) -> None:
    with registry._database.write_transaction() as connection:
        values = {"lease_end_ms": DATABASE_NOW_MS + LEASE_MS, "demand": "{}"}
        connection.execute(insert(PROXIES).values(name="old", **values))
    registry.report_proxy(ONE, LEASE_MS)
    assert told(registry) == [ONE]


def test_what_a_newer_version_says_of_its_load_is_passed_over(registry: Registry, sql: Sql) -> None:
    registry.report_proxy(ONE, LEASE_MS)
    sql("""UPDATE proxies SET load = '{"clients": 7, "moods": 3}'""")
    assert [each.load for each in registry.list_proxies()] == [ProxyLoad(clients=7)]


def test_after_an_outage_all_tell_at_once_and_nobody_waits_for_each_other(open_registry: Open, sql: Sql) -> None:
    names = [f"p/p/{number}" for number in range(4)]
    registries = [open_registry() for _ in names]
    barrier = threading.Barrier(len(names))

    def come_back(place: int) -> None:
        barrier.wait()
        registries[place].report_proxy(replace(ONE, name=names[place]), LEASE_MS)

    with ThreadPoolExecutor(len(names)) as threads:
        for _ in range(10):
            list(threads.map(come_back, range(len(names))))
            assert [each.name for each in registries[0].list_proxies()] == names
            sql("UPDATE proxies SET lease_end_ms = 1")
