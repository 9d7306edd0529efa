"""Measures what was promised of the embedded stack: `python benchmarks/embedded_bars.py [--messages 1000000]`.

start     from the start of the process to the first acknowledged message, median of several starts on empty data
memory    resident memory of the server after all messages were sent and consumed, and at its highest
rates     messages sent and consumed a second meanwhile, client and server on the same machine
stop      from SIGTERM to the end of the process, with open sessions
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from ternmq import Message, Producer, SimpleConsumer

TOPIC = "bars"
BODY = bytes(256)
BATCH = 250
STARTS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--flush", choices=["sync", "async"], default="sync")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), arguments.messages, arguments.flush))
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:<42} {figure:>12,.2f}")


async def measure(folder: Path, messages: int, flush: str) -> dict[str, float]:
    starts = [await time_to_first_message(folder / f"start-{number}") for number in range(STARTS)]
    figures = {"start to first acknowledged message, s": statistics.median(starts)}
    server, endpoint = start_server(folder / "load", "--flush", flush)
    async with Producer(endpoint, topics=[TOPIC]) as producer:
        began = time.perf_counter()
        await asyncio.gather(*(send(producer, messages // BATCH // 4) for _ in range(4)))
        sent = messages // BATCH // 4 * 4 * BATCH
        figures["sent, messages/s"] = sent / (time.perf_counter() - began)
    async with SimpleConsumer(
        endpoint, group="bars", subscriptions={TOPIC: "*"}, await_duration=timedelta(seconds=2)
    ) as consumer:
        began = time.perf_counter()
        await consume(consumer, sent)
        figures["consumed and acknowledged, messages/s"] = sent / (time.perf_counter() - began)
        figures["messages"] = sent
        figures["resident after that, MB"] = status_kib(server.pid, "VmRSS") / 1000
        figures["resident at its highest, MB"] = status_kib(server.pid, "VmHWM") / 1000
        figures["server CPU per message sent and consumed, us"] = cpu_s(server.pid) / sent * 1e6
        began = time.perf_counter()
        server.terminate()
        await asyncio.to_thread(server.wait)
        figures["SIGTERM to the end, s"] = time.perf_counter() - began
    assert server.returncode == 0
    return figures


def start_server(folder: Path, *options: str) -> tuple["subprocess.Popen[str]", str]:
    command = [sys.executable, "-m", "ternmq.command.main", "up", "--data-dir", str(folder), "--log-level", "warning"]
    addresses = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    environment = os.environ | {"TERNMQ_AUTO_CREATE_PER_MINUTE": "1000000"}  # thousands of groups are used once
    server = subprocess.Popen([*command, *addresses, *options], stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    ready = server.stdout.readline().split()
    return server, ready[1].removeprefix("grpc=")


async def time_to_first_message(folder: Path) -> float:
    """The client is made before, so that only the server's start and one send count."""
    began = time.perf_counter()
    server, endpoint = await asyncio.to_thread(start_server, folder)
    async with Producer(endpoint, topics=[TOPIC]) as producer:
        await producer.send(Message(TOPIC, BODY))
        seconds = time.perf_counter() - began
    server.kill()
    server.wait()
    return seconds


async def send(producer: Producer, batches: int) -> None:
    for _ in range(batches):
        await producer.send_many([Message(TOPIC, BODY) for _ in range(BATCH)])


async def consume(consumer: SimpleConsumer, wanted: int) -> None:
    got = 0

    async def reader() -> None:
        nonlocal got
        while got < wanted:
            views = await consumer.receive(max_messages=32, invisible_duration=timedelta(seconds=60))
            if views:
                await consumer.ack(views)
                got += len(views)

    await asyncio.gather(*(reader() for _ in range(4)))


def status_kib(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise LookupError(field)


def cpu_s(pid: int) -> float:
    """Processor seconds of all threads so far; the kernel's count in nanoseconds, not in ticks."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


if __name__ == "__main__":
    main()
