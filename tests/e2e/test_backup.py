"""A backup of a broker under load, proved by accounting: what was acknowledged before it began is there."""

import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.support.command_line import CommandLine
from tests.support.stack import Stack

pytestmark = pytest.mark.slow

TOPIC, GROUP = "load", "billing"
BODY_BYTES = 4000
BEFORE, ACKNOWLEDGED = 400, 100
SHORT = timedelta(seconds=10)


class Load:
    """Sends in one thread and consumes in another, until it is stopped; notes what the broker said yes to.

    Every second message is received and not acknowledged.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._stopping = threading.Event()
        self.enough = threading.Event()
        self.sent = 0
        self.stored: set[int] = set()
        self.acknowledged: set[int] = set()
        self._producer = Producer(stack.grpc, topics=[TOPIC])
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._consume)]

    def __enter__(self) -> "Load":
        self._producer.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._producer.close()

    def _send(self) -> None:
        while not self._stopping.is_set():
            number = self.sent
            self.sent += 1
            self._producer.send(Message(TOPIC, body_of(number), keys=(f"key-{number}",)))
            self.stored.add(number)
            self._look()

    def _consume(self) -> None:
        with SimpleConsumer(self._stack.grpc, GROUP, {TOPIC: "*"}, await_duration=timedelta(seconds=1)) as consumer:
            while not self._stopping.is_set():
                views = consumer.receive(max_messages=4, invisible_duration=SHORT)
                good = [view for view in views if number_of(view.body) % 2]
                if good:
                    consumer.ack(good)
                    self.acknowledged.update(number_of(view.body) for view in good)
                self._look()

    def _look(self) -> None:
        if len(self.stored) >= BEFORE and len(self.acknowledged) >= ACKNOWLEDGED:
            self.enough.set()


def body_of(number: int) -> bytes:
    return b"%010d" % number + b"x" * BODY_BYTES


def number_of(body: bytes) -> int:
    return int(body[:10])


def run(*arguments: object) -> Result:
    return CommandLine().call(*map(str, arguments))


def received(stack: Stack, group: str, wanted: set[int]) -> set[int]:
    """What the group gets until it has all of that; the test's timeout ends it."""
    found: set[int] = set()
    with SimpleConsumer(stack.grpc, group, {TOPIC: "*"}, await_duration=timedelta(seconds=1)) as consumer:
        while not wanted <= found:
            views = consumer.receive(max_messages=32, invisible_duration=timedelta(minutes=5))
            for view in views:
                number = number_of(view.body)
                assert view.body == body_of(number)
                found.add(number)
            if views:
                consumer.ack(views)
    return found


def test_a_backup_under_load_has_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    backup, second, settings = tmp_path / "backup", tmp_path / "second", tmp_path / "small.toml"
    settings.write_text('segment_bytes = "1MiB"\nbody_bytes_max = "64KiB"\n')
    with Stack(tmp_path / "first", "--config", str(settings)) as stack:
        assert run("topic", "create", TOPIC, "--queues", 4, "--endpoint", stack.grpc).exit_code == 0
        with Load(stack) as load:
            assert load.enough.wait(60)
            beside = run("store", "verify", stack.data_dir)
            stored = set(load.stored)
            made = run("backup", backup, "--data-dir", stack.data_dir, "--verify", "--json")
            acknowledged, sent = set(load.acknowledged), load.sent
            inspected = run("store", "inspect", stack.data_dir, "--json")
        assert run("store", "repair", stack.data_dir, "--yes").exit_code == 1, "a broker has it"
    assert beside.exit_code == 0, beside.stdout + beside.stderr
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout)["sound"]
    assert json.loads(inspected.stdout)["in_use"]
    restored = run("restore", backup, "--data-dir", second / "data")
    assert restored.exit_code == 0, restored.stderr
    exported = run("store", "export", second / "data", "--topic", TOPIC)
    held = {number_of(json.loads(line)["body"].encode()) for line in exported.stdout.splitlines()}
    assert stored <= held <= set(range(sent))
    with Stack(second) as again:
        assert received(again, "audit", held) == held
        unsettled = held - acknowledged
        assert unsettled
        told = received(again, GROUP, unsettled)
        assert unsettled <= told <= held
    assert run("store", "verify", second / "data").exit_code == 0
