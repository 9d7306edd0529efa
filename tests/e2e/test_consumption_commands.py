"""Dead letters, offsets and backlogs by the command, against a real `ternmq up`."""

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.e2e.test_command import COMMAND, environment
from tests.support.stack import Stack

pytestmark = pytest.mark.slow

Call = Callable[..., list[dict[str, Any]]]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path) as running:
        yield running


@pytest.fixture
def call(stack: Stack) -> Call:
    """Run a command that must succeed; what it prints as JSON, one object a line or one in all."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=environment(TERNMQ_ENDPOINT=stack.grpc),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
        if "--json" not in arguments:
            return []
        try:
            whole = json.loads(done.stdout)
        except json.JSONDecodeError:
            return [json.loads(line) for line in done.stdout.splitlines()]
        return whole if isinstance(whole, list) else [whole]

    return run


def send(stack: Stack, topic: str, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    with Producer(stack.grpc, topics=[topic]) as producer:
        for number, body in enumerate(bodies):
            producer.send(Message(topic, body, tag="t", keys=(f"key-{number}",), properties={"colour": "red"}))
    return bodies


def received(stack: Stack, topic: str, group: str, *, ack: bool = True) -> list[bytes]:
    """Everything that the group gets now."""
    found: list[bytes] = []
    with SimpleConsumer(stack.grpc, group, {topic: "*"}, await_duration=timedelta(seconds=1)) as consumer:
        while views := consumer.receive(max_messages=32, invisible_duration=MINUTE):
            found += [view.body for view in views]
            if ack:
                consumer.ack(views)
    return sorted(found)


def give_up(stack: Stack, topic: str, group: str, attempts: int) -> None:
    """Let every message of the topic use up its attempts."""
    with SimpleConsumer(stack.grpc, group, {topic: "*"}, await_duration=timedelta(seconds=1)) as consumer:
        for _ in range(attempts):
            while views := consumer.receive(max_messages=32, invisible_duration=MINUTE):
                for view in views:
                    consumer.change_invisible_duration(view, timedelta(0))


def test_dead_letters_are_listed_exported_and_delivered_again(stack: Stack, call: Call, tmp_path: Path) -> None:
    call("group", "create", "billing", "--max-attempts", "2")
    call("group", "create", "audit")
    bodies = send(stack, "orders", 5)
    assert received(stack, "orders", "audit") == bodies
    assert call("dlq", "list", "billing", "--json") == []
    give_up(stack, "orders", "billing", 2)

    letters = call("dlq", "list", "billing", "--json")
    assert sorted(str(letter["origin_topic"]) for letter in letters) == ["orders"] * 5
    assert {letter["attempts"] for letter in letters} == {2}
    assert {letter["reason"] for letter in letters} == {"attempts"}
    exported = tmp_path / "letters.jsonl"
    call("dlq", "export", "billing", str(exported))
    assert sorted(json.loads(line)["body"] for line in exported.read_text().splitlines()) == [
        body.decode() for body in bodies
    ]
    (by_key,) = call("dlq", "list", "billing", "--key", "key-3", "--json")
    (shown,) = call("dlq", "show", "billing", str(by_key["offset"]), "--json")
    assert shown["body"] == "3"

    # Back to the group alone, with all attempts; as it was, and not as a dead letter.
    call("dlq", "resend", "billing", "--key", "key-3", "--yes")
    assert received(stack, "orders", "audit") == []
    with SimpleConsumer(stack.grpc, "billing", {"orders": "*"}, await_duration=timedelta(seconds=5)) as consumer:
        (view,) = consumer.receive(max_messages=32, invisible_duration=MINUTE)
        assert (view.body, view.tag, view.keys, view.properties) == (b"3", "t", ("key-3",), {"colour": "red"})
        assert view.delivery_attempt == 1
        consumer.ack(view)
    call("dlq", "resend", "billing", "--all", "--to-topic", "orders", "--yes")
    assert received(stack, "orders", "audit") == bodies


def test_a_group_is_shown_moved_and_lets_a_backlog_go(stack: Stack, call: Call) -> None:
    call("topic", "create", "orders", "--queues", "2")
    bodies = send(stack, "orders", 10)
    assert received(stack, "orders", "billing") == bodies
    (shown,) = call("group", "offset", "show", "billing", "--json")
    assert shown["total"]["lag"] == 0
    call("group", "offset", "reset", "billing", "--topic", "orders", "--to-earliest", "--dry-run", "--json")
    assert received(stack, "orders", "billing") == []
    call("group", "offset", "reset", "billing", "--topic", "orders", "--to-earliest", "--yes", "--json")
    (shown,) = call("group", "offset", "show", "billing", "--json")
    assert shown["total"]["lag"] == 10
    assert received(stack, "orders", "billing") == bodies
    call("group", "offset", "reset", "billing", "--topic", "orders", "--shift", "-1", "--yes", "--json")
    assert len(received(stack, "orders", "billing")) == 2
    send(stack, "orders", 6)
    call("group", "offset", "skip", "billing", "--topic", "orders", "--yes")
    assert received(stack, "orders", "billing") == []


@pytest.mark.parametrize("kind", ["normal", "fifo"])
def test_a_backlog_moves_whole_and_in_order(stack: Stack, call: Call, kind: str) -> None:
    call("topic", "create", "orders", "--queues", "2", "--type", kind)
    fifo = ["--fifo"] if kind == "fifo" else []
    call("group", "create", "billing", *fifo)
    with Producer(stack.grpc, topics=["orders"]) as producer:
        for number in range(300):
            lane = f"lane-{number % 7}" if fifo else None
            producer.send(Message("orders", b"%d" % number, keys=(f"k{number}",), message_group=lane))
    with SimpleConsumer(stack.grpc, "billing", {"orders": "*"}, await_duration=timedelta(seconds=1)) as consumer:
        views = consumer.receive(max_messages=32, invisible_duration=MINUTE)
        consumer.ack(views)
        before = {view.body for view in views}
    call("backlog", "move", "billing", "--topic", "orders", "--to", "orders-wide", "--queues", "16", "--yes")
    assert received(stack, "orders", "billing") == []
    after: list[tuple[str | None, int]] = []
    with SimpleConsumer(stack.grpc, "billing", {"orders-wide": "*"}, await_duration=timedelta(seconds=1)) as consumer:
        while views := consumer.receive(max_messages=32, invisible_duration=MINUTE):
            after += [(view.message_group, int(view.body)) for view in views]
            consumer.ack(views)
    assert {b"%d" % number for _, number in after} == {b"%d" % number for number in range(300)} - before
    assert len(after) == 300 - len(before)
    if fifo:
        for lane in {lane for lane, _ in after}:
            numbers = [number for its, number in after if its == lane]
            assert numbers == sorted(numbers)
