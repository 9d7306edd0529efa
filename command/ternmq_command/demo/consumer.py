"""A consumer's process: receives and acknowledges messages, and reports them on standard output.

It is started as `python -m ternmq_command.demo.consumer ENDPOINT`. It ends on SIGTERM, or when its standard input ends,
which means that the demo has ended; it finishes its current batch first.
"""

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Sequence
from datetime import timedelta

from ternmq import ClientError, MessageView, SimpleConsumer
from ternmq_command.demo import GROUP, TOPIC
from ternmq_command.demo.batch_reports import BatchReport, FlightDelivery
from ternmq_command.demo.flights import ROW_PROPERTY
from ternmq_common.event_loop.background_tasks import BackgroundTasks

RECEIVERS = 4
BATCH_MAX = 32
AWAIT = timedelta(seconds=5)
# The shortest that the protocol allows, so that messages of an interrupted demo are soon delivered again.
INVISIBLE = timedelta(seconds=10)
PAUSE_S = 0.2
LAST_BATCH_S = 1.5


async def run_consumer(endpoint: str, stop: asyncio.Event) -> None:
    consumer = await _start_consumer(endpoint, stop)
    if consumer is None:
        return
    try:
        async with BackgroundTasks() as tasks:
            receivers = [tasks.start(_receive_until(stop, consumer)) for _ in range(RECEIVERS)]
            await stop.wait()
            await asyncio.wait(receivers, timeout=LAST_BATCH_S)  # then they wait for messages, and there are none
    finally:
        await consumer.close()


async def _start_consumer(endpoint: str, stop: asyncio.Event) -> SimpleConsumer | None:
    """Start a consumer as soon as the broker serves: the demo may have just killed it. None if `stop` is set first."""
    while not stop.is_set():
        consumer = SimpleConsumer(endpoint, group=GROUP, subscriptions={TOPIC: "*"}, await_duration=AWAIT)
        try:
            return await consumer.start()
        except ClientError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(PAUSE_S)
    return None


async def _receive_until(stop: asyncio.Event, consumer: SimpleConsumer) -> None:
    while not stop.is_set():
        try:
            views = await consumer.receive(max_messages=BATCH_MAX, invisible_duration=INVISIBLE)
        except ClientError:
            await asyncio.sleep(PAUSE_S)  # the broker is away; it comes back
            continue
        if views:
            await _acknowledge_views(consumer, views)


async def _acknowledge_views(consumer: SimpleConsumer, views: Sequence[MessageView]) -> None:
    arrived_ns = time.time_ns()
    flights = [_build_flight(view, arrived_ns) for view in views]
    try:
        await consumer.ack(views)
    except ClientError:
        acked = False  # they are delivered again, and counted as duplicates
    else:
        acked = True
    sys.stdout.buffer.write(BatchReport(flights, acked).encode_line())
    sys.stdout.buffer.flush()


def _build_flight(view: MessageView, arrived_ns: int) -> FlightDelivery:
    message = view.to_proto()
    row, born = message.user_properties, message.system_properties.born_timestamp
    delay = row.get("dep_delay")
    return FlightDelivery(
        row=int(row[ROW_PROPERTY]),
        latency_ms=round((arrived_ns - born.seconds * 1_000_000_000 - born.nanos) / 1e6, 3),
        origin=row["origin"],
        destination=row["dest"],
        carrier=row["carrier"],
        delay_minutes=int(delay) if delay is not None else None,
    )


async def main(endpoint: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin, stop.set)  # readable only at its end, since nothing writes to it
    await run_consumer(endpoint, stop)


if __name__ == "__main__":
    # The library's warnings about a missing broker are expected in the demo.
    logging.disable(logging.WARNING)
    asyncio.run(main(sys.argv[1]))
