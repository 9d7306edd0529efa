"""`ternmq up --workers N`: several processes behind one port, over one broker."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from ternmq import Message, MessageView, Producer, SimpleConsumer, TransactionResolution
from ternmq.admin import groups as group_calls
from ternmq.admin import proxies
from ternmq.admin import topics as topic_calls
from ternmq.blocking import Producer as BlockingProducer
from ternmq.blocking import SimpleConsumer as BlockingConsumer
from ternmq_command.calls.admin import AdminClient
from ternmq_command.calls.watching import WatchingClient
from ternmq_protos.v2 import definition_pb2 as pb
from tests.faults.test_process_death import TOPIC, Account, check_all_come, consume_all, keep_sending
from tests.support.embedded import RawClient
from tests.support.until import until, until_answered
from tests.support.workers import BROKER, WorkerStack

pytestmark = [pytest.mark.slow]

COMMAND = (sys.executable, "-m", "ternmq_command.main", "up")
CONNECTIONS = 16
SENDERS = 6
TWO = ("--workers", "2")
GONE_S = 20.0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[WorkerStack]:
    with WorkerStack(tmp_path, *TWO) as stack:
        yield stack


async def soon(stack: WorkerStack, what: str, content: dict[str, str]) -> None:
    """Wait until `/health/WHAT` says so."""
    await until_answered(lambda: asyncio.to_thread(lambda: stack.health(what)[1]), content)


def sockets_of(process: psutil.Process) -> set[str]:
    """Paths of sockets that it has in the file system."""
    return {str(each.laddr) for each in process.net_connections("unix") if str(each.laddr).startswith("/")}


async def test_messages_over_many_connections_come_once_each_through_both_workers(stack: WorkerStack) -> None:
    account = Account()
    producers = [Producer(stack.grpc, topics=[TOPIC]) for _ in range(CONNECTIONS)]
    try:
        await asyncio.gather(*(producer.start() for producer in producers))
        for producer in producers:
            bodies = [b"%d-%d" % (id(producer), number) for number in range(50)]
            await producer.send_many([Message(TOPIC, body) for body in bodies])
            account.sent.update(bodies)
        connections = await asyncio.to_thread(stack.metric, "ternmq_front_connections")
    finally:
        await asyncio.gather(*(producer.close() for producer in producers))
    assert connections.keys() == {"worker-0", "worker-1"}
    assert all(count > 0 for count in connections.values()), "the kernel gave one worker all connections"
    await asyncio.gather(*(consume_all(stack.grpc, account) for _ in range(4)))
    assert account.received == dict.fromkeys(account.sent, 1)
    assert await asyncio.to_thread(stack.metric, "ternmq_messages_sent_total") == {BROKER: len(account.sent)}


async def test_one_worker_tells_of_all_and_changes_the_log_levels_of_all(stack: WorkerStack) -> None:
    producers = [Producer(stack.grpc, topics=[TOPIC]) for _ in range(CONNECTIONS)]
    try:
        await asyncio.gather(*(producer.start() for producer in producers))
        with WatchingClient(stack.grpc) as client:
            pages = await asyncio.to_thread(lambda: list(client.list_clients(topic=TOPIC)))
            levels = await asyncio.to_thread(client.update_log_levels, "warning,ternmq_rpc=info")
            told = await asyncio.to_thread(client.log_levels)
            status = await asyncio.to_thread(client.get_status)
            reports = await asyncio.to_thread(client.get_diagnostics)
        with AdminClient(stack.grpc) as admin:
            [server] = (await asyncio.to_thread(admin.send_call, proxies.list_proxies())).proxies
    finally:
        await asyncio.gather(*(producer.close() for producer in producers))
    clients = [each for page in pages for each in page.clients]
    assert {each.client_id for each in clients} == {producer.client_id for producer in producers}
    assert {each.process for each in clients} == {"worker-0", "worker-1"}
    assert {page.server for page in pages} == {"broker-0"}
    assert not any(page.silent for page in pages)
    everybody = {"worker-0", "worker-1", BROKER}
    for answer in (levels, told):
        assert {each.process: each.levels for each in answer.processes} == dict.fromkeys(
            everybody, "warning,ternmq_rpc=info"
        )
    assert stack.log.read_text().count("log levels: warning,ternmq_rpc=info, after info; changed by client") == 3
    assert {each.process for each in reports.processes} == everybody
    assert len({each.pid for each in reports.processes}) == 3
    assert (server.name, server.processes, server.asked, server.lease_end) == ("broker-0", 2, True, None)
    assert server.load.connections >= CONNECTIONS
    assert sorted((each.kind, each.well) for each in status.components) == [
        ("broker", True),
        ("registry", True),
        ("worker", True),
        ("worker", True),
    ]


async def test_one_worker_tells_by_the_published_service_what_all_clients_subscribe(stack: WorkerStack) -> None:
    clients = [RawClient(stack.grpc) for _ in range(CONNECTIONS)]
    group, topic = {"name": "g"}, {"name": TOPIC}
    asker = clients[0]
    try:
        await asker.create_topic(TOPIC)
        for number, client in enumerate(clients):
            await client.configure(_consumer("g", TOPIC, "a" if number else "b"))
        await asker.send(TOPIC, b"one")
        ids = sorted(client.client_id for client in clients)
        listed = await asker.published("ListSubscription", group=group)
        described = await asker.published("DescribeSubscription", topic=topic)
        connected = await asker.published("ListConsumerConnection", group=group)
        members = await asker.admin("DescribeGroup", name="g")
        stats = await asker.published("GetProxyRuntimeStats")
        running = [
            await asker.published("GetConsumerRunningInfo", group=group, client_id=client_id) for client_id in ids
        ]
    finally:
        await asyncio.gather(*(client.channel.close() for client in clients))
    assert {answer.status.message for answer in (listed, described, connected, stats)} == {"OK"}
    assert [info.subscription_consistency for info in listed.subscription_info] == [False]
    assert [each.client_info.client_id for each in described.client_subscription_info] == ids
    assert [info.client_id for info in connected.client_info] == ids
    assert [member.client_id for member in members.members] == ids
    assert len(members.inconsistencies) == 1
    assert (stats.connections, stats.consumers, stats.producers) == (CONNECTIONS, CONNECTIONS, 0)
    assert {each.status.code for each in running} == {pb.OK}
    assert all(TOPIC in each.consumer_running_info.subscriptions for each in running)


def _consumer(group: str, topic: str, tags: str) -> pb.Settings:
    entry = {"topic": {"name": topic}, "expression": {"type": pb.TAG, "expression": tags}}
    subscription = {"group": {"name": group}, "subscriptions": [entry]}
    return pb.Settings(client_type=pb.SIMPLE_CONSUMER, subscription=subscription)


async def test_the_status_names_a_worker_that_hangs(stack: WorkerStack) -> None:
    victims = [stack.processes["worker-0"], stack.processes["worker-1"]]
    with WatchingClient(stack.grpc) as client:
        answers = (await asyncio.to_thread(client.get_status)).components[0].name
        (victim,) = [name for name in ("worker-0", "worker-1") if name != answers]
        paused = victims[int(victim[-1])]
        paused.suspend()
        try:
            status = await asyncio.to_thread(client.get_status)
            levels = await asyncio.to_thread(client.log_levels)
        finally:
            paused.resume()
    assert [(each.name, each.said) for each in status.components if not each.well] == [(victim, "it does not answer")]
    assert list(levels.silent) == [victim]


@pytest.mark.parametrize("victim", ["worker-0", BROKER])
async def test_who_is_killed_is_replaced_and_nothing_acknowledged_is_lost(stack: WorkerStack, victim: str) -> None:
    account = Account()
    senders = [asyncio.create_task(keep_sending(stack.grpc, name, account)) for name in range(SENDERS)]
    for number in (1, 2, 3):
        await account.grows(300)
        killed = stack.processes[victim]
        others = {name: each.pid for name, each in stack.processes.items() if name != victim}
        killed.kill()
        await until(lambda: stack.processes.get(victim, killed).pid != killed.pid)  # noqa: B023 - awaited here
        await soon(stack, "ready", {"status": "ready"})
        assert {name: each.pid for name, each in stack.processes.items() if name != victim} == others
        assert (await asyncio.to_thread(stack.metric, "ternmq_worker_restarts_total"))[victim] == number
    await account.grows(300)
    await check_all_come(stack.grpc, account, senders)
    assert await asyncio.to_thread(stack.terminate) == 0


async def test_connections_of_other_workers_go_on_when_one_dies(stack: WorkerStack) -> None:
    victim = stack.processes["worker-1"]
    producers = [Producer(stack.grpc, topics=[TOPIC], max_attempts=1) for _ in range(CONNECTIONS)]
    try:
        await asyncio.gather(*(producer.start() for producer in producers))
        of_others = int((await asyncio.to_thread(stack.metric, "ternmq_front_connections"))["worker-0"])
        victim.kill()
        sends = (producer.send(Message(TOPIC, b"after")) for producer in producers)
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    finally:
        await asyncio.gather(*(producer.close() for producer in producers))
    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) >= of_others


def test_a_clean_end_leaves_nobody_and_the_data_serves_any_number_of_workers(tmp_path: Path) -> None:
    expected = []
    for round_number, workers in enumerate(("1", "2", "1", "3", "2")):
        with WorkerStack(tmp_path, "--workers", workers) as stack:
            with BlockingProducer(stack.grpc) as producer:
                bodies = [b"%d-%d" % (round_number, number) for number in range(3)]
                producer.send_many([Message("orders", body) for body in bodies])
                expected += bodies
            with BlockingConsumer(stack.grpc, "billing", {"orders": "*"}) as consumer:
                for _ in range(2):  # of three: the others are for the next round
                    (view,) = consumer.receive(1, timedelta(minutes=1))
                    expected.remove(view.body)
                    consumer.ack(view)
            with AdminClient(stack.grpc) as admin:
                assert [topic.name for topic in admin.send_call(topic_calls.list_topics())] == ["orders"]
                assert [group.name for group in admin.send_call(group_calls.list_groups())] == ["billing"]
                assert not admin.send_call(topic_calls.describe_topic("orders")).topic.brokers
            others = list(stack.processes.values())
            assert len(others) == (0 if workers == "1" else int(workers) + 1)
            assert stack.terminate() == 0
            assert psutil.wait_procs(others, timeout=0)[1] == []
    with WorkerStack(tmp_path, *TWO) as stack, BlockingConsumer(stack.grpc, "billing", {"orders": "*"}) as consumer:
        left: list[bytes] = []
        while len(left) < len(expected):
            views = consumer.receive(32, timedelta(minutes=1))
            consumer.ack(views)
            left += [view.body for view in views]
        assert sorted(left) == sorted(expected)


async def test_a_clean_end_answers_what_was_asked(stack: WorkerStack) -> None:
    account = Account()
    senders = [asyncio.create_task(keep_sending(stack.grpc, name, account)) for name in range(SENDERS)]
    await account.grows(500)
    with AdminClient(stack.grpc) as admin:
        await asyncio.to_thread(admin.send_call, topic_calls.create_topic("nothing-here", "normal", 1))
    waiting = SimpleConsumer(stack.grpc, "idlers", {"nothing-here": "*"}, await_duration=timedelta(seconds=20))
    async with waiting:
        poll = asyncio.create_task(waiting.receive(32, timedelta(seconds=30)))
        assert await asyncio.to_thread(stack.terminate) == 0
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
    for sender in senders:
        sender.cancel()
    await asyncio.gather(*senders, return_exceptions=True)
    assert " ERROR " not in stack.log.read_text()
    stack.start()
    await consume_all(stack.grpc, account)
    assert account.sent <= account.received.keys()


def test_when_the_supervisor_is_killed_the_others_end_in_order(stack: WorkerStack) -> None:
    with BlockingProducer(stack.grpc) as producer:
        producer.send(Message("orders", b"kept"))
    others = list(stack.processes.values())
    (folder,) = {Path(name).parents[1] for each in others for name in sockets_of(each)}
    assert folder.exists()
    stack.kill9()
    assert psutil.wait_procs(others, GONE_S)[1] == []
    assert not folder.exists()
    stack.start()
    with BlockingConsumer(stack.grpc, "billing", {"orders": "*"}) as consumer:
        (view,) = consumer.receive()
        assert view.body == b"kept"


async def test_health_tells_of_all(stack: WorkerStack) -> None:
    assert stack.health("started") == (200, {"status": "started"})
    assert stack.health("live") == (200, {"status": "live"})
    assert stack.health("ready") == (200, {"status": "ready"})
    processes = stack.processes
    processes["worker-1"].suspend()
    silent = await asyncio.to_thread(stack.health, "ready")
    assert silent == (200, {"status": "ready", "degraded": "worker-1: it does not answer"})
    assert await asyncio.to_thread(stack.health, "live") == (503, {"status": "worker-1: it does not answer"})
    assert (await asyncio.to_thread(stack.metric, "ternmq_worker_up"))["worker-0"] == 1
    processes["worker-1"].resume()
    await soon(stack, "ready", {"status": "ready"})
    processes[BROKER].suspend()
    code, content = await asyncio.to_thread(stack.health, "ready")
    assert (code, content) == (503, {"status": "broker: it does not answer"})
    processes[BROKER].resume()
    await soon(stack, "ready", {"status": "ready"})


async def test_each_producer_is_asked_about_its_own_transaction(tmp_path: Path) -> None:
    asked: dict[bytes, int] = {}

    def checker_of(number: int) -> "object":
        async def check(view: MessageView) -> TransactionResolution:
            asked[view.body] = number
            return TransactionResolution.COMMIT

        return check

    with WorkerStack(tmp_path, *TWO) as stack:
        with AdminClient(stack.grpc) as admin:
            await asyncio.to_thread(admin.send_call, topic_calls.create_topic("payments", "transaction", 4))
        producers = [
            Producer(stack.grpc, topics=["payments"], checker=checker_of(number))  # type: ignore[arg-type]
            for number in range(CONNECTIONS)
        ]
        await asyncio.gather(*(producer.start() for producer in producers))
        connections = await asyncio.to_thread(stack.metric, "ternmq_front_connections")
        assert all(count > 0 for count in connections.values())
        for number, producer in enumerate(producers):
            transaction = producer.begin_transaction(recovery=timedelta(seconds=1))
            await transaction.send(Message("payments", b"%d" % number))
        await until(lambda: len(asked) == CONNECTIONS)
        assert asked == {b"%d" % number: number for number in range(CONNECTIONS)}
        account = Account()
        async with SimpleConsumer(stack.grpc, "billing", {"payments": "*"}) as consumer:
            while account.received.keys() != asked.keys():
                views = await consumer.receive(32, timedelta(minutes=1))
                account.received.update(view.body for view in views)
                await consumer.ack(views)
        await asyncio.gather(*(producer.close() for producer in producers))


def test_a_topic_that_is_made_anew_keeps_its_messages_whichever_worker_deleted_the_earlier_one(
    stack: WorkerStack,
) -> None:
    for number in range(10):
        with AdminClient(stack.grpc) as admin:
            admin.send_call(topic_calls.create_topic("orders", "normal", 1))
        with BlockingProducer(stack.grpc) as producer:
            producer.send(Message("orders", b"old"))
        with AdminClient(stack.grpc) as admin:
            admin.send_call(topic_calls.delete_topic("orders"))
        with AdminClient(stack.grpc) as admin:
            admin.send_call(topic_calls.create_topic("orders", "normal", 1))
        with BlockingProducer(stack.grpc) as producer:
            producer.send(Message("orders", b"new"))
        with BlockingConsumer(stack.grpc, f"billing-{number}", {"orders": "*"}) as consumer:
            (view,) = consumer.receive()
            assert view.body == b"new"
        with AdminClient(stack.grpc) as admin:
            admin.send_call(topic_calls.delete_topic("orders"))


async def test_what_all_make_at_the_same_time_is_made_once(stack: WorkerStack) -> None:
    producers = [Producer(stack.grpc) for _ in range(CONNECTIONS)]
    names = [f"made-{number}" for number in range(5)]
    await asyncio.gather(*(producer.start() for producer in producers))
    await asyncio.gather(*(producer.send(Message(name, b"body")) for producer in producers for name in names))
    await asyncio.gather(*(producer.close() for producer in producers))
    with AdminClient(stack.grpc) as admin:
        assert {topic.name for topic in await asyncio.to_thread(admin.send_call, topic_calls.list_topics())} == set(
            names
        )
    assert (await asyncio.to_thread(stack.metric, "ternmq_messages_sent_total"))[BROKER] == CONNECTIONS * len(names)


@pytest.mark.parametrize("seconds", [0.3, 1.0, 1.6, 2.2])
def test_an_end_while_all_begin_leaves_nobody(tmp_path: Path, seconds: float) -> None:
    options = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), *TWO)
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(seconds)
        others = psutil.Process(server.pid).children()
        server.terminate()
        assert server.wait(GONE_S) in (0, -signal.SIGTERM)  # the latter before it has begun to listen to signals
        assert psutil.wait_procs(others, GONE_S)[1] == []


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_workers_have_is_nobody_else_s(stack: WorkerStack, tmp_path: Path, workers: str) -> None:
    line = refused("--grpc", stack.grpc, "--data-dir", str(tmp_path / "other"), "--workers", workers)
    assert f"gRPC can't listen on {stack.grpc}: Address already in use" in line


def test_what_the_broker_can_not_begin_with_is_one_line(stack: WorkerStack) -> None:
    line = refused("--grpc", "127.0.0.1:0", "--data-dir", str(stack.data_dir), *TWO)
    assert "in use by another stack" in line


def refused(*options: str) -> str:
    """The one line that `ternmq up` ends with."""
    command = [*COMMAND, "--http", "127.0.0.1:0", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GONE_S, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def test_ctrl_c_ends_all_in_order(stack: WorkerStack) -> None:
    others = list(stack.processes.values())
    os.kill(stack.process.pid, signal.SIGINT)
    assert stack.process.wait(GONE_S) == 0
    assert psutil.wait_procs(others, timeout=0)[1] == []
    log = stack.log.read_text()
    assert log.index("worker-0 ternmq_runtime.process: stopping") < log.index("broker ternmq_runtime.process: stopping")
