"""The process dies while lite topics are written and read: what was acknowledged is read, in order, with no gap, and
nothing that was finished a while before the death comes again."""

import asyncio
import random
import time
from collections import defaultdict
from pathlib import Path

import grpc.aio
import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, code, message
from tests.support.lite import LiteReader, make_lite_group, make_lite_topic
from tests.support.stack import Stack

pytestmark = [pytest.mark.slow]

NAMES = [f"n{number}" for number in range(30)]
EACH = 40
ROUNDS = 4
READERS = 3
# The journal is written every second; a busy machine gets some more before it counts as broken.
JOURNALLED_AFTER_S = 5.0
CALL_S = 5.0


class Account:
    """What was read of each lite topic, first deliveries only, and when what was acknowledged."""

    def __init__(self) -> None:
        self.read: defaultdict[str, list[int]] = defaultdict(list)
        # By message id, as a number may have been sent twice: when the call began and when it was answered.
        self.acknowledged: dict[str, tuple[float, float]] = {}
        self.died_s: list[float] = []
        self.progress = asyncio.Event()

    def came(self, properties: pb.SystemProperties, number: int) -> None:
        name = properties.lite_topic
        known = self.read[name]
        assert number <= len(known), f"{name} goes on with {number} after {known[-3:]}"
        if number == len(known):
            known.append(number)
        if properties.message_id in self.acknowledged:
            began_s, answered_s = self.acknowledged[properties.message_id]
            # An answer may be read after the process that sent it has died.
            died_s = next((died_s for died_s in self.died_s if died_s > began_s), None)
            assert died_s is not None, f"{number} of {name} comes again though nothing has happened"
            assert died_s - answered_s < JOURNALLED_AFTER_S, f"{number} of {name} was finished long before"
        self.progress.set()

    @property
    def is_done(self) -> bool:
        return all(len(self.read[name]) == EACH for name in NAMES)

    async def has_read(self, count: int) -> None:
        while sum(map(len, self.read.values())) < count:
            self.progress.clear()
            await self.progress.wait()


async def write(client: RawClient, topic: str, name: str) -> None:
    """Each number until it is acknowledged: then, and not before, the next one."""
    number = 0
    while number < EACH:
        sent = message(topic, b"%d" % number, lite_topic=name)
        try:
            answer = await client.call("SendMessage", rpc.SendMessageRequest(messages=[sent]), timeout_s=CALL_S)
        except grpc.aio.AioRpcError:
            await asyncio.sleep(0.05)
            continue
        if code(answer) == "OK":
            number += 1


async def read(reader: LiteReader, account: Account) -> None:
    """Through deaths, until cancelled; as a client does, it says what it subscribes when it is there again."""
    while True:
        try:
            assert code(await reader.sync(pb.COMPLETE_ADD, *NAMES)) == "OK"
            while True:
                received = await reader.receive(poll_s=1.0, batch_size=16, invisible_s=10)
                for each in received.messages:
                    account.came(each.system_properties, int(each.body))
                began_s = time.monotonic()
                outcomes = await reader.ack(received.messages)
                answered_s = time.monotonic()
                for each, outcome in zip(received.messages, outcomes, strict=True):
                    if outcome == "OK":
                        account.acknowledged.setdefault(each.system_properties.message_id, (began_s, answered_s))
        except grpc.aio.AioRpcError:
            await asyncio.sleep(0.05)


async def test_lite_topics_outlive_the_death_of_the_process(tmp_path: Path) -> None:
    account = Account()
    with Stack(tmp_path) as stack:
        async with RawClient(stack.grpc) as first:
            topic = await make_lite_topic(first)
            group = await make_lite_group(first, topic)
            clients = [RawClient(stack.grpc) for _ in range(READERS)]
            async with asyncio.TaskGroup() as tasks:
                readers = [tasks.create_task(read(LiteReader(each, topic, group), account)) for each in clients]
                for name in NAMES:
                    tasks.create_task(write(first, topic, name))
                total = EACH * len(NAMES)
                for number in range(ROUNDS):
                    await account.has_read(total * (number + 1) // (ROUNDS + 1) + random.Random(number).randint(0, 50))
                    await asyncio.to_thread(stack.kill9)
                    account.died_s.append(time.monotonic())
                    await asyncio.to_thread(stack.start)
                await account.has_read(total)
                for reader in readers:
                    reader.cancel()
            for each in clients:
                await each.channel.close()
    assert account.is_done
