"""A server under test, with what the tests of official consumers ask of it beside consuming."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.interop.consumers.running import DEADLINE_S, Consumers
from tests.interop.programs import Programs
from tests.support.embedded import RawClient, code

COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "go": lambda folder, home: [f"{folder}/program"],
    "java": lambda folder, home: [
        # Java takes the home folder from the user database, not from the environment.
        *("java", f"-Duser.home={home}", "-XX:TieredStopAtLevel=1"),
        *("-cp", f"{folder}/target/example.jar:{folder}/target/lib/*", "consumer.Consumer"),
    ],
    "node": lambda folder, home: ["node", f"{folder}/consumer.mjs"],
    "python": lambda folder, home: [f"{folder}/venv/bin/python", f"{folder}/consumer.py"],
}
MAX_ATTEMPTS = 3
STEPS = "customized:1s"
CURVE = "exponential:1s,4s,2"


class Server:
    """A running server: `client` is for what has no method here."""

    def __init__(self, endpoint: str, client: RawClient, programs: Programs, home: Path) -> None:
        self.client = client
        self._endpoint, self._programs, self._home = endpoint, programs, home

    def consumers(self, *languages: str, kind: str, topic: str, group: str, passing: str = "tag:*") -> Consumers:
        """A program for each of these languages, to be started with `async with`."""
        home = self._home / group
        commands = [COMMANDS[language](self._programs.build(language), home) for language in languages]
        return Consumers([[*command, self._endpoint, kind, topic, group, passing] for command in commands], home)

    async def create_group(self, name: str, *, fifo: bool = False, retry_backoff: str = STEPS) -> str:
        group = admin_pb2.Group(name=name, fifo=fifo, max_attempts=MAX_ATTEMPTS, retry_backoff=retry_backoff)
        answer = await self.client.admin("CreateGroup", admin_pb2.CreateGroupRequest(group=group))
        assert code(answer) == "OK", answer.status.message
        return name

    async def send(self, messages: Sequence[pb.Message]) -> None:
        """Send the messages one by one: those of one call would share a queue."""
        for each in messages:
            answer = await self.client.call("SendMessage", rpc.SendMessageRequest(messages=[each]))
            assert code(answer) == "OK", answer.status.message

    async def finished(self, group: str) -> None:
        """Return when all messages are acknowledged, filtered out or dead letters of the group."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                answer = await self.client.admin("DescribeGroup", admin_pb2.DescribeGroupRequest(name=group))
                assert code(answer) == "OK", answer.status.message
                assert answer.progress, f"{group} was nowhere yet"
                if all(queue.committed == queue.max_offset and not queue.in_flight for queue in answer.progress):
                    return

    async def queues_in_use(self, topic: str) -> int:
        """How many of a topic's queues have messages."""
        answer = await self.client.admin("DescribeTopic", admin_pb2.DescribeTopicRequest(name=topic))
        assert code(answer) == "OK", answer.status.message
        return sum(queue.max_offset > 0 for queue in answer.queues)

    async def dead_letters(self, group: str) -> list[pb.Message]:
        """All dead letters of a group that has finished."""
        return (await self.client.receive(f"%DLQ%{group}", f"letters-of-{group}")).messages
