"""A proxy tells the registry of itself, goes on while that is away, and leaves with its last word."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from ternmq_common.catalog.cluster import ProxyEntry
from ternmq_proxy.catalog.proxy_heartbeat import LEASE_MS, ProxyHeartbeat
from ternmq_registry.errors import RegistryUnavailable

OWN = ProxyEntry(name="p/p/1", server="p", address="127.0.0.1:8081", version="1.0", started_ms=1)


@dataclass
class Table:
    """What is done, in its order; `errors` are those of the next words, None of those that are heard. While it is not
    `open`, a word is under way."""

    errors: list[Exception | None] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    told: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def report_proxy(self, proxy: ProxyEntry, lease_ms: int) -> None:
        assert (proxy, lease_ms) == (OWN, LEASE_MS)
        self.begun.set()
        await self.open.wait()
        error = self.errors.pop(0) if self.errors else None
        self.done.append("told" if error is None else "failed")
        self.told.release()
        if error is not None:
            raise error

    async def remove_proxy(self, proxy: str) -> None:
        assert proxy == OWN.name
        self.done.append("left")


def heartbeat_in(table: Table) -> ProxyHeartbeat:
    return ProxyHeartbeat(lambda: OWN, cast("Any", table), interval_s=0.0)


async def words(table: Table, number: int) -> None:
    for _ in range(number):
        await table.told.acquire()


async def test_it_tells_again_and_again_and_leaves() -> None:
    table = Table()
    table.open.set()
    heartbeat = heartbeat_in(table)
    heartbeat.start_heartbeats()
    await words(table, 3)
    await heartbeat.stop_heartbeats()
    assert table.done[:3] == ["told"] * 3
    assert table.done[-1] == "left"


async def test_a_word_under_way_is_not_the_last() -> None:
    table = Table()
    heartbeat = heartbeat_in(table)
    heartbeat.start_heartbeats()
    await table.begun.wait()
    ending = asyncio.create_task(heartbeat.stop_heartbeats())
    await asyncio.sleep(0)
    table.open.set()
    await ending
    assert table.done == ["told", "left"]


async def table_after(*, words_count: int, failures: int) -> Table:
    """What a proxy left that ended after so many words, of which the first failed."""
    table = Table(errors=[RegistryUnavailable("connection refused")] * failures)
    table.open.set()
    heartbeat = heartbeat_in(table)
    heartbeat.start_heartbeats()
    await words(table, words_count)
    await heartbeat.stop_heartbeats()
    return table


async def test_while_the_registry_is_away_nothing_is_logged_and_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    table = await table_after(words_count=4, failures=3)
    assert table.done[:4] == ["failed", "failed", "failed", "told"]
    assert caplog.records == []


async def test_who_could_not_tell_has_nothing_to_leave() -> None:
    table = await table_after(words_count=1, failures=1000)
    assert "left" not in table.done


async def test_a_heartbeat_that_fails_leaves_the_row_of_an_earlier_one_which_is_removed() -> None:
    table = Table(errors=[None, *[RegistryUnavailable("connection refused")] * 1000])
    table.open.set()
    heartbeat = heartbeat_in(table)
    heartbeat.start_heartbeats()
    await words(table, 3)
    await heartbeat.stop_heartbeats()
    assert table.done[:3] == ["told", "failed", "failed"]
    assert table.done[-1] == "left"


async def test_what_nobody_expected_is_logged_once_until_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    table = Table(errors=[ValueError("one"), ValueError("two"), None, ValueError("three")])
    table.open.set()
    heartbeat = heartbeat_in(table)
    heartbeat.start_heartbeats()
    await words(table, 5)
    await heartbeat.stop_heartbeats()
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [("one",), ("three",)]  # type: ignore[union-attr]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
