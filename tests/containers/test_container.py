"""`TernmqContainer`: clients come in by mapped ports, and tests have time and topics in their hands."""

import os
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

import ternmq
from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from ternmq.testing.containers import TernmqContainer
from tests.interop.programs import EXAMPLES, Programs

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

AT_ONCE, SOON = timedelta(0), timedelta(seconds=20)
HOUR = timedelta(hours=1)


def received(broker: TernmqContainer, topic: str, wait: timedelta = SOON) -> list[bytes]:
    with SimpleConsumer(broker.endpoint, "readers", {topic: "*"}, await_duration=wait) as consumer:
        views = consumer.receive()
        consumer.ack(views)
    return [view.body for view in views]


def test_our_client_sends_and_receives(broker: TernmqContainer) -> None:
    topic = broker.create_topic(broker.fresh_name())
    with Producer(broker.endpoint, topics=[topic]) as producer:
        producer.send(Message(topic, b"shoes"))
    assert received(broker, topic) == [b"shoes"]


def test_the_official_python_client_does_its_round(broker: TernmqContainer, tmp_path: Path) -> None:
    """Through the mapped port: the route tells it the address that it came in by."""
    folder = Programs("examples", EXAMPLES).build("python")
    topic, group, count = broker.fresh_name(), broker.fresh_name(), 20
    done = subprocess.run(
        [f"{folder}/venv/bin/python", f"{folder}/example.py", broker.endpoint, topic, group, str(count)],
        env={**os.environ, "HOME": str(tmp_path)},  # the client writes its logs there
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    expected = f"sent {count}\nreceived {count}\nacked {count}\npushed {count}\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr[-3000:]


def test_time_passes_as_a_test_says(image: str) -> None:
    with TernmqContainer(image) as broker:
        broker.create_topic("reminders", type="delay")
        with Producer(broker.endpoint, topics=["reminders"]) as producer:
            producer.send(Message("reminders", b"pay", delivery_timestamp=broker.now() + 2 * HOUR))
        broker.advance(HOUR)
        assert received(broker, "reminders", AT_ONCE) == []
        broker.advance(HOUR)
        assert received(broker, "reminders") == [b"pay"]


def test_settings_reach_the_server(image: str) -> None:
    with TernmqContainer(image, test_clock=False, auto_create=False) as broker:
        with pytest.raises(ternmq.Forbidden):
            broker.advance(1)
        with pytest.raises(ternmq.NotFound), Producer(broker.endpoint, topics=["nobody-made-this"]):
            pass


def test_a_start_that_fails_tells_what_the_server_said(image: str) -> None:
    with pytest.raises(RuntimeError, match="exit code: 2") as caught, TernmqContainer(image, retention_ms="1s"):
        pass
    assert "retention_ms = 1s (from TERNMQ_RETENTION_MS)" in "".join(caught.value.__notes__)
