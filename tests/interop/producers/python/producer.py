"""Sends, ends transactions and recalls as its input says, and prints what happens; see the README of the languages."""

import os
import re
import sys
import threading
from typing import TYPE_CHECKING

import grpc
from rocketmq import (  # type: ignore[import-untyped]
    ClientConfiguration,
    Credentials,
    Message,
    Producer,
    Transaction,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.v5.exception import ClientException  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWERS = {
    "commit": TransactionResolution.COMMIT,
    "rollback": TransactionResolution.ROLLBACK,
    "unknown": TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: producer.py ENDPOINT TOPIC [NAMESPACE]")
    endpoint, topic, *namespace = sys.argv[1:]
    checker = Checker()
    producer = Producer(ClientConfiguration(endpoint, Credentials(), *namespace), (topic,), checker)
    producer.startup()
    program = Program(topic, producer, checker)
    show("ready", topic)
    for line in sys.stdin:
        program.do(*line.split())
    producer.shutdown()


class Checker(TransactionChecker):  # type: ignore[misc]
    """Answers the server's transaction checks."""

    def __init__(self) -> None:
        self.begun: dict[str, Transaction] = {}
        self._asked: set[str] = set()
        self._lock = threading.Lock()

    def check(self, message: Message) -> TransactionResolution:
        body = message.body.decode()
        answer = "rollback" if body.startswith("rollback-") else "commit" if self._commits(body) else "unknown"
        show("checked", body, answer)
        return ANSWERS[answer]

    def _commits(self, body: str) -> bool:
        with self._lock:
            again = body in self._asked
            self._asked.add(body)
        kind = body.partition("-")[0]
        return kind == "commit" or (kind == "later" and again) or (kind == "elsewhere" and body not in self.begun)


class Program:
    """Carries out commands."""

    def __init__(self, topic: str, producer: Producer, checker: Checker) -> None:
        self._topic, self._producer, self._begun = topic, producer, checker.begun
        self._commands: dict[str, Callable[..., tuple[str, ...]]] = {
            "send": self._send,
            "half": self._half,
            "commit": self._commit,
            "rollback": self._rollback,
            "timed": self._timed,
            "recall": self._recall,
        }

    def do(self, command: str, body: str, *rest: str) -> None:
        """Carry out one command and print its outcome."""
        try:
            show(*self._commands[command](body, *rest))
        except (ClientException, grpc.RpcError) as error:
            sys.stderr.write(f"{command} {body}: {error!r}\n")
            sys.stderr.flush()
            show("refused", body, code(error))

    def _send(self, body: str) -> tuple[str, ...]:
        receipt = self._producer.send(self._message(body))
        return "sent", body, receipt.message_id, receipt.recall_handle or "-"

    def _half(self, body: str) -> tuple[str, ...]:
        transaction = self._producer.begin_transaction()
        self._begun[body] = transaction  # before the send: the server may ask before its answer is here
        receipt = self._producer.send(self._message(body), transaction)
        return "sent", body, receipt.message_id, receipt.recall_handle or "-"

    def _commit(self, body: str) -> tuple[str, ...]:
        self._begun[body].commit()
        return "committed", body

    def _rollback(self, body: str) -> tuple[str, ...]:
        self._begun[body].rollback()
        return "rolled-back", body

    def _timed(self, body: str, due_ms: str) -> tuple[str, ...]:
        message = self._message(body)
        message.delivery_timestamp = int(due_ms) // 1000
        receipt = self._producer.send(message)
        return "sent", body, receipt.message_id, receipt.recall_handle or "-"

    def _recall(self, body: str, handle: str) -> tuple[str, ...]:
        return "recalled", body, self._producer.recall_message(self._topic, handle)

    def _message(self, body: str) -> Message:
        message = Message()
        message.topic, message.body = self._topic, body.encode()
        return message


def code(error: Exception) -> str:
    """The status code in the error of a client, whose text begins with it."""
    match = re.match(r"\d{5},", str(error))
    return match[0].rstrip(",") if match else "-"


def show(*words: str) -> None:
    os.write(sys.stdout.fileno(), f"{os.getpid()} {' '.join(words)}\n".encode())


if __name__ == "__main__":
    main()
