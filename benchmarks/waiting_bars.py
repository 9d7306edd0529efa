"""Measures the promised figures of messages that wait: `python -m benchmarks.waiting_bars [--only NAME] [--quick]`.

cost          processor time of sending a delayed message against that of a normal one, in turns
pending       ten million pending timers over 3 days: memory, and how long a start with them takes
burst         100,000 timers due in the same second: when the last one has arrived, and how other traffic is affected

Server and client share the machine. `./run bench --only delayed transactions` measures how late they are, and commits.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio

from benchmarks.embedded_server import cpu_s, start_server, status_kib
from ternmq.admin import topics as topic_calls
from ternmq.admin.requests.words import TopicType
from ternmq_command.calls.admin import AdminClient
from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

BODY = bytes(256)
PENDING = 10_000_000
BURST = 100_000
DAYS_MS = 3 * 86_400_000
PREFIX = "/apache.rocketmq.v2.MessagingService/"
_ids = itertools.count()
Figures = dict[str, float]
T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(BARS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages and of the time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--fill", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fill:
        asyncio.run(fill(Path(arguments.fill[0]), int(arguments.fill[1])))
        return
    figures: Figures = {}
    for name, measure in BARS.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                scale = 0.1 if arguments.quick else 1.0
                measured = asyncio.run(measure(Path(folder), scale))
            figures |= measured
            if not arguments.json:
                for label, figure in measured.items():
                    print(f"{label:<66} {figure:>14,.2f}", flush=True)
    if arguments.json:
        print(json.dumps(figures))


@contextlib.asynccontextmanager
async def server(folder: Path, *options: str) -> AsyncIterator[tuple[int, str]]:
    """Start a server; yield its process id and endpoint."""
    process, endpoint = await asyncio.to_thread(start_server, folder, *options)
    try:
        yield process.pid, endpoint
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def make_topic(endpoint: str, name: str, kind: TopicType) -> None:
    with AdminClient(endpoint) as admin:
        await asyncio.to_thread(admin.send_call, topic_calls.create_topic(name, kind, 8))


# --- what it costs


async def cost_of_sending(folder: Path, scale: float) -> Figures:
    used: dict[tuple[str, int], list[float]] = {}
    async with server(folder) as (pid, endpoint):
        await make_topic(endpoint, "normal", "normal")
        await make_topic(endpoint, "timed", "delay")
        for round_number in range(5):
            for topic, size in itertools.product(("normal", "timed"), (1, 32)):
                count = int((4000 if size == 1 else 32_000) * scale)
                spent = await cpu_per_message(pid, endpoint, topic, size, count)
                if round_number:  # the first one warms up
                    used.setdefault((topic, size), []).append(spent)
    least = {key: min(values) for key, values in used.items()}
    return {
        "CPU of a normal send, us": least["normal", 1],
        "CPU of a timed send, us": least["timed", 1],
        "timed send against normal send (at most 1.5)": least["timed", 1] / least["normal", 1],
        "the same in batches of 32 (at most 1.5)": least["timed", 32] / least["normal", 32],
    }


async def cpu_per_message(pid: int, endpoint: str, topic: str, size: int, count: int) -> float:
    """Return microseconds of the server's processor time for each message, with 8 senders."""
    async with connected(endpoint) as channel:
        before = cpu_s(pid)
        share = count // size // 8
        await asyncio.gather(*(send_requests(channel, topic, size, share) for _ in range(8)))
        return (cpu_s(pid) - before) / (share * size * 8) * 1e6


async def send_requests(channel: grpc.aio.Channel, topic: str, size: int, count: int) -> None:
    for _ in range(count):
        due_ms = int(time.time() * 1000) + random.randrange(3_600_000, DAYS_MS) if topic == "timed" else None
        await send(channel, [message_of(topic, due_ms=due_ms) for _ in range(size)])


# --- ten million


