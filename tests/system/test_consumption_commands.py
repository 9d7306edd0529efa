"""Dead letters, offsets and backlogs by the command, on a whole stack."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from ternmq.testing import Stack
from tests.support.command_line import CommandLine

MINUTE = timedelta(minutes=1)
SHORT = timedelta(milliseconds=300)
"""How long a poll waits that may find nothing."""


@pytest.fixture
def stack() -> Iterator[Stack]:
    with Stack() as running:
        yield running


def send(endpoint: str, topic: str, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    with Producer(endpoint, topics=[topic]) as producer:
        for number, body in enumerate(bodies):
            producer.send(Message(topic, body, tag="t", keys=(f"key-{number}",), properties={"colour": "red"}))
    return bodies


def received(endpoint: str, topic: str, group: str, *, ack: bool = True) -> list[bytes]:
    """Everything that the group gets now."""
    found: list[bytes] = []
    with SimpleConsumer(endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer:
        while views := consumer.receive(max_messages=32, invisible_duration=MINUTE):
            found += [view.body for view in views]
            if ack:
                consumer.ack(views)
    return sorted(found)


def give_up(endpoint: str, topic: str, group: str, attempts: int) -> None:
    """Let every message of the topic use up its attempts."""
    with SimpleConsumer(endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer:
        for _ in range(attempts):
            while views := consumer.receive(max_messages=32, invisible_duration=MINUTE):
                for view in views:
                    consumer.change_invisible_duration(view, timedelta(0))


def test_dead_letters_are_listed_exported_and_delivered_again(
    stack: Stack, command: CommandLine, tmp_path: Path
) -> None:
    command("group", "create", "billing", "--max-attempts", "2")
    command("group", "create", "audit")
    bodies = send(stack.endpoint, "orders", 5)
    assert received(stack.endpoint, "orders", "audit") == bodies
    assert command.records("dlq", "list", "billing") == []
    give_up(stack.endpoint, "orders", "billing", 2)

    letters = command.records("dlq", "list", "billing")
    assert sorted(str(letter["origin_topic"]) for letter in letters) == ["orders"] * 5
    assert {letter["attempts"] for letter in letters} == {2}
    assert {letter["reason"] for letter in letters} == {"attempts"}
    exported = tmp_path / "letters.jsonl"
    command("dlq", "export", "billing", str(exported))
    assert sorted(json.loads(line)["body"] for line in exported.read_text().splitlines()) == [
        body.decode() for body in bodies
    ]
    by_key = command.record("dlq", "list", "billing", "--key", "key-3")
    shown = command.record("dlq", "show", "billing", str(by_key["offset"]))
    assert shown["body"] == "3"

    # Back to the group alone, with all attempts; as it was, and not as a dead letter.
    command("dlq", "resend", "billing", "--key", "key-3", "--yes")
    assert received(stack.endpoint, "orders", "audit") == []
    with SimpleConsumer(stack.endpoint, "billing", {"orders": "*"}, await_duration=timedelta(seconds=5)) as consumer:
        (view,) = consumer.receive(max_messages=32, invisible_duration=MINUTE)
        assert (view.body, view.tag, view.keys, view.properties) == (b"3", "t", ("key-3",), {"colour": "red"})
        assert view.delivery_attempt == 1
        consumer.ack(view)
    command("dlq", "resend", "billing", "--all", "--to-topic", "orders", "--yes")
    assert received(stack.endpoint, "orders", "audit") == bodies


def test_a_group_is_shown_moved_and_lets_a_backlog_go(stack: Stack, command: CommandLine) -> None:
    command("topic", "create", "orders", "--queues", "2")
    bodies = send(stack.endpoint, "orders", 10)
    assert received(stack.endpoint, "orders", "billing") == bodies
    shown = command.record("group", "offset", "show", "billing")
    assert shown["total"]["lag"] == 0
    command.records("group", "offset", "reset", "billing", "--topic", "orders", "--to-earliest", "--dry-run")
    assert received(stack.endpoint, "orders", "billing") == []
    command.records("group", "offset", "reset", "billing", "--topic", "orders", "--to-earliest", "--yes")
    shown = command.record("group", "offset", "show", "billing")
    assert shown["total"]["lag"] == 10
    assert received(stack.endpoint, "orders", "billing") == bodies
    command.records("group", "offset", "reset", "billing", "--topic", "orders", "--shift", "-1", "--yes")
    assert len(received(stack.endpoint, "orders", "billing")) == 2
    send(stack.endpoint, "orders", 6)
    command("group", "offset", "skip", "billing", "--topic", "orders", "--yes")
    assert received(stack.endpoint, "orders", "billing") == []


@pytest.mark.parametrize("kind", ["normal", "fifo"])
def test_a_backlog_moves_whole_and_in_order(stack: Stack, command: CommandLine, kind: str) -> None:
    command("topic", "create", "orders", "--queues", "2", "--type", kind)
    fifo = ["--fifo"] if kind == "fifo" else []
    command("group", "create", "billing", *fifo)
    with Producer(stack.endpoint, topics=["orders"]) as producer:
        for number in range(300):
            lane = f"lane-{number % 7}" if fifo else None
            producer.send(Message("orders", b"%d" % number, keys=(f"k{number}",), message_group=lane))
    with SimpleConsumer(stack.endpoint, "billing", {"orders": "*"}, await_duration=SHORT) as consumer:
        views = consumer.receive(max_messages=32, invisible_duration=MINUTE)
        consumer.ack(views)
        before = {view.body for view in views}
    command("backlog", "move", "billing", "--topic", "orders", "--to", "orders-wide", "--queues", "16", "--yes")
    assert received(stack.endpoint, "orders", "billing") == []
    after: list[tuple[str | None, int]] = []
    with SimpleConsumer(stack.endpoint, "billing", {"orders-wide": "*"}, await_duration=SHORT) as consumer:
        while views := consumer.receive(max_messages=32, invisible_duration=MINUTE):
            after += [(view.message_group, int(view.body)) for view in views]
            consumer.ack(views)
    assert {b"%d" % number for _, number in after} == {b"%d" % number for number in range(300)} - before
    assert len(after) == 300 - len(before)
    if fifo:
        for lane in {lane for lane, _ in after}:
            numbers = [number for its, number in after if its == lane]
            assert numbers == sorted(numbers)
