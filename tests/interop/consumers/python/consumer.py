"""Consumes as the bodies of the messages say, and prints what happens; see the README beside the languages."""

import os
import sys
import threading
import time
from collections import Counter

from rocketmq import (  # type: ignore[import-untyped]
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    PushConsumer,
    SimpleConsumer,
)
from rocketmq.grpc_protocol import FilterType  # type: ignore[import-untyped]

AWAIT_S = 5
INVISIBLE_S = 10
AGAIN_S = 1
BATCH = 32


def main() -> None:
    if len(sys.argv) not in (6, 7):
        sys.exit("usage: consumer.py ENDPOINT KIND TOPIC GROUP FILTER [NAMESPACE]")
    endpoint, kind, topic, group, text, *namespace = sys.argv[1:]
    configuration = ClientConfiguration(endpoint, Credentials(), *namespace)
    subscription = {topic: expression(text)}
    handler = Handler()
    watcher = threading.Thread(target=handler.watch_input, name="input", daemon=True)
    watcher.start()
    if kind == "simple":
        consumer = SimpleConsumer(configuration, group, subscription, await_duration=AWAIT_S)
        consumer.startup()
        receive(consumer, handler)
    else:
        PushConsumer(configuration, group, Listener(handler), subscription).startup()
        watcher.join()  # the client's threads take no more work once this one has ended


def expression(text: str) -> FilterExpression:
    language, _, rest = text.partition(":")
    return FilterExpression(rest, FilterType.SQL if language == "sql" else FilterType.TAG)


def receive(consumer: SimpleConsumer, handler: "Handler") -> None:
    while True:
        for message in consumer.receive(BATCH, INVISIBLE_S):
            outcome = handler.handle(message)
            if outcome == "ok":
                consumer.ack(message)
            elif outcome == "failed":
                consumer.change_invisible_duration(message, AGAIN_S)
            show(outcome, message.body.decode())


class Handler:
    """Does with a message what its body says."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._deliveries: Counter[str] = Counter()
        self._lock = threading.Lock()

    def watch_input(self) -> None:
        """A line lets the held handlers go on; the end of the input ends the program."""
        for _ in sys.stdin:
            self._released.set()
        os._exit(0)

    def handle(self, message: Message) -> str:
        body = message.body.decode()
        group, pairs = message.message_group or "-", sorted(message.properties.items())
        properties = ",".join(f"{key}={value}" for key, value in pairs) or "-"
        due, clock = str(message.delivery_timestamp or "-"), str(int(time.time() * 1000))
        show("got", body, str(message.delivery_attempt), message.tag or "-", group, properties, due, clock)
        with self._lock:
            self._deliveries[body] += 1
            delivery = self._deliveries[body]
        if "-held-" in body:
            self._released.wait()
        kind, *rest = body.split("-")
        if kind == "forget" and delivery == 1:
            return "forgot"
        return "failed" if kind == "poison" or (kind == "fail" and delivery <= int(rest[0])) else "ok"


class Listener(MessageListener):  # type: ignore[misc]
    """Hands its messages to the handler."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def consume(self, message: Message) -> ConsumeResult:
        outcome = self._handler.handle(message)
        show(outcome, message.body.decode())
        return ConsumeResult.SUCCESS if outcome == "ok" else ConsumeResult.FAILURE


def show(*words: str) -> None:
    os.write(sys.stdout.fileno(), f"{os.getpid()} {' '.join(words)}\n".encode())


if __name__ == "__main__":
    main()
