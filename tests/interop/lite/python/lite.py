"""Subscribes lite topics and sends to them as its input says, handles messages as their bodies say, and prints what
happens; see the README beside the languages."""

import os
import sys
import threading
import time
from collections import Counter

from rocketmq import (  # type: ignore[import-untyped]
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    LitePushConsumer,
    LiteSimpleConsumer,
    Message,
    MessageListener,
    Producer,
)
from rocketmq.v5.exception import LiteSubscriptionQuotaExceededException  # type: ignore[import-untyped]

AWAIT_S = 5
INVISIBLE_S = 10
AGAIN_S = 1
SETTINGS_S = 10
LOOK_S = 0.05
BATCH = 32


def main() -> None:
    if len(sys.argv) != 5 or sys.argv[2] not in ("push", "simple"):
        sys.exit("usage: lite.py ENDPOINT push|simple TOPIC GROUP")
    endpoint, kind, topic, group = sys.argv[1:]
    configuration, handler = ClientConfiguration(endpoint, Credentials()), Handler()
    if kind == "push":
        consumer = LitePushConsumer(configuration, group, topic, Listener(handler))
        consumer.startup()
    else:
        consumer = LiteSimpleConsumer(topic, configuration, group, await_duration=AWAIT_S)
        consumer.startup()
        threading.Thread(target=receive, args=(consumer, handler), name="receive", daemon=True).start()
    program = Program(configuration, topic, consumer)
    show("ready")
    for line in sys.stdin:
        command, *words = line.rstrip("\n").split("\t")
        if command == "release":
            handler.released.set()
        else:
            program.do(command, words)
    os._exit(0)


class Program:
    """Carries out commands."""

    def __init__(
        self, configuration: ClientConfiguration, topic: str, consumer: LitePushConsumer | LiteSimpleConsumer
    ) -> None:
        self._configuration, self._topic, self._consumer = configuration, topic, consumer
        self._producer: Producer | None = None

    def do(self, command: str, words: list[str]) -> None:
        """Carry out one and print its outcome."""
        commands = {
            "subscribe": self._subscribe,
            "unsubscribe": self._consumer.unsubscribe_lite,
            "all": self._consumer.subscribe_lite_all,
            "send": self._send,
        }
        try:
            commands[command](*words)
        except Exception as error:  # noqa: BLE001 (the test says which one it must be)
            print(command, words, repr(error), file=sys.stderr)
            show("refused", command, type(error).__name__, str(int(getattr(error, "code", None) or 0) or "-"))
        else:
            show("done", command)

    def _subscribe(self, *names: str) -> None:
        """The client does not wait for its settings, and takes its quota for 0 until they have come."""
        end_s = time.monotonic() + SETTINGS_S
        while True:
            try:
                self._consumer.subscribe_lite(*names)
            except LiteSubscriptionQuotaExceededException as error:
                if "quota: 0 " not in str(error) or time.monotonic() > end_s:
                    raise
                time.sleep(LOOK_S)
            else:
                return

    def _send(self, lite_topic: str, body: str) -> None:
        if self._producer is None:
            self._producer = Producer(self._configuration, (self._topic,))
            self._producer.startup()
        message = Message()
        message.topic, message.lite_topic, message.body = self._topic, lite_topic, body.encode()
        self._producer.send(message)


def receive(consumer: LiteSimpleConsumer, handler: "Handler") -> None:
    while True:
        for message in consumer.receive(BATCH, INVISIBLE_S):
            outcome = handler.handle(message)
            if outcome == "ok":
                consumer.ack(message)
            elif outcome == "failed":
                consumer.change_invisible_duration(message, AGAIN_S)
            show(outcome, message.lite_topic, message.body.decode())


class Handler:
    """Does with a message what its body says."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self._deliveries: Counter[str] = Counter()
        self._lock = threading.Lock()

    def handle(self, message: Message) -> str:
        body = message.body.decode()
        show("got", message.lite_topic, body, str(message.delivery_attempt))
        with self._lock:
            self._deliveries[body] += 1
            delivery = self._deliveries[body]
        if "-held-" in body:
            self.released.wait()
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
        show(outcome, message.lite_topic, message.body.decode())
        return ConsumeResult.SUCCESS if outcome == "ok" else ConsumeResult.FAILURE


def show(*words: str) -> None:
    text = "\t".join((str(os.getpid()), *words))
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


if __name__ == "__main__":
    main()