async def pending_timers(folder: Path, scale: float) -> Figures:
    """Measure pending timers. Another process fills the store, since ten million gRPC calls would measure nothing
    more."""
    count = int(PENDING * scale)
    command = [sys.executable, "-m", "benchmarks.waiting_bars", "--fill", str(folder), str(count)]
    filled = await asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.PIPE)
    figures = json.loads(filled.stdout)
    started = time.monotonic()
    async with server(folder) as (pid, endpoint):
        took = time.monotonic() - started
        await asyncio.sleep(2)
        idle = status_kib(pid, "VmRSS") / 1000
        await make_topic(endpoint, "timed", "delay")
        async with connected(endpoint) as channel:
            await send(channel, [message_of("timed", due_ms=int(time.time() * 1000) + 500)])
            assert await receive(channel, "timed", "readers", seconds=10, batch=32)
        resident = status_kib(pid, "VmHWM") / 1000
    return {
        f"{count:,} pending timers: memory while they came, MB (under 250)": figures["resident"],
        f"{count:,} pending timers: memory after a restart, MB (under 250)": idle,
        f"{count:,} pending timers: highest memory after a restart, MB": resident,
        f"{count:,} pending timers: start to ready, s (under 3)": took,
        f"{count:,} pending timers: CPU of storing one, all of its index included, us": figures["cpu_us"],
        f"{count:,} pending timers: their index on disk, MB": figures["index"],
    }


