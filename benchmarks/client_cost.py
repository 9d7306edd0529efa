"""What the Python client costs its own process: CPU microseconds a message, and messages a second, at a running server.

    python -m benchmarks.client_cost 127.0.0.1:8081

Sends with 1, 32 and 128 in flight, batches of 32, receives of 32 with one acknowledgement each; bodies of 256 bytes. To
compare two versions of the client, run both in turn at one server, several times: the machine's load changes.
"""

import argparse
import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from ternmq import Message, Producer, SimpleConsumer

TOPIC = "client-cost"
BODY = b"x" * 256
BATCH = 32
HIDDEN = timedelta(minutes=5)


def cpu_s() -> float:
    """Return the CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(name: str, count: int, workers: int, work: Callable[[], Awaitable[int]]) -> None:
    """Have workers work, each call for as many messages as it returns, until `count` are done; print what it cost."""
    done = 0

    async def repeat() -> None:
        nonlocal done
        while done < count:
            worked = await work()  # before the sum is read, which other workers raise meanwhile
            done += worked

    await work()
    cpu, began = cpu_s(), time.perf_counter()
    await asyncio.gather(*(repeat() for _ in range(workers)))
    cpu, took = cpu_s() - cpu, time.perf_counter() - began
    print(f"{name:<16} {cpu / done * 1e6:8.1f} us {done / took:8.0f}/s", flush=True)


async def measure_all(endpoint: str, count: int) -> None:
    """Send `count` messages in each way, and receive as many."""
    async with Producer(endpoint, topics=[TOPIC]) as producer:

        async def send() -> int:
            await producer.send(Message(TOPIC, BODY))
            return 1

        async def send_batch() -> int:
            return len(await producer.send_many([Message(TOPIC, BODY)] * BATCH))

        for in_flight in (1, 32, 128):
            await measure(f"send, {in_flight}", count if in_flight > 1 else count // 10, in_flight, send)
        await measure("batches", count, 4, send_batch)
    async with SimpleConsumer(endpoint, "client-cost", {TOPIC: "*"}) as consumer:

        async def receive() -> int:
            views = await consumer.receive(BATCH, HIDDEN)
            await consumer.ack(views)
            return len(views)

        await measure("receives", count, 4, receive)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("--count", type=int, default=20_000)
    arguments = parser.parse_args()
    asyncio.run(measure_all(arguments.endpoint, arguments.count))


if __name__ == "__main__":
    main()
