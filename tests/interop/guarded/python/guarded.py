"""Sends, receives and acknowledges as its input says, with TLS and credentials as its environment says; see the README
beside the languages."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from rocketmq import (  # type: ignore[import-untyped]
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)
from rocketmq.v5.exception import ClientException  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

AWAIT_S = 5
INVISIBLE_S = 30
BATCH = 16


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit("usage: guarded.py ENDPOINT TOPIC GROUP")
    program = Program(*sys.argv[1:])
    for line in sys.stdin:
        program.do(*line.split())


class Program:
    """Carries out commands."""

    def __init__(self, endpoint: str, topic: str, group: str) -> None:
        credentials = Credentials(os.environ.get("ACCESS_KEY", ""), os.environ.get("ACCESS_SECRET", ""))
        self._configuration = ClientConfiguration(endpoint, credentials)
        self._tls = os.environ.get("TLS") == "on"
        self._topic, self._group = topic, group

    def do(self, command: str, body: str = "") -> None:
        """Carry out one command and print its outcomes."""
        commands: dict[str, Callable[[], object]] = {
            "producer": self._start_producer,
            "consumer": self._start_consumer,
            "send": partial(self._send, body),
            "receive": self._receive,
        }
        attempt(command, body, commands[command])

    def _start_producer(self) -> None:
        self._producer = Producer(self._configuration, (self._topic,), tls_enable=self._tls)
        self._producer.startup()

    def _start_consumer(self) -> None:
        self._consumer = SimpleConsumer(
            self._configuration,
            self._group,
            {self._topic: FilterExpression()},
            await_duration=AWAIT_S,
            tls_enable=self._tls,
        )
        self._consumer.startup()

    def _send(self, body: str) -> None:
        message = Message()
        message.topic, message.body = self._topic, body.encode()
        self._producer.send(message)

    def _receive(self) -> None:
        for message in self._consumer.receive(BATCH, INVISIBLE_S):
            attempt("ack", message.body.decode(), partial(self._consumer.ack, message))


def attempt(step: str, body: str, action: Callable[[], object]) -> None:
    """Do a step and print its outcome."""
    try:
        action()
    except ClientException as error:
        show(step, body, code=error.code or 0, error=repr(error))
    except Exception as error:  # noqa: BLE001 - which is what the client raises when it has no route
        show(step, body, error=repr(error))
    else:
        show(step, body)


def show(step: str, body: str, *, code: int = 0, error: str = "") -> None:
    line = json.dumps({"step": step, "body": body, "code": int(code), "error": error})
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


if __name__ == "__main__":
    main()
