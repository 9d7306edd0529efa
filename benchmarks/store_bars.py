"""Measures the promised figures of the store at scale: `python -m benchmarks.store_bars [--only NAME] [--messages N]`.

queues    CPU of an append with 100,000 queues in 1,000 topics beside one topic with 8 queues, in turns; memory and
          files after all messages
sends     the same for the whole send except its transport, by the activity
restart   `ternmq up` on a store of so many messages whose process was killed: seconds to `ready`
rebuild   the same without any index file: records a second, memory
behind    one consumer works off so many messages while others are live: their p99, beside that without it
groups    10,000 groups with progress: seconds to `ready`, memory
retries   growth of the log when the claims of four groups end

Server and client share the machine; the disk is that of the temporary folder.
"""

import argparse
import asyncio
import gc
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from benchmarks.embedded_server import start_server, status_kib
from ternmq import Message, Producer, SimpleConsumer
from ternmq_broker.delivery.claims import ClaimsSnapshot
from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import MovableClock
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import FlushMode, ServerSettings
from ternmq_common.shard.model import ConsumerGroup, NewMessage, PopOrder, QueueRef, Topic
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.send_message import send_message
from ternmq_proxy.message_service.local import LocalMessageService
from ternmq_proxy.server.main import make_clock, open_storage
from ternmq_proxy.server.serving import make_services

GIB = 1 << 30
TOPICS, QUEUES = 1000, 100
FEW = 8
GROUPS = 10_000
LIVE_SENDS_A_SECOND = 200
LIVE_S = 20
RETRIED = 40_000
SPILL_ENTRIES = 16_384
SENDS, SEND_TURNS = 6000, 24
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(BARS))
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where to keep the data  [default: the temporary folder]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    figures: Figures = {}
    for name, measure in BARS.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                measured = measure(Path(folder), arguments.messages)
            figures |= measured
            if not arguments.json:
                for label, figure in measured.items():
                    print(f"{label:<66} {figure:>14,.2f}", flush=True)
    if arguments.json:
        print(json.dumps(figures))


# --- what is stored


def incoming(number: int, body: int = 100) -> NewMessage:
    name = f"{number:034X}"
    system = pb.SystemProperties(message_id=name, tag="tag", born_host="here").SerializeToString()
    return NewMessage(5, system, pb.Message(body=bytes(body)).SerializeToString(), (name,))


def opened(data_dir: Path) -> MessageStore:
    return MessageStore(DiskFolders(data_dir / "store"), segment_bytes=GIB)


def spill(store: MessageStore) -> None:
    """Write index blocks as a broker does at intervals."""
    store.log.sync_segments()
    while job := store.checkpoints.prepare_spill(entries_min=SPILL_ENTRIES):
        job.write()
        store.checkpoints.finish_spill(job)
        store.checkpoints.save_checkpoint()


