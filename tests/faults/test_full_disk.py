"""A disk that is really full, and heals by retention alone: nothing that was acknowledged is lost.

Each round fills the disk to its last byte behind the server's back. Sends are refused and readiness says why, while
what is stored is consumed, also by a group that nobody knew; then time passes, retention removes what has expired, and
sends work again. In another test the server is stopped and started on the full disk, with timers that wait.
"""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import RawClient, message, moment
from tests.support.full_disk import Ballast, free_bytes, small_disk
from tests.support.stack import Stack
from tests.support.until import until_answered

pytestmark = [pytest.mark.slow]

MIB = 1 << 20
DISK_BYTES = 64 * MIB
BODY_BYTES = 64 << 10
MESSAGES = 160
TIMERS = 20
ROUNDS = 10
RECOVERY_S = 5.0
ORDERS, LATER = "orders", "later"
GROUP = "billing"
TIMERS_WAIT_MS = 2 * 3_600_000
# Longer than a message is kept.
PASSES_S = 62.0
SETTINGS = """
test_clock = true
segment_bytes = "1MiB"
retention_ms = "1m"
body_bytes_max = "256KiB"
"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS)
    server = Stack(tmp_path / "stack", "--config", str(settings))
    with small_disk(server.data_dir, DISK_BYTES), server:
        yield server


class Account:
    """What was acknowledged: bodies in the order of their numbers, and how often each was received."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.sent: set[bytes] = set()
        self.timed: set[bytes] = set()
        self.received: Counter[bytes] = Counter()

    async def send(self, count: int) -> None:
        for number in range(len(self.sent), len(self.sent) + count):
            body = b"%d." % number
            await self.client.send(ORDERS, body.ljust(BODY_BYTES, b"-"))
            self.sent.add(body)

    async def schedule(self, count: int) -> None:
        due_ms = await self.client.server_ms() + TIMERS_WAIT_MS
        for number in range(len(self.timed), len(self.timed) + count):
            body = b"later %d" % number
            timer = message(LATER, body, delivery_timestamp=moment(due_ms), message_type=pb.DELAY)
            answer = await self.client.call("SendMessage", messages=[timer])
            assert answer.status.code == pb.OK, answer.status.message
            self.timed.add(body)

    async def send_code(self) -> str:
        """What a producer hears now; a message that was taken counts."""
        body = b"%d." % len(self.sent)
        one = message(ORDERS, body.ljust(BODY_BYTES, b"-"))
        answer = await self.client.call("SendMessage", messages=[one])
        if answer.status.code == pb.OK:
            self.sent.add(body)
        return pb.Code.Name(answer.status.code)

    async def consume(self, count: int, group: str = GROUP) -> None:
        """Receive and acknowledge so many messages."""
        taken = 0
        while taken < count:
            batch = min(32, count - taken)
            got = await self.client.receive(ORDERS, group, poll_s=5.0, batch_size=batch)
            assert got.messages, f"{group} got {taken} of {count} messages, then {got.code}"
            handles = [each.system_properties.receipt_handle for each in got.messages]
            assert (await self.client.ack(ORDERS, group, *handles)).status.code == pb.OK
            taken += len(handles)
            if group == GROUP:
                self.received.update(body.partition(b".")[0] + b"." for body in got.bodies)


async def readiness(stack: Stack) -> tuple[int, str]:
    """The status of /health/ready, and what it says."""

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{stack.http}/health/ready", timeout=5) as answer:
                return answer.status, json.load(answer)["status"]
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)["status"]

    return await asyncio.to_thread(ask)


async def is_ready(stack: Stack) -> bool:
    return (await readiness(stack))[0] == 200


async def until_ready(stack: Stack, *, ready: bool) -> None:
    async with asyncio.timeout(RECOVERY_S):
        await until_answered(lambda: is_ready(stack), ready)


async def fill(stack: Stack, ballast: Ballast) -> None:
    """Take all that is free, and what the server gives back of its reserve, until it has none."""
    ballast.fill()
    await until_ready(stack, ready=False)
    ballast.fill()
    assert free_bytes(stack.data_dir) == 0


async def test_a_full_disk_heals_ten_times_by_retention_alone(stack: Stack) -> None:
    ballast = Ballast(stack.data_dir)
    took_s: list[float] = []
    async with RawClient(stack.grpc) as client:
        await client.create_topic(LATER, kind=pb.DELAY)
        account = Account(client)
        for number in range(ROUNDS):
            await account.send(MESSAGES)
            await account.schedule(TIMERS)
            await account.consume(MESSAGES // 2)
            await fill(stack, ballast)
            status, why = await readiness(stack)
            assert status == 503
            assert "disk_free_min_bytes" in why
            assert await account.send_code() == "INTERNAL_SERVER_ERROR"
            await account.consume(len(account.sent) - account.received.total())
            await account.consume(MESSAGES // 2, await new_group(client, f"newcomer-{number}"))
            ballast.fill()  # what was given of the reserve meanwhile
            assert free_bytes(stack.data_dir) == 0
            await client.advance(PASSES_S)
            took_s.append(await seconds_until_sends_work(account))
            assert await is_ready(stack)
            ballast.remove()
            await account.consume(1)
        print("sends worked again after", [f"{each:.1f} s" for each in took_s])
        assert account.received.keys() == account.sent
        assert account.received.total() == len(account.sent)
        await client.advance(TIMERS_WAIT_MS / 1000)
        assert await timers_that_come(client, len(account.timed)) == Counter(account.timed)
    assert "Traceback" not in stack.log.read_text()


async def new_group(client: RawClient, name: str) -> str:
    """A group that begins with the oldest message that is kept."""
    group = admin_pb2.Group(name=name, consume_from="earliest")
    answer = await client.admin("CreateGroup", group=group)
    assert answer.status.code == pb.OK, answer.status.message
    return name


async def seconds_until_sends_work(account: Account) -> float:
    began = time.monotonic()
    async with asyncio.timeout(RECOVERY_S):
        await until_answered(account.send_code, "OK")
    return time.monotonic() - began


async def timers_that_come(client: RawClient, count: int) -> Counter[bytes]:
    """So many messages of the topic of timers, and whatever comes with them."""
    came: Counter[bytes] = Counter()
    while came.total() < count:
        got = await client.receive(LATER, GROUP, poll_s=5.0)
        assert got.messages, f"{came.total()} of {count} timers came"
        came.update(got.bodies)
    return came


async def test_a_stop_and_a_start_on_a_full_disk_lose_nothing_and_leave_no_traceback(stack: Stack) -> None:
    ballast = Ballast(stack.data_dir)
    async with RawClient(stack.grpc) as client:
        await client.create_topic(LATER, kind=pb.DELAY)
        account = Account(client)
        await account.send(MESSAGES)
        await account.schedule(TIMERS)
        await account.consume(MESSAGES // 4)
        await fill(stack, ballast)
        await account.consume(MESSAGES // 4)
    assert await asyncio.to_thread(stack.terminate) == 0
    ballast.fill()
    await asyncio.to_thread(stack.start)
    async with RawClient(stack.grpc) as client:
        account.client = client
        assert not await is_ready(stack)
        await account.consume(len(account.sent) - account.received.total())
        await client.advance(PASSES_S)
        await seconds_until_sends_work(account)
        ballast.remove()
        await account.consume(1)
        assert account.received == Counter(account.sent), "what was acknowledged is not delivered again"
        await client.advance(TIMERS_WAIT_MS / 1000)
        assert await timers_that_come(client, TIMERS) == Counter(account.timed)
    assert await asyncio.to_thread(stack.terminate) == 0
    assert "Traceback" not in stack.log.read_text()
