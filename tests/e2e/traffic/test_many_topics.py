"""Thousands of topics: made, sent to and received from by one group, over a restart, and listed by page."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from ternmq import Admin, ConnectionEvent, ConnectionState, Message, Producer
from tests.e2e.traffic.server import make_topics
from tests.support.embedded import RawClient, code
from tests.support.stack import Stack

pytestmark = [pytest.mark.slow]

GROUP = "all-topics"
# Above what SQLite has wait for each other without refusing some.
MADE_AT_ONCE, IN_FLIGHT = 200, 16
PATIENCE_S = 100.0


async def for_each(names: Iterable[str], act: Callable[[str], Awaitable[object]], *, at_once: int) -> None:
    room = asyncio.Semaphore(at_once)

    async def acted(name: str) -> None:
        async with room:
            await act(name)

    await asyncio.gather(*map(acted, names))


def listed_by_command(stack: Stack) -> list[str]:
    command = (sys.executable, "-m", "ternmq_command.main", "topic", "list", "--json", "--endpoint", stack.grpc)
    output = subprocess.run(command, check=True, capture_output=True).stdout
    return [topic["name"] for topic in json.loads(output)]


@pytest.mark.parametrize("count", [2000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_each_of_many_topics_keeps_its_message_over_a_restart_and_one_group_gets_all(
    tmp_path: Path, count: int
) -> None:
    names = [f"topic-{number:05}" for number in range(count)]
    later, ready = names[:MADE_AT_ONCE], names[MADE_AT_ONCE:]
    stack = Stack(tmp_path)
    make_topics(stack, ready)
    received, heard = dict[str, list[bytes]](), list[ConnectionEvent]()
    with stack:
        async with Admin(stack.grpc, request_timeout=PATIENCE_S) as admin:
            await for_each(later, lambda name: admin.create_topic(name, "normal", queues=1), at_once=MADE_AT_ONCE)
        async with Producer(stack.grpc, request_timeout=PATIENCE_S, on_connection=heard.append) as producer:
            await for_each(names, lambda name: producer.send(Message(name, name.encode())), at_once=IN_FLIGHT)
        # More topics than settings may name are no reason to lose the session.
        assert [event.state for event in heard] == [ConnectionState.CONNECTED]
        await asyncio.to_thread(stack.restart)
        async with RawClient(stack.grpc) as client:

            async def receive(name: str) -> None:
                got = await client.receive(name, GROUP, timeout_s=PATIENCE_S)
                received[name] = got.bodies
                handles = [message.system_properties.receipt_handle for message in got.messages]
                assert code(await client.ack(name, GROUP, *handles)) == "OK"

            await for_each(names, receive, at_once=IN_FLIGHT)
            again = await client.receive(names[-1], GROUP)
        assert received == {name: [name.encode()] for name in names}
        assert again.code == "MESSAGE_NOT_FOUND"
        async with Admin(stack.grpc, request_timeout=PATIENCE_S) as admin:
            assert [topic.name for topic in await admin.list_topics()] == names
            described = await admin.describe_group(GROUP)
        assert (described.lag, len(described.progress)) == (0, count)
        assert await asyncio.to_thread(listed_by_command, stack) == names
