"""TernMQ as the server of a test, with what the tests of official clients ask of it beside that."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import Clients
from tests.interop.processes import DEADLINE_S
from tests.support.embedded import RawClient, code
from tests.support.stack import Stack

MAX_ATTEMPTS = 3
STEPS = "customized:1s"
CURVE = "exponential:1s,4s,2"


class Server(Clients):
    """A running stack: `async with Server(stack, home) as server`.

    `client` is for what has no method here; `start` makes a new one.
    """

    client: RawClient

    def __init__(self, stack: Stack, home: Path) -> None:
        super().__init__(stack.grpc, home)
        self._stack = stack

    async def __aenter__(self) -> Self:
        self.client = RawClient(self.endpoint)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.channel.close()

    async def kill9(self) -> None:
        """End the server as a crash does."""
        await self.client.channel.close()
        self._stack.kill9()

    async def start(self) -> None:
        """Start the server again, on the same data and ports."""
        self._stack.start()
        self.client = RawClient(self.endpoint)

    async def create_group(self, name: str, *, fifo: bool = False, retry_backoff: str = STEPS) -> str:
        group = admin_pb2.Group(name=name, fifo=fifo, max_attempts=MAX_ATTEMPTS, retry_backoff=retry_backoff)
        answer = await self.client.admin("CreateGroup", group=group)
        assert code(answer) == "OK", answer.status.message
        return name

    async def send(self, messages: Sequence[pb.Message]) -> None:
        """Send the messages one by one: those of one call would share a queue."""
        for each in messages:
            answer = await self.client.call("SendMessage", messages=[each])
            assert code(answer) == "OK", answer.status.message

    async def finished(self, group: str) -> None:
        """Return when all messages are acknowledged, filtered out or dead letters of the group."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                answer = await self.client.admin("DescribeGroup", name=group)
                assert code(answer) == "OK", answer.status.message
                assert answer.progress, f"{group} was nowhere yet"
                if all(queue.committed == queue.max_offset and not queue.in_flight for queue in answer.progress):
                    return

    async def queues_in_use(self, topic: str) -> int:
        """How many of a topic's queues have messages."""
        answer = await self.client.admin("DescribeTopic", name=topic)
        assert code(answer) == "OK", answer.status.message
        return sum(queue.max_offset > 0 for queue in answer.queues)

    async def dead_letters(self, group: str) -> list[pb.Message]:
        """All dead letters of a group that has finished."""
        return (await self.client.receive(f"%DLQ%{group}", f"letters-of-{group}")).messages

    async def messages(self, topic: str) -> list[pb.Message]:
        """What a topic of one queue holds, in order: up to 32 messages."""
        received = await self.client.receive(topic, f"reader-{next(self._numbers)}-of-{topic}")
        assert received.code in ("OK", "MESSAGE_NOT_FOUND"), received.status
        return received.messages

    async def transactions(self, topic: str, state: "admin_pb2.TransactionState") -> list[admin_pb2.Transaction]:
        """The topic's transactions that are pending or discarded."""
        answer = await self.client.admin("ListTransactions", topic=topic, state=state, limit=100)
        assert code(answer) == "OK", answer.status.message
        return list(answer.transactions)

    async def settled(self, topic: str) -> None:
        """Return when no transaction of the topic is pending."""
        async with asyncio.timeout(DEADLINE_S):
            while await self.transactions(topic, admin_pb2.PENDING):
                pass
