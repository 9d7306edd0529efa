"""PostgreSQL dies, hangs, or has lost its tables: what the cluster knows goes on, changes are refused, and all heals by
itself."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import grpc
import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.cluster.watching import (
    command,
    consumed,
    eventually,
    health,
    in_routes,
    is_empty,
    placed,
    received,
    send_each,
    sent_code,
    serving,
    settle,
    stored,
)
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import Proto, RawClient, code
from tests.support.postgres import Postgres
from tests.support.stack import config_options

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

BOTH = {"broker-0", "broker-1"}
SETTINGS = 'lease_ms = "3s"\n'
# Longer than a lease and the second in which proxies look: by then a broker that is not excused has gone.
LONG_S = 5.0
HEALED_WITHIN_S = 20.0
KINDS = ("killed", "hanging")
# What all processes have of the registry is known, and its tables are away for a while.
EMPTIED = "emptied"
PROBLEMS = dict.fromkeys(KINDS, "the registry can't be reached") | {
    EMPTIED: "it lacks tables that it should have: run `ternmq registry migrate`"
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    folder = tmp_path_factory.mktemp("cluster")
    with ClusterProcesses(folder, broker_options=config_options(folder, SETTINGS)) as processes:
        yield processes


@contextmanager
def outage(postgres: Postgres, kind: str) -> Iterator[None]:
    begin, end = {
        "killed": (postgres.kill, postgres.start),
        "hanging": (postgres.pause, postgres.resume),
        EMPTIED: (
            lambda: postgres.execute("ALTER SCHEMA public RENAME TO away"),
            lambda: postgres.execute("ALTER SCHEMA away RENAME TO public"),
        ),
    }[kind]
    begin()
    try:
        yield
    finally:
        end()


@asynccontextmanager
async def traffic(clients: Sequence[RawClient], topics: Sequence[str], group: str) -> AsyncIterator[list[bytes]]:
    """Sends through each proxy, to a topic of its own, and receives through the other meanwhile; the list has what was
    sent and consumed."""
    bodies: list[bytes] = []
    stop = asyncio.Event()

    async def flow(sender: RawClient, reader: RawClient, topic: str) -> None:
        number = 0
        while not stop.is_set():
            body = f"{topic}-{number}".encode()
            await sender.send(topic, body)
            messages = await received(reader, topic, group, 1)
            await settle(sender, topic, group, messages)
            bodies.extend(each.body for each in messages)
            number += 1

    first, second = clients
    async with asyncio.TaskGroup() as flows:
        flows.create_task(flow(first, second, topics[0]))
        flows.create_task(flow(second, first, topics[1]))
        try:
            yield bodies
        finally:
            stop.set()


async def changes(client: RawClient, word: str) -> Sequence[Proto]:
    """What changes of all kinds are answered with. They are asked for together, since each waits for the registry."""
    topic, group = {"name": f"new-{word}", "queues": 1, "type": pb.NORMAL}, {"name": f"new-{word}"}
    return await asyncio.gather(
        client.admin("CreateTopic", topic=topic),
        client.admin("UpdateTopic", name=f"known-{word}", queues=8),
        client.admin("DeleteTopic", name=f"known-{word}"),
        client.admin("CreateGroup", group=group),
        client.admin("UpdateBroker", name="broker-0", draining=True),
        client.admin("RemoveBroker", name="broker-0", force=True),
    )


def check_refused(answers: Sequence[Proto], problem: str) -> None:
    for answer in answers:
        assert code(answer) == "HA_NOT_AVAILABLE", answer
        assert problem in answer.status.message
        assert "refused until it is back" in answer.status.message


@pytest.mark.parametrize("kind", [*KINDS, EMPTIED])
async def test_what_is_known_goes_on_and_changes_are_refused(
    cluster: ClusterProcesses, clients: list[RawClient], kind: str
) -> None:
    first, second = clients
    group, topic = f"readers-{kind}", f"flowing-{kind}-0"
    topics = [await first.create_topic(f"flowing-{kind}-{number}", queues=2) for number in range(2)]
    await first.create_topic(f"known-{kind}")
    for each in topics:
        await in_routes(clients, each, BOTH, within_s=HEALED_WITHIN_S)
        for client in clients:
            assert await is_empty(client, each, group)  # the group is known there from then on
    async with traffic(clients, topics, group) as bodies:
        with outage(cluster.postgres, kind):
            began = time.monotonic()
            answers, *sent = await asyncio.gather(
                changes(first, kind), *(sent_code(client, f"unheard-of-{kind}") for client in clients)
            )
            check_refused(answers, PROBLEMS[kind])
            for refused, text in sent:
                assert (refused, PROBLEMS[kind] in text) == ("HA_NOT_AVAILABLE", True), text
            said = await command(cluster.proxies[1], "topic", "create", f"new-{kind}")
            assert said.returncode != 0
            assert PROBLEMS[kind] in said.stderr

            async def long_enough() -> bool:
                for client in clients:
                    assert await placed(client, topic) == BOTH
                return time.monotonic() - began > LONG_S

            await eventually(long_enough, within_s=60, what="an outage that is longer than a lease")
            await check_healthy(cluster)
            in_time = len(bodies)
        back = time.monotonic()

        async def stays() -> bool:
            """Brokers could not renew their leases, and are there all the same."""
            for client in clients:
                assert await placed(client, topic) == BOTH
            return time.monotonic() - back > LONG_S

        await eventually(stays, within_s=60, what="the time in which brokers that were not excused would be gone")
        assert in_time > 20
        assert len(bodies) > in_time
    assert len(bodies) == len(set(bodies))
    made = await first.create_topic(f"after-{kind}", queues=2)
    await send_each(second, made, *(b"%d" % number for number in range(8)))
    assert (await stored(first, made)).keys() == BOTH
    assert (await sent_code(second, f"unheard-of-{kind}"))[0] == "OK"
    assert code(await second.admin("DeleteTopic", name=f"known-{kind}")) == "OK"
    members = (*cluster.brokers, *cluster.proxies)
    assert {process.process.poll() for process in members} == {None}
    check_plain(process.log.read_text() for process in members)


async def check_healthy(cluster: ClusterProcesses) -> None:
    for process in (*cluster.brokers, *cluster.proxies):
        for check in ("live", "ready"):
            assert (await health(process, check))[0] == 200, (process.name, check)


def check_plain(logs: Iterable[str]) -> None:
    """No statement of SQL and no stack, and of tables that are away one line by each part of a process."""
    for log in logs:
        said = [line.split(": ")[0].split()[-1] for line in log.splitlines() if PROBLEMS[EMPTIED] in line]
        of_parts = [part for part in said if part != "ternmq_proxy.fronts.refusals"]
        assert len(set(of_parts)) == len(of_parts), log
        assert "[SQL" not in log
        assert "Traceback" not in log


@pytest.mark.parametrize("kind", KINDS)
async def test_a_broker_that_restarts_meanwhile_without_a_copy_waits_for_the_registry(
    cluster: ClusterProcesses, clients: list[RawClient], kind: str
) -> None:
    topic, broker = await clients[0].create_topic(f"restarted-{kind}", queues=2), cluster.brokers[0]
    await in_routes(clients, topic, BOTH, within_s=HEALED_WITHIN_S)
    await send_each(clients[0], topic, *(b"%d" % number for number in range(12)))
    held = await stored(clients[0], topic)
    assert held.keys() == BOTH
    with outage(cluster.postgres, kind):
        assert await asyncio.to_thread(broker.terminate) == 0
        (broker.data / "registry-copy").unlink()  # with it there would be nothing to wait for
        starting = asyncio.create_task(asyncio.to_thread(broker.start))

        async def waits() -> bool:
            try:
                status, text = await health(broker, "started")
            except OSError:
                return False  # its process has just begun
            return status == 503 and "registry" in text

        await eventually(waits, within_s=HEALED_WITHIN_S, what="the broker says that it waits for the registry")
        assert (await health(broker, "live"))[0] == 200
        # The other one serves all that is sent meanwhile.
        for client in clients:
            await send_each(client, topic, b"x", b"y")
        assert await stored(clients[1], topic) == {"broker-1": held["broker-1"] + 4}
        assert not starting.done()
    await starting
    for client in clients:
        await serving(client, cluster.brokers)
    bodies = await consumed(clients[1], topic, f"after-{kind}", 16)
    assert sorted(bodies) == sorted([*(b"%d" % number for number in range(12)), b"x", b"x", b"y", b"y"])


async def test_a_proxy_that_starts_meanwhile_without_a_copy_waits_for_the_registry(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    proxy = cluster.proxies[1]
    with outage(cluster.postgres, "killed"):
        assert await asyncio.to_thread(proxy.terminate) == 0
        starting = asyncio.create_task(asyncio.to_thread(proxy.start))

        async def waits() -> bool:
            try:
                return (await health(proxy, "started"))[0] == 503
            except OSError:
                return False

        await eventually(waits, within_s=HEALED_WITHIN_S, what="the proxy says that it waits")
        with pytest.raises(grpc.aio.AioRpcError):  # it must not answer before it knows anything
            await clients[1].call("SendMessage", b"", timeout_s=2.0)
        assert not starting.done()
    await starting
    await serving(clients[1], cluster.brokers)
