"""The image as an operator has it: who runs in it, where the data is, how it is healthy and how it ends."""

import json
import subprocess
import urllib.request
from datetime import timedelta

import pytest

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from ternmq.testing.containers import TernmqContainer

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

POLL = timedelta(seconds=10)


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_nobody_in_it_is_root(broker: TernmqContainer) -> None:
    container = broker.get_container_id()
    assert docker("exec", container, "id", "--user") == "10001"
    assert docker("exec", container, "stat", "--format=%u", "/proc/1") == "10001"


def test_it_gets_healthy(broker: TernmqContainer) -> None:
    """By the check that is part of the image, run as the engine runs it."""
    container = broker.get_container_id()
    health = json.loads(docker("inspect", "--format", "{{json .Config.Healthcheck.Test}}", container))
    assert health[0] == "CMD"
    docker("exec", container, *health[1:])
    with urllib.request.urlopen(f"http://{broker.http}/health/ready") as answer:
        assert json.load(answer)["status"] == "ready"


def test_it_ends_in_order_at_sigterm_and_its_volume_keeps_the_data(image: str) -> None:
    volume = docker("volume", "create")
    try:
        with TernmqContainer(image).with_volume_mapping(volume, "/var/lib/ternmq", "rw") as broker:
            with Producer(broker.endpoint, topics=["kept"]) as producer:
                producer.send(Message("kept", b"safe"))
            container = broker.get_wrapped_container()
            container.kill(signal="SIGTERM")
            assert container.wait(timeout=20)["StatusCode"] == 0
            assert b"stopping" in container.logs(stdout=False)
        with TernmqContainer(image).with_volume_mapping(volume, "/var/lib/ternmq", "rw") as broker:
            assert received(broker.endpoint, "kept") == [b"safe"]
    finally:
        docker("volume", "rm", volume)


def test_it_is_the_command_too(image: str) -> None:
    assert docker("run", "--rm", image, "version").startswith("ternmq ")
    settings = json.loads(docker("run", "--rm", "--env", "TERNMQ_RETENTION_MS=2d", image, "config", "--json"))
    assert "TERNMQ_RETENTION_MS" in json.dumps(settings)


def received(endpoint: str, topic: str) -> list[bytes]:
    with SimpleConsumer(endpoint, "readers", {topic: "*"}, await_duration=POLL) as consumer:
        return [view.body for view in consumer.receive()]
