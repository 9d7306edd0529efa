"""Processes die, hang and restart while the official clients of three languages, and ours, send and receive.

At the end the account must balance: every message that was acknowledged came to every group. What came again is counted
and said: copies that clients sent again without knowing, and deliveries that were not settled in time.
"""

import asyncio
from pathlib import Path

import pytest

from benchmarks.killed_broker import measured
from tests.cluster.load import LANGUAGES, Account, Load, Way, working
from tests.cluster.watching import clients_of, eventually, paused, placed, serving
from tests.interop.clients import CONSUMERS, PRODUCERS
from tests.support.cluster_processes import ClusterProcesses

pytestmark = [pytest.mark.cluster, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

TOPIC = "faults"
HANG_S = 8.0


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    """Built before, so that no deadline of a test runs meanwhile."""
    for language in LANGUAGES:
        CONSUMERS.build(language)
        PRODUCERS.build(language)


async def whole(cluster: ClusterProcesses) -> None:
    """Return when every proxy reaches every broker."""
    async with clients_of(cluster.proxies) as clients:
        for client in clients:
            await serving(client, cluster.brokers)


def check(account: Account) -> None:
    print(account)  # for those who want to see what faults cost: pytest -s
    assert not any(map(account.missing, account.delivered)), account


async def test_what_was_acknowledged_is_delivered_whoever_dies_or_hangs(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    async with working(Way.to(cluster), TOPIC, tmp_path) as load:
        async with load.phase("broker killed"):
            cluster.brokers[0].kill9()
            await load.account.goes_on()
            await asyncio.to_thread(cluster.brokers[0].start)
        await whole(cluster)
        async with load.phase("broker hanging"):
            with paused(cluster.brokers[1]):
                await hangs(cluster, load)
        await whole(cluster)
        async with load.phase("proxy killed"):
            cluster.proxies[0].kill9()
            await load.account.goes_on()
            await asyncio.to_thread(cluster.proxies[0].start)
        await whole(cluster)
        async with load.phase("proxy hanging"):
            with paused(cluster.proxies[1]):
                await asyncio.sleep(HANG_S)
        await whole(cluster)
        check(await load.finish())


async def hangs(cluster: ClusterProcesses, load: Load) -> None:
    """Until its lease has run out, and everybody works without it."""
    async with clients_of(cluster.proxies) as clients:

        async def left() -> bool:
            return all([await placed(client, TOPIC) == {"broker-0"} for client in clients])

        await eventually(left, within_s=20, what="the broker leaves the routes")
    await load.account.goes_on()


async def test_a_rolling_restart_of_everything_is_seen_by_no_client(cluster: ClusterProcesses, tmp_path: Path) -> None:
    async with working(Way.to(cluster), "rolling", tmp_path) as load:
        for process in (*cluster.brokers, *cluster.proxies):
            load.account.phase = f"{process.name} restarted"
            assert await asyncio.to_thread(process.terminate) == 0
            await asyncio.to_thread(process.start)
            # The next one follows at once, as an orchestrator does that has seen this one ready.
        await load.account.goes_on()
        account = await load.finish()
    check(account)
    assert account.refused == []


async def test_a_killed_broker_holds_up_nobody_for_long(cluster: ClusterProcesses) -> None:
    """The targets are 1 s and 3 s; a busy machine is no bug, so that only what is far from them fails here."""
    await whole(cluster)
    figures = await measured(cluster)
    print(figures)
    await whole(cluster)
    assert figures.failed == 0
    assert figures.gap_s < 10
    assert figures.longest_after_s < 15
