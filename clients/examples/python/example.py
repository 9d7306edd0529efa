"""Sends messages, receives and acks them with a simple consumer, then has more of them pushed to a listener."""

from __future__ import annotations

import os
import queue
import sys
import threading

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)

DEADLINE_S = 60
AWAIT_S = 5
INVISIBLE_S = 30
BATCH = 32


def main() -> None:
    if len(sys.argv) != 5:
        sys.exit("usage: example.py ENDPOINT TOPIC GROUP COUNT")
    endpoint, topic, group, count = *sys.argv[1:4], int(sys.argv[4])
    end_at_deadline()
    configuration = ClientConfiguration(endpoint, Credentials())
    producer = Producer(configuration, (topic,))
    producer.startup()
    # Started before the sends: its startup does not wait until the server knows the consumer, and Apache RocketMQ
    # answers a receive that comes earlier with an error.
    consumer = SimpleConsumer(configuration, group, {topic: FilterExpression()}, await_duration=AWAIT_S)
    consumer.startup()
    sent = send(producer, topic, count)
    received = receive(consumer, sent)
    consumer.shutdown()
    pushed = push(configuration, topic, f"{group}-push", producer, count)
    producer.shutdown()
    sys.stdout.write(f"sent {len(sent)}\nreceived {received}\nacked {received}\npushed {pushed}\n")


def send(producer: Producer, topic: str, count: int) -> set[str]:
    return {producer.send(example_message(topic, n)).message_id for n in range(1, count + 1)}


def example_message(topic: str, n: int) -> Message:
    message = Message()
    message.topic = topic
    message.tag = "example"
    message.keys = f"python-{n}"
    message.add_property("n", str(n))
    message.body = f"hello {n} from python".encode()
    return message


def receive(consumer: SimpleConsumer, ids: set[str]) -> int:
    """Receive and ack until all of `ids` were there; return how many that were."""
    missing = set(ids)
    while missing:
        for message in consumer.receive(BATCH, INVISIBLE_S):
            consumer.ack(message)
            missing.discard(message.message_id)
    return len(ids)


def push(configuration: ClientConfiguration, topic: str, group: str, producer: Producer, count: int) -> int:
    """Send once more and wait until the listener had all of these messages."""
    pushed: queue.SimpleQueue[str] = queue.SimpleQueue()
    consumer = PushConsumer(configuration, group, Listener(pushed), {topic: FilterExpression()})
    consumer.startup()
    ids = send(producer, topic, count)
    missing = set(ids)
    while missing:
        missing.discard(pushed.get())
    consumer.shutdown()
    return len(ids)


class Listener(MessageListener):
    """Hands the ids of its messages to the main thread."""

    def __init__(self, pushed: queue.SimpleQueue[str]) -> None:
        self._pushed = pushed

    def consume(self, message: Message) -> ConsumeResult:
        self._pushed.put(message.message_id)
        return ConsumeResult.SUCCESS


def end_at_deadline() -> None:
    def end() -> None:
        sys.stderr.write(f"not done within {DEADLINE_S} s\n")
        sys.stderr.flush()
        os._exit(1)

    timer = threading.Timer(DEADLINE_S, end)
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
