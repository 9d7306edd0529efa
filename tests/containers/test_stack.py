"""The stack as `docker-compose up` starts it: all of it healthy, and clients don't notice what dies behind them."""

import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import ternmq
from ternmq import Message
from ternmq.blocking import Admin, Producer, SimpleConsumer
from ternmq.errors import TransportError
from ternmq_rpc.remoting.message_records import decode_records
from tests.containers.compose import OBSERVABILITY, SHARD, Stack, described, docker, inspected
from tests.support.remoting_client import RemotingClient

# The first start builds all images, and downloads Spark for one of them.
pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

BY_DEFAULT = sorted(name for name, service in described().items() if "profiles" not in service)
JOB = "registry-migration"
OURS = ["broker-0", "broker-1", "proxy-0", "proxy-1"]
POLL = timedelta(seconds=5)
# By then every proxy has seen that a broker's lease has run out, and what it had claimed is there again.
PATIENCE_S = 60
SCRAPED_TIMEOUT_S = 60
LOOK_INTERVAL_S, SEND_INTERVAL_S = 0.2, 0.02
SQUARES = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("spark://spark-master:7077").config("spark.executor.memory", "512m")
# A shuffle that can't answer is to fail before the test does.
session = builder.config("spark.driver.host", "spark-master").config("spark.rpc.askTimeout", "30s").getOrCreate()
numbers = session.sparkContext.parallelize(range(100), 2)
print("squares", numbers.map(lambda n: (n % 2, n * n)).reduceByKey(lambda a, b: a + b).collectAsMap()[1])
"""


def test_everything_gets_healthy_and_the_migration_has_ended(stack: Stack) -> None:
    for service in BY_DEFAULT:
        if service != JOB:
            stack.wait_healthy(service)
    assert inspected(stack.container(JOB))["State"]["ExitCode"] == 0


@pytest.mark.parametrize("service", [name for name in BY_DEFAULT if name != JOB])
def test_nobody_is_root_and_nothing_can_be_written(stack: Stack, service: str) -> None:
    assert stack.run_in(service, "id", "-u") != "0"
    assert stack.run_in(service, "stat", "-c", "%u", "/proc/1") != "0"
    host = inspected(stack.container(service))["HostConfig"]
    assert (host["ReadonlyRootfs"], host["CapDrop"]) == (True, ["ALL"])
    assert host["Memory"] > 0
    assert host["NanoCpus"] > 0
    assert host["PidsLimit"] == described()[service]["pids_limit"]
    with pytest.raises(AssertionError, match="Read-only file system"):
        stack.run_in(service, "sh", "-c", "echo x > /written")


def test_a_client_sends_and_receives_through_the_load_balancer(stack: Stack) -> None:
    sent = send(stack, "shoes", [b"%d" % number for number in range(20)])
    assert received(stack, "shoes", len(sent)) == sent


async def test_a_client_of_rocketmq_4_comes_through_the_load_balancer(stack: Stack) -> None:
    async with await RemotingClient.connect(stack.remoting) as client:
        sent = await client.send("hats-4x", b"by remoting", n="broker-0")
        assert (sent.code, sent.remark) == (0, "")
        [address] = {
            each["brokerAddrs"]["0"]
            for each in json.loads((await client.call(105, topic="hats-4x")).body)["brokerDatas"]
        }
        assert address == stack.remoting
        async with await RemotingClient.connect(address) as consumer:
            await consumer.heartbeat("c", consumers={"hats-4x-group": ["hats-4x"]})
            pulled = await consumer.pull("hats-4x-group", "hats-4x", bname="broker-0")
            assert [record.body for record in decode_records(pulled.body)] == [b"by remoting"]


def test_a_client_goes_on_when_its_proxy_is_killed(stack: Stack) -> None:
    """Whichever of the two it is connected to: each is killed once, under a client that stays."""
    with Producer(stack.endpoint, topics=["hats"], max_attempts=10) as producer:
        producer.send(Message("hats", b"first"))
        sent = {b"first"}
        for proxy in ("proxy-0", "proxy-1"):
            stack.kill(proxy)
            for number in range(10):
                body = f"{proxy} {number}".encode()
                producer.send(Message("hats", body))
                sent.add(body)
            stack.start(proxy)
            stack.wait_healthy("load-balancer")
    assert received(stack, "hats", len(sent)) == sent


def test_sends_go_on_when_a_broker_is_killed_and_what_it_had_comes_back(stack: Stack) -> None:
    with Producer(stack.endpoint, topics=["coats"], max_attempts=10) as producer:
        sent = {b"%d" % number for number in range(20)}
        for body in sent:
            producer.send(Message("coats", body))
        stack.kill("broker-0")
        for number in range(20, 40):
            producer.send(Message("coats", b"%d" % number))
            sent.add(b"%d" % number)
    stack.start("broker-0")
    assert received(stack, "coats", len(sent)) == sent


def test_without_a_broker_a_client_hears_so_from_a_proxy(stack: Stack) -> None:
    """Through the load balancer, although no proxy is ready."""
    brokers = ("broker-0", "broker-1")
    with Producer(stack.endpoint, topics=["gloves"]) as producer:
        try:
            for broker in brokers:
                stack.kill(broker)
            assert "HA_NOT_AVAILABLE" in refusal(producer, "gloves")
        finally:
            for broker in brokers:
                stack.start(broker)
    assert send(stack, "gloves", [b"kept"]) <= received(stack, "gloves", 1)


def test_a_python_job_runs_on_the_spark_cluster(stack: Stack) -> None:
    """With a shuffle, which needs native libraries that Java unpacks."""
    stack.wait_healthy("spark-worker")
    done = docker("exec", stack.container("spark-master"), "timeout", "240", "python3", "-c", SQUARES, timeout_s=260)
    assert "squares 166650" in done


def test_prometheus_gets_metrics_of_all_brokers_and_proxies(stack: Stack) -> None:
    stack.up("prometheus", profile=OBSERVABILITY)
    stack.wait_healthy("prometheus")
    assert stack.run_in("prometheus", "id", "-u") != "0"
    wanted = {f"{name}:8082" for name in OURS}
    deadline = time.monotonic() + SCRAPED_TIMEOUT_S
    while not wanted <= (up := scraped(stack)):
        assert time.monotonic() < deadline, (up, stack.logs())
        # The next look of its own is what is waited for, and nobody tells when it was.
        stack.run_in("prometheus", "sleep", "1")


def test_a_producer_loses_nothing_when_the_leader_of_a_shard_is_killed(replicated: Stack) -> None:
    """The profile `replicated`, under a producer that sends on in order: another replica takes over."""
    stack = replicated
    with Admin(stack.endpoint) as admin, Producer(stack.endpoint, topics=["boots"], max_attempts=10) as producer:
        leader = led(admin, in_sync=3)
        admin.create_topic("boots", "fifo", brokers=[SHARD])
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(sent_until, over, producer)
            try:
                stack.kill(f"replica-{leader}")
                successor = led(admin, in_sync=2, without=leader)
                producer.send(Message("boots", b"after", message_group="left"))
            finally:
                over.set()
            sent = sending.result()
        assert {b"after", *sent} <= received(stack, "boots", len(sent) + 1)
        stack.start(f"replica-{leader}")
        assert led(admin, in_sync=3) == successor


def send(stack: Stack, topic: str, bodies: list[bytes]) -> set[bytes]:
    with Producer(stack.endpoint, topics=[topic]) as producer:
        for body in bodies:
            producer.send(Message(topic, body))
    return set(bodies)


def led(admin: Admin, *, in_sync: int, without: str = "") -> str:
    """The name of the replica that leads, when so many are in sync and another one than `without` leads."""

    deadline = time.monotonic() + PATIENCE_S
    while True:
        (shard,) = (each for each in admin.list_brokers() if each.name == SHARD)
        enough = sum(each.in_sync for each in shard.replicas) >= in_sync
        if shard.live and shard.leader is not None and shard.leader.name != without and enough:
            return shard.leader.name
        assert time.monotonic() < deadline, shard
        # Nobody tells of it.
        time.sleep(LOOK_INTERVAL_S)


def sent_until(over: threading.Event, producer: Producer) -> list[bytes]:
    """Send in one message group, each until it is acknowledged, until that is over."""
    sent: list[bytes] = []
    while not over.wait(SEND_INTERVAL_S):
        body = b"%d" % len(sent)
        try:
            producer.send(Message("boots", body, message_group="left"))
        except ternmq.ClientError:
            continue
        sent.append(body)
    return sent


def refusal(producer: Producer, topic: str) -> str:
    """What a proxy answers to a send; before that the load balancer may cut connections to those that are not ready."""
    for _ in range(10):
        try:
            producer.send(Message(topic, b"lost"))
        except TransportError:
            continue
        except ternmq.ClientError as error:
            return str(error)
    return "nothing"


def received(stack: Stack, topic: str, count: int) -> set[bytes]:
    """The bodies of so many different messages, or of those that came until nobody would wait any longer."""
    bodies = set[bytes]()
    deadline = time.monotonic() + PATIENCE_S
    with SimpleConsumer(stack.endpoint, "readers", {topic: "*"}, await_duration=POLL) as consumer:
        while len(bodies) < count and time.monotonic() < deadline:
            views = consumer.receive()
            consumer.ack(views)
            bodies |= {view.body for view in views}
    return bodies


def scraped(stack: Stack) -> set[str]:
    """What Prometheus has asked with success."""
    url = f"http://127.0.0.1:{stack.ports['PROMETHEUS_PORT']}/api/v1/targets"
    with urllib.request.urlopen(url, timeout=10) as answer:
        targets = json.load(answer)["data"]["activeTargets"]
    return {target["labels"]["instance"] for target in targets if target["health"] == "up"}
