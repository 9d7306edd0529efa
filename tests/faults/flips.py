"""Flips one byte at a time in a stopped data directory, starts on it, and accounts: `python -m tests.faults.flips`.

The directory has messages in plain and FIFO topics, groups with progress, timers, transactions and a deleted topic. For
each flip, at a random place of a random file, the stack is opened as `ternmq up` opens it, first as it is, and, when it
refuses, with `--accept-corruption`. What was acknowledged must be delivered, or its loss must have been told: by the
refusal, or by a line of the log at the start or at the read. Nothing may be delivered that was not sent, no error may
end in a traceback, and no start may take more than ten seconds.
"""

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import MovableClock
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import ServerSettings
from ternmq_common.shard.model import (
    ConsumerGroup,
    HalfMessage,
    NewMessage,
    PopOrder,
    QueueRef,
    TimedMessage,
    Topic,
    TransactionState,
)
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService
from ternmq_proxy.server.main import open_storage

START_MAX_S = 10.0
BROKER = "broker-0"
FAR_MS = 4_102_444_800_000
TOPICS = {"orders": 4, "steps": 2, "timed": 1, "paid": 1}
KINDS = {
    "orders": MessageType.NORMAL,
    "steps": MessageType.FIFO,
    "timed": MessageType.DELAY,
    "paid": MessageType.TRANSACTION,
}
GROUPS = {"billing": ("orders", False), "workers": ("steps", True)}
MESSAGES = 1200
CONSUMED = 150
TIMERS = 30
HALVES = 6


@dataclass
class Held:
    """What can be had of a data directory."""

    topics: dict[str, int] = field(default_factory=dict)
    queues: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    groups: dict[str, set[bytes]] = field(default_factory=dict)
    timers: int = 0
    halves: set[str] = field(default_factory=set)