def filled(data_dir: Path, messages: int) -> None:
    """Create a topic `backlog` with so many messages in 8 queues, by a process that was killed."""
    store = opened(data_dir)
    for first in range(0, messages, 32):
        batch = [incoming(number) for number in range(first, first + 32)]
        store.writer.append_batch("backlog", first // 32 % FEW, batch, 1_000_000 + first)
        if first % SPILL_ENTRIES == 0:
            spill(store)
    store.log.sync_segments()
    store.abandon_files()


# --- the bars


def many_queues(folder: Path, messages: int) -> Figures:
    """Fill both kinds of store in turns, with single messages in random queues."""
    places = {
        "few": [("few", number) for number in range(FEW)],
        "many": [(f"topic-{number % TOPICS}", number // TOPICS) for number in range(TOPICS * QUEUES)],
    }
    stores = {name: opened(folder / name) for name in places}
    spent = dict.fromkeys(places, 0.0)
    message = [incoming(1, 256)]
    dice = random.Random(1)
    turns = max(1, messages // 100_000)
    for turn in range(turns):
        for name, store in stores.items():
            order = dice.choices(places[name], k=messages // turns)
            gc.collect()
            began = time.process_time()
            for number, (topic, queue_id) in enumerate(order):
                store.writer.append_batch(topic, queue_id, message, 1_000_000 + turn)
                if number % SPILL_ENTRIES == 0:
                    spill(store)
            spent[name] += time.process_time() - began
    files = len(list(Path("/proc/self/fd").iterdir()))
    few = stores.pop("few")
    few.abandon_files()
    del few
    gc.collect()
    return {
        "append with 8 queues, us of CPU, its index included": spent["few"] / messages * 1e6,
        "append with 100,000 queues": spent["many"] / messages * 1e6,
        "ratio of the two": spent["many"] / spent["few"],
        "memory of the process with 100,000 queues, MB": status_kib_of_self() / 1000,
        "open files of both stores": files,
    }


def sends(folder: Path, _: int) -> Figures:
    return asyncio.run(sends_to_many(folder))


async def sends_to_many(folder: Path) -> Figures:
    settings = ServerSettings(data_dir=folder, flush=FlushMode.ASYNC, grpc="127.0.0.1:0", http="127.0.0.1:0")
    call = Call(client_id="bars", peer="127.0.0.1:1", remaining_s=23.0)
    spent: dict[str, list[float]] = {"few": [], "many": []}
    dice = random.Random(1)
    async with AsyncExitStack() as stack:
        clock = make_clock(settings)
        messages, catalog = await open_storage(settings, clock, stack)
        services = make_services(settings, clock, catalog, messages, settings.grpc)
        await catalog.create_topic(Topic(name="few", type=MessageType.NORMAL, queues=FEW, created_ms=1))
        for number in range(TOPICS):
            await catalog.create_topic(
                Topic(name=f"topic-{number}", type=MessageType.NORMAL, queues=QUEUES, created_ms=1)
            )
        for _ in range(SEND_TURNS):
            for kind, times in spent.items():
                names = [f"topic-{dice.randrange(TOPICS)}" if kind == "many" else "few" for _ in range(SENDS)]
                requests = [rpc.SendMessageRequest(messages=[sent(name)]) for name in names]
                began = time.process_time()
                for request in requests:
                    await send_message(request, call, services)
                times.append((time.process_time() - began) / SENDS * 1e6)
    few, many = (statistics.median(times[SEND_TURNS // 6 :]) for times in spent.values())
    return {
        "send with 8 queues, us of CPU": few,
        "send with 100,000 queues": many,
        "ratio of the two sends": many / few,
    }


def sent(topic: str) -> pb.Message:
    properties = pb.SystemProperties(message_id=f"{random.getrandbits(136):034X}", keys=["key"], tag="tag")
    properties.born_timestamp.GetCurrentTime()
    return pb.Message(topic=pb.Resource(name=topic), body=bytes(256), system_properties=properties)


def status_kib_of_self() -> int:
    return status_kib(int(Path("/proc/self").resolve().name), "VmRSS")


def started(data_dir: Path) -> tuple[float, int]:
    """Return seconds to `ready`, and the process's memory then, KiB."""
    began = time.perf_counter()
    server, _ = start_server(data_dir, "--flush", "async")
    seconds = time.perf_counter() - began
    resident = status_kib(server.pid, "VmRSS")
    server.kill()
    server.wait()
    return seconds, resident


def restart(folder: Path, messages: int) -> Figures:
    filled(folder, messages)
    starts = [started(folder) for _ in range(3)]
    return {
        f"restart with {messages:,} messages after kill -9, s, median": statistics.median(s for s, _ in starts),
        "memory then, MB": max(kib for _, kib in starts) / 1000,
    }


def rebuild(folder: Path, messages: int) -> Figures:
    filled(folder, messages)
    for path in (folder / "store" / "index").glob("0*"):
        path.unlink()
    (folder / "store" / "checkpoint").unlink(missing_ok=True)
    seconds, resident = started(folder)
    return {
        "all index files gone: records a second": messages / seconds,
        "all index files gone: s to ready": seconds,
        "all index files gone: memory then, MB": resident / 1000,
    }


def behind(folder: Path, messages: int) -> Figures:
    filled(folder, messages)
    return asyncio.run(live_beside_backlog(folder, messages))


async def live_beside_backlog(folder: Path, messages: int) -> Figures:
    server, endpoint = await asyncio.to_thread(start_server, folder, "--flush", "async")
    try:
        async with Producer(endpoint, topics=["live", "backlog"]) as producer:
            await latencies(producer, endpoint, 2)  # the first calls of everything
            alone = await latencies(producer, endpoint, LIVE_S)
            reading = asyncio.create_task(work_off(endpoint, messages))
            beside = await latencies(producer, endpoint, LIVE_S)
            reading.cancel()
            read = (await asyncio.gather(reading, return_exceptions=True))[0]
    finally:
        server.kill()
        server.wait()
    assert isinstance(read, int | asyncio.CancelledError), read
    return {
        "live consumers: p99 from send to receive, ms": p99(alone),
        f"the same while one is {messages:,} messages behind": p99(beside),
        "ratio of the two p99": p99(beside) / p99(alone),
        "median alone, ms": statistics.median(alone),
        "median beside, ms": statistics.median(beside),
    }


async def latencies(producer: Producer, endpoint: str, seconds: float) -> list[float]:
    """Return milliseconds from the sends of messages to their arrival at a waiting consumer."""
    found: list[float] = []
    wanted = int(seconds * LIVE_SENDS_A_SECOND)

    async def receive() -> None:
        async with SimpleConsumer(
            endpoint, group="live", subscriptions={"live": "*"}, await_duration=timedelta(seconds=5)
        ) as consumer:
            while len(found) < wanted:
                views = await consumer.receive(max_messages=32, invisible_duration=timedelta(seconds=60))
                now = time.perf_counter()
                found.extend((now - float(view.body)) * 1000 for view in views)
                if views:
                    await consumer.ack(views)

    receiving = asyncio.create_task(receive())
    began = time.perf_counter()
    sends = []
    for number in range(wanted):
        await asyncio.sleep(max(0, began + number / LIVE_SENDS_A_SECOND - time.perf_counter()))
        sends.append(asyncio.create_task(producer.send(Message("live", b"%f" % time.perf_counter()))))
    await asyncio.gather(*sends)
    await receiving
    return found


async def work_off(endpoint: str, messages: int) -> int:
    """Receive and acknowledge a backlog as fast as one consumer can."""
    read = 0
    async with SimpleConsumer(
        endpoint, group="late", subscriptions={"backlog": "*"}, await_duration=timedelta(seconds=1)
    ) as consumer:
        while read < messages:
            views = await consumer.receive(max_messages=32, invisible_duration=timedelta(seconds=60))
            if views:
                await consumer.ack(views)
            read += len(views)
    return read


def p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


def groups(folder: Path, messages: int) -> Figures:
    filled(folder, min(messages, 100_000))
    journal = ProgressJournal(DiskFolders(folder / "store").consumption)
    for group in range(GROUPS):
        progress = [((f"group-{group}", "backlog", queue), ClaimsSnapshot(100, 1, [])) for queue in range(FEW)]
        journal.write_progress(progress, 1_000_000)
    journal.close()
    seconds, resident = started(folder)
    return {"restart with 10,000 groups in 8 queues each, s": seconds, "memory then, MB ": resident / 1000}


def retries(folder: Path, _: int) -> Figures:
    return asyncio.run(ended_claims(folder))


async def ended_claims(folder: Path) -> Figures:
    """Have four groups receive messages of 2 KB and let their claims end."""
    clock = MovableClock()
    settings = ServerSettings(data_dir=folder, flush=FlushMode.ASYNC, test_clock=True)
    service = await LocalMessageService.open_store(settings, lambda name: ConsumerGroup(name=name), clock)
    for first in range(0, RETRIED, 32):
        batch = [incoming(first + number, 2000) for number in range(32)]
        messages = batch
        await service.sending.append(QueueRef("failing", "broker-0", first // 32 % FEW), messages)
    before = service.broker_figures.current_figures().log_bytes
    for number in range(4):
        order = PopOrder(
            group=f"g{number}", topic="failing", queues=range(FEW), filter=ALL, batch=32, invisible_ms=600_000
        )
        received = 0
        while received < RETRIED:
            received += len(await service.consuming.pop(order, broker="broker-0", poll_s=0))
    clock.advance_by(600_001)
    while service.broker_figures.current_figures().retries < 4 * RETRIED:  # noqa: ASYNC110 - no event tells of a count
        await asyncio.sleep(0.05)
    after = service.broker_figures.current_figures().log_bytes
    await service.close()
    return {"log with 40,000 messages of 2 KB, MB": before / 1e6, "after the claims of 4 groups ended": after / 1e6}


BARS: dict[str, Callable[[Path, int], Figures]] = {
    "queues": many_queues,
    "sends": sends,
    "restart": restart,
    "rebuild": rebuild,
    "behind": behind,
    "groups": groups,
    "retries": retries,
}


if __name__ == "__main__":
    main()