async def fill(folder: Path, count: int) -> None:
    """Store timers over three days, in batches of 100; print what that took."""
    from ternmq_common.clock import SystemClock
    from ternmq_common.server_settings import FlushMode, ServerSettings
    from ternmq_common.shard.model import ConsumerGroup, NewMessage, QueueRef, TimedMessage
    from ternmq_proxy.message_service.local import LocalMessageService

    settings = ServerSettings(data_dir=folder / "data", flush=FlushMode.ASYNC)
    service = await LocalMessageService.open_store(settings, lambda name: ConsumerGroup(name=name), SystemClock())
    rest = pb.Message(body=bytes(100)).SerializeToString()
    started = time.process_time()
    now_ms = int(time.time() * 1000)
    chance = random.Random(5)
    for start in range(0, count, 100):
        timed = []
        for number in range(start, min(start + 100, count)):
            properties = pb.SystemProperties(message_id=f"{number:034X}", message_type=pb.DELAY)
            due_ms = now_ms + chance.randrange(3_600_000, DAYS_MS)
            properties.delivery_timestamp.FromMilliseconds(due_ms)
            message = NewMessage(0, properties.SerializeToString(), rest, (properties.message_id,))
            timed.append(TimedMessage(message, due_ms))
        await service.sending.schedule(QueueRef("timed", "broker-0", start // 100 % 8), timed)
        await asyncio.sleep(0)
    spent = time.process_time() - started
    resident = status_kib(os.getpid(), "VmRSS") / 1000
    index = await asyncio.to_thread(bytes_in, folder / "data" / "store" / "timers")
    await service.close()
    print(json.dumps({"resident": resident, "cpu_us": spent / count * 1e6, "index": index / 1e6}))


def bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


# --- many at once


async def burst(folder: Path, scale: float) -> Figures:
    count = int(BURST * scale)
    async with server(folder) as (_, endpoint):
        await make_topic(endpoint, "timed", "delay")
        await make_topic(endpoint, "other", "normal")
        async with connected(endpoint) as channel, connected(endpoint) as another:
            due_ms = (int(time.time() * 1000) // 1000 + int(20 * scale) + 10) * 1000
            for start in range(0, count, 500):
                due = [due_ms + (start + number) * 1000 // count for number in range(min(500, count - start))]
                await send(channel, [message_of("timed", due_ms=each) for each in due])
            assert time.time() * 1000 < due_ms - 2000, "all must be stored before the first is due"
            stop = asyncio.Event()
            calm: list[float] = []
            during: list[float] = []
            traffic = asyncio.create_task(other_traffic(another, due_ms, stop, calm, during))
            there_ms, last_ms = await asyncio.gather(all_there(endpoint, count), receive_all(endpoint, count))
            stop.set()
            await traffic
    return {
        f"{count:,} timers due in one second: all in their queues after, s (under 5)": (there_ms - due_ms) / 1000,
        f"{count:,} timers due in one second: all at their consumers after, s": (last_ms - due_ms) / 1000,
        "other traffic meanwhile: send to receive, p99, ms (under 100)": percentile(during, 0.99),
        "other traffic meanwhile: send to receive, p50, ms": percentile(during, 0.5),
        "other traffic before: send to receive, p99, ms": percentile(calm, 0.99),
    }


async def all_there(endpoint: str, count: int) -> float:
    """Return when so many messages were in the topic's queues, milliseconds since the epoch; it checks ten times a
    second."""
    with AdminClient(endpoint) as admin:
        while True:
            described = await asyncio.to_thread(admin.send_call, topic_calls.describe_topic("timed"))
            if sum(queue.max_offset for queue in described.queues) >= count:
                return time.time() * 1000
            await asyncio.sleep(0.1)


async def receive_all(endpoint: str, count: int) -> float:
    """Return when the last of so many messages arrived, milliseconds since the epoch."""
    seen = 0
    last_ms = 0.0

    async def consume() -> None:
        nonlocal seen, last_ms
        async with connected(endpoint) as channel:
            while seen < count:
                received = await receive_count(channel, "timed", "readers", seconds=5)
                seen += received
                last_ms = time.time() * 1000 if received else last_ms

    await asyncio.gather(*(consume() for _ in range(4)))
    return last_ms


async def other_traffic(
    channel: grpc.aio.Channel, due_ms: int, stop: asyncio.Event, calm: list[float], during: list[float]
) -> None:
    """Send a message every 10 ms to another topic, where a waiting poll receives it."""

    async def produce() -> None:
        while not stop.is_set():
            await send(channel, [message_of("other", keys=(repr(time.time() * 1000),))])
            await asyncio.sleep(0.01)

    producing = asyncio.create_task(produce())
    while not producing.done():
        received = await receive(channel, "other", "others", seconds=1, batch=32)
        now_ms = time.time() * 1000
        for message in received:
            sent_ms = float(message.system_properties.keys[0])
            (during if sent_ms >= due_ms else calm).append(now_ms - sent_ms)
        await acknowledge(channel, "other", "others", received)


# --- calls, with as little Python as possible


@contextlib.asynccontextmanager
async def connected(endpoint: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(endpoint, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        yield channel


def message_of(topic: str, *, due_ms: int | None = None, keys: tuple[str, ...] = ()) -> pb.Message:
    message = pb.Message(topic={"name": topic}, body=BODY)
    message.system_properties.message_id = f"{next(_ids):034X}"
    message.system_properties.keys.extend(keys)
    if due_ms is not None:
        message.system_properties.delivery_timestamp.FromMilliseconds(due_ms)
    return message


async def call(channel: grpc.aio.Channel, name: str, request: Any, response: type[T]) -> T:  # noqa: ANN401 - a message
    kind: Any = response
    method = channel.unary_unary(
        PREFIX + name, request_serializer=type(request).SerializeToString, response_deserializer=kind.FromString
    )
    answer: T = await method(request, metadata=(("x-mq-client-id", "bench"),))
    return answer


async def send(channel: grpc.aio.Channel, messages: list[pb.Message]) -> list[rpc.SendResultEntry]:
    answer = await call(channel, "SendMessage", rpc.SendMessageRequest(messages=messages), rpc.SendMessageResponse)
    assert answer.status.code == pb.OK, answer.status
    return list(answer.entries)


async def frames(channel: grpc.aio.Channel, topic: str, group: str, seconds: float, batch: int) -> list[bytes]:
    request = rpc.ReceiveMessageRequest(
        group={"name": group},
        message_queue={"topic": {"name": topic}, "id": -1},
        filter_expression={"type": pb.TAG, "expression": "*"},
        batch_size=batch,
        invisible_duration=Duration(seconds=60),
        long_polling_timeout=Duration(seconds=int(seconds)),
    )
    method = channel.unary_stream(
        PREFIX + "ReceiveMessage", request_serializer=rpc.ReceiveMessageRequest.SerializeToString
    )
    return [frame async for frame in method(request, timeout=seconds + 3, metadata=(("x-mq-client-id", f"c-{group}"),))]


async def receive(channel: grpc.aio.Channel, topic: str, group: str, *, seconds: float, batch: int) -> list[pb.Message]:
    items = map(rpc.ReceiveMessageResponse.FromString, await frames(channel, topic, group, seconds, batch))
    return [item.message for item in items if item.HasField("message")]


async def receive_count(channel: grpc.aio.Channel, topic: str, group: str, *, seconds: float) -> int:
    """Return how many messages came; they are not decoded, since the client shares the machine."""
    return max(0, len(await frames(channel, topic, group, seconds, 32)) - 2)


async def acknowledge(channel: grpc.aio.Channel, topic: str, group: str, messages: list[pb.Message]) -> None:
    if messages:
        entries = [
            {"message_id": each.system_properties.message_id, "receipt_handle": each.system_properties.receipt_handle}
            for each in messages
        ]
        request = rpc.AckMessageRequest(group={"name": group}, topic={"name": topic}, entries=entries)
        await call(channel, "AckMessage", request, rpc.AckMessageResponse)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)] if values else float("nan")


BARS: dict[str, Callable[[Path, float], Coroutine[None, None, Figures]]] = {
    "cost": cost_of_sending,
    "pending": pending_timers,
    "burst": burst,
}

if __name__ == "__main__":
    main()