class Lines(logging.Handler):
    """What the log said at least as a warning, and how many tracebacks it had."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self.tracebacks = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        self.tracebacks += record.exc_info is not None


def settings(folder: Path, *, accept: bool = False) -> ServerSettings:
    return ServerSettings(
        data_dir=folder, segment_bytes=1 << 20, body_bytes_max=1 << 16, test_clock=True, accept_corruption=accept
    )


def message(name: str, group: str = "") -> NewMessage:
    properties = definition_pb2.SystemProperties(message_id=name, message_group=group or None)
    rest = definition_pb2.Message(body=f"{name} ".encode() * 60)
    return NewMessage(0, properties.SerializeToString(), rest.SerializeToString(), (name,))


async def fill(folder: Path) -> None:
    async with AsyncExitStack() as stack:
        service, catalog = await open_storage(settings(folder), MovableClock(), stack)
        for topic, queues in TOPICS.items():
            await catalog.create_topic(Topic(name=topic, type=KINDS[topic], queues=queues, created_ms=1))
        for group, (_, fifo) in GROUPS.items():
            await catalog.create_group(ConsumerGroup(name=group, fifo=fifo, created_ms=1))
        for number in range(0, MESSAGES, 10):
            for topic in ("orders", "steps"):
                batch = [message(f"{topic}-{number + each}", f"g{each % 3}" * (topic == "steps")) for each in range(10)]
                await service.sending.append(QueueRef(topic, BROKER, number // 10 % TOPICS[topic]), batch)
        for number in range(TIMERS):
            await service.sending.schedule(
                QueueRef("timed", BROKER, 0), [TimedMessage(message(f"timer-{number}"), FAR_MS)]
            )
        for number in range(HALVES):
            await service.sending.begin_transaction(
                QueueRef("paid", BROKER, 0), HalfMessage(message(f"half-{number}"), "me")
            )
        await service.sending.append(QueueRef("deleted", BROKER, 0), [message("deleted-0")])
        await service.sending.schedule(QueueRef("deleted", BROKER, 0), [TimedMessage(message("deleted-1"), FAR_MS)])
        await service.administering.forget_topic("deleted", version=0)
        for group, (topic, _) in GROUPS.items():
            await consume(service, group, topic, CONSUMED)


async def consume(service: LocalMessageService, group: str, topic: str, most: int) -> set[bytes]:
    """Receive and acknowledge up to so many messages; their bytes."""
    seen: set[bytes] = set()
    order = PopOrder(group=group, topic=topic, queues=range(TOPICS[topic]), filter=ALL, batch=32, invisible_ms=60_000)
    while len(seen) < most:
        deliveries = await service.consuming.pop(order, broker=BROKER, poll_s=0)
        if not deliveries:
            break
        seen.update(delivery.message.rest for delivery in deliveries)
        await service.consuming.acknowledge(group, topic, [delivery.handle for delivery in deliveries])
    return seen


async def held(folder: Path, *, accept: bool) -> Held:
    """Start, and look at everything; StartupError."""
    found = Held()
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        service, catalog = await open_storage(settings(folder, accept=accept), MovableClock(), stack)
        assert time.monotonic() - began < START_MAX_S, "the start took too long"
        found.topics = {topic.name: topic.queues for topic in catalog.list_topics()}
        for topic, queues in TOPICS.items():
            for queue_id in range(queues):
                found.queues[topic, queue_id] = await bodies(service, QueueRef(topic, BROKER, queue_id))
        found.timers = await service._broker.figures.count_timers()
        page = await service.inspecting.transactions(TransactionState.PENDING, topic="", start="", limit=100)
        found.halves = {transaction.message_id for transaction in page.transactions}
        for group, (topic, _) in GROUPS.items():
            found.groups[group] = await consume(service, group, topic, sys.maxsize)
    return found


async def bodies(service: LocalMessageService, queue: QueueRef) -> list[bytes]:
    bounds = await service.reading.bounds(queue)
    found: list[bytes] = []
    offset = bounds.minimum
    while offset < bounds.maximum:
        pulled = await service.reading.pull(queue, offset, ALL, batch=100, poll_s=0)
        found += [stored.rest for stored in pulled.messages]
        assert pulled.next_offset > offset, "a pull goes on"
        offset = pulled.next_offset
    return found


def lost_of(expected: Held, found: Held) -> list[str]:
    """What is not there any more."""
    lost = [f"topic {name}" for name in expected.topics if expected.topics[name] != found.topics.get(name)]
    for key, wanted in expected.queues.items():
        missing = len(set(wanted) - set(found.queues[key]))
        lost += [f"{missing} messages of {key}"] * (missing > 0)
    for group, unfinished in expected.groups.items():
        missing = len(unfinished - found.groups[group])
        lost += [f"{missing} messages for {group}"] * (missing > 0)
    lost += ["timers"] * (found.timers < expected.timers)
    lost += ["transactions"] * (found.halves < expected.halves)
    return lost


def forged_of(expected: Held, found: Held) -> list[str]:
    """What is there and was not sent to that place, or twice."""
    forged: list[str] = []
    for key, bodies_there in found.queues.items():
        more = Counter(bodies_there) - Counter(expected.queues[key])
        forged += [f"{sum(more.values())} messages in {key}"] * bool(more)
    sent = {body for bodies_there in expected.queues.values() for body in bodies_there}
    forged += [f"messages for {group}" for group, bodies_there in found.groups.items() if bodies_there - sent]
    forged += ["timers"] * (found.timers > expected.timers)
    forged += ["transactions"] * bool(found.halves - expected.halves)
    return forged


@dataclass
class Outcome:
    """What became of one flip."""

    place: str
    refused: bool = False
    refused_again: bool = False
    lost: list[str] = field(default_factory=list)
    silent: bool = False
    forged: list[str] = field(default_factory=list)
    traceback: str = ""

    @property
    def is_bad(self) -> bool:
        return self.silent or bool(self.forged) or bool(self.traceback)


def flip_one(whole: Path, work: Path, expected: Held, dice: random.Random) -> Outcome:
    """Copy the directory, flip a byte of it, and account."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(whole, work)
    files = sorted(path for path in work.rglob("*") if path.is_file() and path.stat().st_size)
    path = dice.choice(files)
    content = bytearray(path.read_bytes())
    position, mask = dice.randrange(len(content)), dice.randint(1, 255)
    content[position] ^= mask
    path.write_bytes(content)
    outcome = Outcome(f"{path.relative_to(work)} byte {position} xor {mask:#04x}")
    lines = Lines()
    logger = logging.getLogger()
    logger.addHandler(lines)
    try:
        found = _opened(work, outcome)
    except Exception as error:  # noqa: BLE001 - what is looked for
        outcome.traceback = repr(error)
        return outcome
    finally:
        logger.removeHandler(lines)
    if lines.tracebacks:
        outcome.traceback = lines.said[-1]
    if found is not None:
        outcome.lost, outcome.forged = lost_of(expected, found), forged_of(expected, found)
        outcome.silent = bool(outcome.lost) and not outcome.refused and not lines.said
    return outcome


def _opened(work: Path, outcome: Outcome) -> Held | None:
    try:
        return asyncio.run(held(work, accept=False))
    except (StartupError, MessagingError):
        outcome.refused = True
    try:
        return asyncio.run(held(work, accept=True))
    except (StartupError, MessagingError):
        outcome.refused_again = True
        return None


def run(folder: Path, flips: int, seed: int) -> list[Outcome]:
    whole = folder / "whole"
    asyncio.run(fill(whole))
    copy = folder / "copy"
    shutil.copytree(whole, copy)
    expected = asyncio.run(held(copy, accept=False))
    dice = random.Random(seed)
    return [flip_one(whole, folder / "flipped", expected, dice) for _ in range(flips)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(Path(folder), arguments.flips, arguments.seed)
    for outcome in outcomes:
        if outcome.is_bad:
            print(outcome)
    told = sum(bool(each.lost) and not each.silent for each in outcomes)
    print(
        f"seed {arguments.seed}: {len(outcomes)} flips; refused {sum(each.refused for each in outcomes)}, "
        f"of which {sum(each.refused_again for each in outcomes)} also with --accept-corruption; "
        f"something lost, and told, in {told}; lost in silence {sum(each.silent for each in outcomes)}; "
        f"forged {sum(bool(each.forged) for each in outcomes)}; "
        f"tracebacks {sum(bool(each.traceback) for each in outcomes)}"
    )
    return int(any(outcome.is_bad for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
