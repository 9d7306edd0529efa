"""Every expression of the dashboard and of the alerts has series in a Prometheus that scrapes real stacks: one in one
process, and a cluster with replicas, whose processes it finds as the ServiceMonitor of Kubernetes says."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.cluster.prometheus import Prometheus
from tests.cluster.watching import serving
from tests.support.certificates import Certificates
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient, code, message, moment
from tests.support.stack import ServerProcess, Stack

pytestmark = [pytest.mark.cluster]

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/observability/alerts.yml"
DASHBOARD = ROOT / "deploy/observability/grafana/dashboards/ternmq.json"
MONITORING = ROOT / "k8s/components/monitoring/objects.yaml"
# What Kubernetes tells of a target, in the names of Prometheus.
COMPONENT, POD = "__meta_kubernetes_service_label_app_kubernetes_io_component", "__meta_kubernetes_pod_name"
COMPARISON = re.compile(r" (==|>|<) ")
# More than what `read_from_followers` takes for cold.
BACKLOG, BATCH = 1500, 500
# Groups are looked at every 10 s, and a rate needs two scrapes.
SERIES_WITHIN_S = 60.0


class Stacks:
    """What is scraped."""

    def __init__(self, single: Stack, cluster: ClusterProcesses) -> None:
        self.single, self.cluster = single, cluster

    @property
    def members(self) -> dict[str, list[tuple[str, ServerProcess]]]:
        """The cluster's processes by component, each with the name that its pod would have."""
        brokers: list[tuple[str, ServerProcess]] = [
            (each.title, each) for each in (*self.cluster.brokers, *self.cluster.replicas)
        ]
        return {"broker": brokers, "proxy": [(each.title, each) for each in self.cluster.proxies]}

    def jobs(self) -> list[dict[str, Any]]:
        """The scrape configurations: of the compose file's kind, and as the operator makes one of a ServiceMonitor."""
        objects = yaml.safe_load_all(MONITORING.read_text())
        (endpoint,) = next(each for each in objects if each["kind"] == "ServiceMonitor")["spec"]["endpoints"]
        targets = [
            {"targets": [process.addresses["http"]], "labels": {COMPONENT: component, POD: pod}}
            for component, members in self.members.items()
            for pod, process in members
        ]
        relabelings = [{snake_case(key): value for key, value in rule.items()} for rule in endpoint["relabelings"]]
        return [
            {"job_name": "ternmq", "static_configs": [{"targets": [self.single.http]}]},
            {"job_name": "serviceMonitor/ternmq/ternmq/0", "static_configs": targets, "relabel_configs": relabelings},
        ]


def snake_case(name: str) -> str:
    return re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name)


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stacks]:
    """A server in one process that shows a certificate; and a cluster of a broker and a shard with two replicas."""
    folder = tmp_path_factory.mktemp("stacks")
    cert, key = Certificates(folder / "certificates").issue("server")
    tls = ("--tls-cert", str(cert), "--tls-key", str(key), "--grpc-tls", "optional")
    cluster = ClusterProcesses(
        folder / "cluster", brokers=1, proxies=1, replicas=2, proxy_options=("--read-from-followers",)
    )
    with ExitStack() as stack:
        (folder / "cluster").mkdir()
        single = stack.enter_context(Stack(folder / "single", *tls))
        stack.enter_context(cluster)
        cluster.add_broker("broker-1")
        yield Stacks(single, cluster)


