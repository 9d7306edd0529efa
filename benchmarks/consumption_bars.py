"""Measures the promised figures of consumption: `python -m benchmarks.consumption_bars [--only NAME] [--quick]`.

groups    10,000 groups on a topic, none with a consumer: processor time
poison    a message that always fails, with many good ones behind it, against the same without it: rate and memory
fifo      10,000 message groups on 8 queues, 1 % of the handlers' calls fail, against the same without failures: rate

Server and client share the machine. Every ratio is of two runs side by side, in turns.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from zlib import crc32

import grpc.aio

from benchmarks.embedded_server import cpu_s, start_server, status_kib
from ternmq import ConsumeResult, Message, MessageView, Producer, PushConsumer
from ternmq.admin import groups as group_calls
from ternmq.admin import topics as topic_calls
from ternmq_command.calls.admin import AdminClient
from ternmq_protos.pool import Duration
from ternmq_protos.v2 import service_pb2 as rpc

GROUPS = 10_000
MESSAGE_GROUPS = 10_000
BODY = bytes(256)
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(BARS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages and of the time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    figures: Figures = {}
    for name, measure in BARS.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                measured = asyncio.run(measure(Path(folder), 0.1 if arguments.quick else 1.0))
            figures |= measured
            if not arguments.json:
                for label, figure in measured.items():
                    print(f"{label:<58} {figure:>14,.2f}", flush=True)
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


# --- groups


async def poll(channel: grpc.aio.Channel, topic: str, group: str, seconds: float) -> int:
    """Send one ReceiveMessage as a push consumer does; return how many messages came."""
    request = rpc.ReceiveMessageRequest(
        group={"name": group},
        message_queue={"topic": {"name": topic}, "id": -1},
        batch_size=32,
        auto_renew=True,
        long_polling_timeout=Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9)),
    )
    call = channel.unary_stream(
        "/apache.rocketmq.v2.MessagingService/ReceiveMessage",
        request_serializer=rpc.ReceiveMessageRequest.SerializeToString,
        response_deserializer=rpc.ReceiveMessageResponse.FromString,
    )
    items = [item async for item in call(request, timeout=seconds + 3, metadata=(("x-mq-client-id", f"c-{group}"),))]
    return sum(item.HasField("message") for item in items)


async def idle_groups(folder: Path, scale: float) -> Figures:
    seconds = 30 * scale
    groups = int(GROUPS * scale)
    async with server(folder) as (pid, endpoint):
        await make_topic(endpoint, "many")
        await make_topic(endpoint, "quiet")
        alone = await cpu_per_send(pid, endpoint, "quiet", int(10_000 * scale))
        channel = grpc.aio.insecure_channel(endpoint)
        for start in range(0, groups, 100):
            await asyncio.gather(*(poll(channel, "many", f"g-{start + number}", 0.01) for number in range(100)))
        await channel.close()
        await asyncio.sleep(5)  # the journal has heard of them
        crowded = await cpu_per_send(pid, endpoint, "many", int(10_000 * scale))
        await asyncio.sleep(2)
        cpu_before = cpu_s(pid)
        await asyncio.sleep(seconds)
        used = (cpu_s(pid) - cpu_before) / seconds
        resident = status_kib(pid, "VmRSS") / 1000
    return {
        f"{groups:,} groups without consumers: of a core, %": 100 * used,
        f"{groups:,} groups without consumers: resident, MB": resident,
        "CPU of a send with them, ratio to without": crowded / alone,
    }


async def cpu_per_send(pid: int, endpoint: str, topic: str, count: int) -> float:
    async with Producer(endpoint, topics=[topic]) as producer:
        before = cpu_s(pid)
        for _ in range(count // 10):
            await asyncio.gather(*(producer.send(Message(topic, BODY)) for _ in range(10)))
        return (cpu_s(pid) - before) / count


# --- poison and FIFO


async def poison(folder: Path, scale: float) -> Figures:
    count = int(1_000_000 * scale)
    rates: dict[bool, float] = {}
    residents: dict[bool, float] = {}
    for has_poison in (False, True):
        async with server(folder / str(has_poison)) as (pid, endpoint):
            await make_topic(endpoint, "work")
            async with Producer(endpoint, topics=["work"]) as producer:
                await producer.send(Message("work", b"poison" if has_poison else b"good"))
                for _ in range(count // 1000):
                    await asyncio.gather(*(producer.send_many([Message("work", BODY)] * 250) for _ in range(4)))
            rates[has_poison] = await consume(endpoint, "work", "work", count, lambda view: view.body != b"poison")
            residents[has_poison] = status_kib(pid, "VmHWM") / 1000
    return {
        f"{count:,} messages, messages/s": rates[False],
        f"{count:,} messages behind a poison one, messages/s": rates[True],
        "poison: ratio of rates": rates[True] / rates[False],
        "resident at its highest, MB": residents[False],
        "resident at its highest with poison, MB": residents[True],
    }


async def fifo(folder: Path, scale: float) -> Figures:
    count = int(200_000 * scale)
    rounds = 2
    rates: dict[bool, list[float]] = {False: [], True: []}
    async with server(folder) as (_, endpoint):
        for number, fails in itertools.product(range(rounds), (False, True)):
            name = f"ordered-{number}-{fails}"
            await asyncio.to_thread(make_ordered, endpoint, name)
            rates[fails].append(await fifo_round(endpoint, name, count, fails=fails))
    plain, failing = statistics.median(rates[False]), statistics.median(rates[True])
    return {
        "FIFO, 10,000 message groups, messages/s": plain,
        "FIFO, 1 % of the handlings fail, messages/s": failing,
        "FIFO: ratio of rates (at least 0.8)": failing / plain,
    }


def make_ordered(endpoint: str, name: str) -> None:
    """Create a FIFO topic of eight queues, and a FIFO group of the same name."""
    with AdminClient(endpoint) as admin:
        admin.send_call(topic_calls.create_topic(name, "fifo", 8))
        admin.send_call(group_calls.create_group(name, fifo=True))


async def fifo_round(endpoint: str, name: str, count: int, *, fails: bool) -> float:
    """Send, then consume; the messages of a message group must come in the order in which they were sent."""
    async with Producer(endpoint, topics=[name]) as producer:
        for start in range(0, count, 500):
            await producer.send_many(
                [
                    Message(name, b"%d" % number, message_group=f"mg-{number % MESSAGE_GROUPS}")
                    for number in range(start, min(count, start + 500))
                ]
            )
    failed: set[int] = set()
    last: dict[str, int] = {}

    def handle(view: MessageView) -> bool:
        number = int(view.body)
        # By a hash: every hundredth would always be of the same message groups.
        if fails and crc32(view.body) % 100 == 0 and number not in failed:
            failed.add(number)
            return False
        assert view.message_group is not None
        assert last.get(view.message_group, -1) < number, "out of order"
        last[view.message_group] = number
        return True

    return await consume(endpoint, name, name, count, handle)


async def consume(endpoint: str, topic: str, group: str, count: int, handle: Callable[[MessageView], bool]) -> float:
    """Return messages a second, until so many were handled well."""
    done = 0
    finished = asyncio.Event()

    async def listener(view: MessageView) -> ConsumeResult:
        nonlocal done
        if not handle(view):
            return ConsumeResult.FAILURE
        done += 1
        if done >= count:
            finished.set()
        return ConsumeResult.SUCCESS

    async with PushConsumer(endpoint, group=group, subscriptions={topic: "*"}, listener=listener):
        began = time.perf_counter()
        await finished.wait()
        return count / (time.perf_counter() - began)


async def make_topic(endpoint: str, name: str) -> None:
    with AdminClient(endpoint) as admin:
        await asyncio.to_thread(admin.send_call, topic_calls.create_topic(name, "normal", 8))


BARS: dict[str, Callable[[Path, float], Coroutine[None, None, Figures]]] = {
    "groups": idle_groups,
    "poison": poison,
    "fifo": fifo,
}

if __name__ == "__main__":
    main()
