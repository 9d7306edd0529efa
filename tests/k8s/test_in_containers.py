"""The containers of the overlay for trying out, run in Docker with all that the overlay says of them: they start,
answer their probes, take messages, and end in time; the pipeline writes a lake. The images are those of this checkout.
"""

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.dataset
import pytest

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.k8s.containers import Images, Node, Running, docker, ready
from tests.k8s.rendering import Pod, named, pods, rendered

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

POLL = timedelta(seconds=20)
# A limit of CPU makes it slow where other tests have both cores.
PIPELINE_TIMEOUT_S = 400


def pod(component: str) -> Pod:
    (found,) = (each for each in pods(rendered("dev")) if each.component == component)
    return found


@pytest.fixture(scope="module")
def node(images: Images) -> Iterator[Node]:
    """Where the pods run, with a PostgreSQL that is ready."""
    with Node(rendered("dev"), images) as made:
        database = made.run(pod("postgres"))
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            database.passes(probe)
        yield made


@pytest.fixture(scope="module")
def too_early(node: Node) -> Running:
    """A broker that was started before the registry had tables, and has ended."""
    early = node.run(pod("broker"))
    early.wait()
    return early


@pytest.fixture(scope="module")
def migration(node: Node, too_early: Running) -> Running:
    """The migration, which has ended."""
    del too_early
    job = node.run(pod("migration"))
    job.wait()
    return job


@pytest.fixture(scope="module")
def broker(node: Node, migration: Running) -> Running:
    """A broker that is ready."""
    assert migration.state()["ExitCode"] == 0, migration.logs()
    return ready(node.run(pod("broker")))


@pytest.fixture(scope="module")
def proxy(node: Node, broker: Running) -> Running:
    """A proxy that is ready."""
    del broker
    return ready(node.run(pod("proxy")))


def test_before_the_migration_a_process_ends_and_says_what_to_do(too_early: Running) -> None:
    assert too_early.state()["ExitCode"] != 0
    assert "ternmq registry migrate" in too_early.logs()


def test_the_migration_is_a_job_that_succeeds_each_time(node: Node, migration: Running) -> None:
    assert migration.state()["ExitCode"] == 0, migration.logs()
    again = node.run(pod("migration"))
    assert again.wait() == 0, again.logs()


def test_a_message_goes_through_the_proxy_to_the_broker_and_back(proxy: Running) -> None:
    """The client knows the published port only, which is not the container's: a route must lead back to that."""
    endpoint = proxy.address("grpc")
    with Producer(endpoint, topics=["shoes"]) as producer:
        producer.send(Message("shoes", b"a pair"))
    with SimpleConsumer(endpoint, "packers", {"shoes": "*"}, await_duration=POLL) as consumer:
        (view,) = consumer.receive()
        consumer.ack(view)
    assert view.body == b"a pair"


def test_prometheus_finds_metrics_where_the_service_monitor_says(broker: Running, proxy: Running) -> None:
    (endpoint,) = named(rendered("production"), "ServiceMonitor", "ternmq")["spec"]["endpoints"]
    for process in (broker, proxy):
        status, text = process.get(endpoint["path"], endpoint["port"], timeout_s=5)
        assert status == 200
        assert "# TYPE " in text


def test_the_password_is_in_no_log(too_early: Running, migration: Running, broker: Running, proxy: Running) -> None:
    for process in (too_early, migration, broker, proxy):
        assert "for-development" not in process.logs()


def test_nobody_is_root_or_writes_to_the_image(broker: Running, proxy: Running) -> None:
    for process in (broker, proxy):
        script = "id -u; id -g; for folder in / /opt /var /usr; do [ -w $folder ] && echo $folder; done; [ -w /tmp ]"
        done = process.run_inside("sh", "-c", script)
        assert (done.returncode, done.stdout.split()) == (0, ["10001", "10001"])


def test_the_lake_has_each_message_once_after_two_runs_of_the_pipeline(
    node: Node, proxy: Running, tmp_path: Path
) -> None:
    """The second goes on where the first ended, by the checkpoint on the claim that both have."""
    sent = set[str]()
    with Producer(proxy.address("grpc"), topics=["orders"]) as producer:
        for run in range(2):
            messages = [Message("orders", b"run %d, order %d" % (run, number)) for number in range(100)]
            sent |= {receipt.message_id for receipt in producer.send_many(messages)}
            job = node.run(pod("lake"))
            assert job.wait(PIPELINE_TIMEOUT_S) == 0, job.logs()
    docker("cp", f"{job.id}:/lake/data", str(tmp_path))
    written = pyarrow.dataset.dataset(tmp_path / "data", partitioning="hive").to_table(columns=["message_id"])
    assert sorted(written["message_id"].to_pylist()) == sorted(sent)


@pytest.mark.parametrize("component", ["proxy", "broker"])
def test_a_process_ends_well_within_its_time(node: Node, proxy: Running, component: str) -> None:
    """A proxy more, and the next shard: what others use goes on."""
    del proxy
    process = ready(node.run(another(pod(component))))
    hook_s = process.spec.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    began = time.monotonic()
    assert process.stop() == 0, process.logs()
    assert time.monotonic() - began + hook_s < process.pod.spec["terminationGracePeriodSeconds"]


def another(first: Pod) -> Pod:
    """A second pod of the same kind, as another replica or another shard's kustomization would make it."""
    if first.component == "proxy":
        return replace(first, name=first.name + "-2")
    workload = copy.deepcopy(first.workload)
    workload["spec"]["serviceName"] = "broker-1"
    return replace(first, name="broker-1-0", labels={**first.labels, "ternmq/shard": "1"}, workload=workload)