@pytest.fixture(scope="module")
def prometheus(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has looked at all of them before there was any traffic, so that it has seen every count begin."""
    with Prometheus(tmp_path_factory.mktemp("prometheus"), stacks.jobs(), ALERTS) as running:
        processes = 1 + sum(len(members) for members in stacks.members.values())
        running.eventually(
            lambda: len(running.query("up == 1")) == processes, within_s=SERIES_WITHIN_S, what="all are scraped"
        )
        asyncio.run(everything_happens(stacks, running))
        yield running


async def everything_happens(stacks: Stacks, prometheus: Prometheus) -> None:
    """What can be counted, in both, once at least."""
    async with RawClient(stacks.single.grpc) as single, RawClient(stacks.cluster.doors[0]) as cluster:
        await serving(cluster, [*stacks.cluster.brokers, stacks.cluster.replicas[0]])
        for client in (single, cluster):
            await begun(client)
        # A group is known, with no dead letters, before it has the first.
        zeros = 'count by (job) (ternmq_messages_dead_letters_total{messaging_consumer_group_name="billing"} == 0)'
        await asyncio.to_thread(
            prometheus.eventually, lambda: len(prometheus.query(zeros)) == 2, within_s=SERIES_WITHIN_S, what=zeros
        )
        for client in (single, cluster):
            await used(client)
        await read_cold(cluster)


async def begun(client: RawClient) -> None:
    """Have a group of a topic."""
    group = admin_pb2.Group(name="billing", max_attempts=1)
    assert code(await client.admin("CreateGroup", group=group)) == "OK"
    await client.create_topic("orders")
    await client.send("orders", b"first")
    await client.receive("orders", "billing")


async def used(client: RawClient) -> None:
    """Send, receive, acknowledge, give up; wait for a time and for the end of a transaction; be refused."""
    await client.create_topic("later", kind=pb.DELAY)
    await client.create_topic("halves", kind=pb.TRANSACTION)
    await client.send("orders", b"done", b"given up", b"in flight")
    first, second, _ = (await client.receive("orders", "billing")).messages
    await client.ack("orders", "billing", first.system_properties.receipt_handle)
    await client.change("orders", "billing", second.system_properties.receipt_handle, 0.01)
    tomorrow_ms = await client.server_ms() + 86_400_000
    await client.send("later", b"b", message_type=pb.DELAY, delivery_timestamp=moment(tomorrow_ms))
    await client.send("halves", b"c", message_type=pb.TRANSACTION)
    refused = await client.call("SendMessage", messages=[message("orders", b"x" * (5 << 20))])
    assert code(refused) == "MESSAGE_BODY_TOO_LARGE"
    wrong = pb.FilterExpression(type=pb.SQL, expression="((")
    refused = await client.receive("orders", "billing", filter_expression=wrong)
    assert refused.code == "ILLEGAL_FILTER_EXPRESSION"


async def read_cold(client: RawClient) -> None:
    """Pull the first message of a long queue of the shard."""
    topic = admin_pb2.Topic(name="backlog", queues=1, type=pb.NORMAL, brokers=["broker-0"])
    assert code(await client.admin("CreateTopic", topic=topic)) == "OK"
    for _ in range(0, BACKLOG, BATCH):
        await client.send("backlog", *(b"%d" % number for number in range(BATCH)))
    queue = pb.MessageQueue(topic={"name": "backlog"}, broker={"name": "broker-0"}, id=0)
    asked = rpc.PullMessageRequest(message_queue=queue, batch_size=1, long_polling_timeout={"seconds": 1})
    assert [each async for each in client.stream("PullMessage", asked)]


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    return found


def panels() -> list[str]:
    """What the dashboard asks, with its variables as they are at first; the list of processes too."""
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    (variable,) = dashboard["templating"]["list"]
    processes = re.fullmatch(r"label_values\((.*), instance\)", variable["query"]["query"])
    assert processes is not None
    return [
        each.replace("$instance", variable["allValue"]).replace("$__rate_interval", "1m")
        for each in (*asked, processes[1])
    ]


@pytest.mark.parametrize("expression", panels())
def test_a_panel_has_series(prometheus: Prometheus, expression: str) -> None:
    prometheus.eventually(lambda: prometheus.query(expression), within_s=SERIES_WITHIN_S, what=expression)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_what_an_alert_compares_is_there(prometheus: Prometheus, rule: dict[str, Any]) -> None:
    """A comparison with `bool` has a series for what is well, too."""
    compared, count = COMPARISON.subn(r" \1 bool ", rule["expr"])
    assert count
    prometheus.eventually(lambda: prometheus.query(compared), within_s=SERIES_WITHIN_S, what=compared)


def test_the_jobs_are_those_that_the_alerts_know(prometheus: Prometheus, stacks: Stacks) -> None:
    found = {(each["metric"]["job"], each["metric"]["instance"]) for each in prometheus.query('up{job=~"ternmq.*"}')}
    members = {(f"ternmq-{job}", name) for job, members in stacks.members.items() for name, _ in members}
    assert found == {("ternmq", stacks.single.http), *members}


def test_a_healthy_stack_raises_no_alert_but_that_of_its_dead_letters(prometheus: Prometheus) -> None:
    def firing() -> set[str]:
        found = prometheus.rules()
        assert {rule["health"] for rule in found} <= {"ok", "unknown"}, found
        assert len(found) == len(rules())
        return {rule["name"] for rule in found if rule["state"] == "firing"}

    prometheus.eventually(lambda: firing() == {"TernMQDeadLetters"}, within_s=SERIES_WITHIN_S, what="one alert")


def test_a_broker_that_dies_is_seen_by_prometheus_and_by_the_proxy(prometheus: Prometheus, stacks: Stacks) -> None:
    """A rule is pending as soon as its expression has a series."""
    (broker,) = stacks.cluster.brokers
    wanted = {"TernMQProcessDown", "TernMQBrokerUnreachable"}

    def raised() -> set[str]:
        return wanted & {rule["name"] for rule in prometheus.rules() if rule["state"] != "inactive"}

    broker.kill9()
    try:
        prometheus.eventually(lambda: raised() == wanted, within_s=SERIES_WITHIN_S, what=f"{wanted}")
    finally:
        broker.start()
    prometheus.eventually(lambda: not raised(), within_s=SERIES_WITHIN_S, what="none any more")
