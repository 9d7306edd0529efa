"""Measures searches by key: `python -m benchmarks.key_search [--messages N]`.

A store gets N messages in 8 queues, each with an id and a key of its own. The medians of these are printed:

found       a key of one message, anywhere in the store
absent      a key that no message has
scan        the same search without an order of keys, as in earlier versions: every hash of every block
turns       p99 of how late a timer of the event loop is, alone, and while 16 search without a pause

and what sorting the keys costs a message when a block is written. The page cache has everything that is read.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ternmq_broker.inspecting.key_searches import KeySearches
from ternmq_broker.store.disk.files import DiskFolder, DiskFolders
from ternmq_broker.store.index import index_block, key_table
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_writer import AppendBatch
from ternmq_broker.store_tools.checking.log_walk import read_index_blocks
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30
TOPIC, QUEUES = "orders", 8
BATCH = 32
SPILL_ENTRIES = 16_384
SEARCHES = 200
SCANS = 3
SEARCHERS = 16
TURNS = 2000
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where to keep the data  [default: the temporary folder]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        figures = measured(Path(folder), arguments.messages)
    if arguments.json:
        print(json.dumps(figures))
        return
    for label, figure in figures.items():
        print(f"{label:<66} {figure:>14,.3f}", flush=True)


def measured(folder: Path, messages: int) -> Figures:
    filling = filled(folder, messages)
    store = MessageStore(DiskFolders(folder), segment_bytes=GIB)
    dice = random.Random(1)
    there = [f"order-{dice.randrange(messages)}" for _ in range(SEARCHES)]
    found = milliseconds(lambda key: len(store.reader.find_by_key(TOPIC, key, 64)), there, expected=1)
    absent = milliseconds(
        lambda key: len(store.reader.find_by_key(TOPIC, key, 64)),
        [f"nothing-{at}" for at in range(SEARCHES)],
        expected=0,
    )
    scanned = scanned_ms(folder / "index")
    alone, beside = asyncio.run(turns(store, there))
    store.abandon_files()
    return {
        "messages": messages,
        **filling,
        "a key that is there, ms": found.wall,
        "of CPU": found.cpu,
        "a key that is not there, ms": absent.wall,
        "of CPU ": absent.cpu,
        "a scan of all keys, ms": scanned.wall,
        "of CPU  ": scanned.cpu,
        "ratio of the scan to a key that is there, of CPU": scanned.cpu / found.cpu,
        "ratio of the scan to a key that is not there, of CPU": scanned.cpu / absent.cpu,
        "loop alone, p99 of a timer's delay, ms": alone,
        f"loop beside {SEARCHERS} that search, p99 of a timer's delay, ms": beside,
    }


def filled(folder: Path, messages: int) -> Figures:
    """Fill a store; return its CPU time, and that of writing and of sorting index blocks."""
    store = MessageStore(DiskFolders(folder), segment_bytes=GIB)
    began, spilling = time.thread_time(), 0.0
    for first in range(0, messages, BATCH):
        batch = [incoming(number) for number in range(first, min(first + BATCH, messages))]
        store.writer.append_batches([AppendBatch(TOPIC, first // BATCH % QUEUES, batch)], 1_000_000 + first)
        if first % SPILL_ENTRIES == 0:
            spilling += spilled(store)
    whole = time.thread_time() - began
    store.close()
    return {
        "filling, us of CPU a message": whole / messages * 1e6,
        "of that index blocks": spilling / messages * 1e6,
        "of that the sort of keys": sorting_us(),
    }


def incoming(number: int) -> NewMessage:
    name, key = f"{number:034X}", f"order-{number}"
    system = definition_pb2.SystemProperties(message_id=name, keys=[key], tag="tag").SerializeToString()
    return NewMessage(5, system, b"", (name, key))


def spilled(store: MessageStore) -> float:
    """Write index blocks as a broker does at intervals; return their seconds of CPU."""
    store.log.sync_segments()
    spent = 0.0
    while job := store.checkpoints.prepare_spill(entries_min=SPILL_ENTRIES):
        began = time.thread_time()
        job.write()
        spent += time.thread_time() - began
        store.checkpoints.finish_spill(job)
    return spent


def sorting_us() -> float:
    """Return the sorting time of one message with two keys, in a block of the usual size."""
    dice = random.Random(2)
    hashes = array("I", [dice.getrandbits(32) for _ in range(2 * SPILL_ENTRIES)])
    positions = array("I", [number // 2 * 100 for number in range(len(hashes))])
    spent = []
    for _ in range(10):
        began = time.thread_time()
        key_table.encode_sorted(hashes, positions)
        spent.append(time.thread_time() - began)
    return statistics.median(spent) / SPILL_ENTRIES * 1e6


class Spent(NamedTuple):
    """Medians of searches, in milliseconds: by the clock, which other load on the machine affects, and of CPU."""

    wall: float
    cpu: float


def milliseconds(search: Callable[[str], int], keys: list[str], *, expected: int) -> Spent:
    spent = []
    for key in keys:
        began, cpu_began = time.perf_counter(), time.thread_time()
        count = search(key)
        spent.append(((time.perf_counter() - began) * 1000, (time.thread_time() - cpu_began) * 1000))
        assert count == expected, (key, count)
    wall, cpu = zip(*spent, strict=True)
    return Spent(statistics.median(wall), statistics.median(cpu))


def scanned_ms(index: Path) -> Spent:
    blocks = list(blocks_in_log_order(index))
    return milliseconds(lambda key: len(scan(blocks, key)), [f"nothing-{at}" for at in range(SCANS)], expected=0)


def blocks_in_log_order(index: Path) -> "Iterator[array[int]]":
    """Yield the hashes of each block as earlier versions had them, the last block first."""
    folder = DiskFolder(index)
    for name in reversed([name for name in folder.names() if name.isdigit()]):
        blocks = []
        for position, head, _, data in read_index_blocks(folder, name):
            hashes, positions = index_block.decode_keys(data, head, file_position=position)
            order = sorted(range(len(hashes)), key=positions.__getitem__)
            blocks.append(array("I", map(hashes.__getitem__, order)))
        yield from reversed(blocks)


def scan(blocks: "list[array[int]]", key: str) -> list[int]:
    """Search as earlier versions did, without reading the files."""
    wanted = {index_block.key_hash(TOPIC, key)}
    return [at for hashes in blocks for at in range(len(hashes) - 1, -1, -1) if hashes[at] in wanted]


async def turns(store: MessageStore, keys: list[str]) -> tuple[float, float]:
    """Return the p99 of how late a repeated timer is, in milliseconds: alone, and beside searches."""
    alone = await p99_of_delays()
    searches = KeySearches(store.reader)

    async def searcher() -> None:
        while True:
            for key in keys:
                await searches.find_messages(TOPIC, key, 64)

    searchers = [asyncio.create_task(searcher()) for _ in range(SEARCHERS)]
    beside = await p99_of_delays()
    for each in searchers:
        each.cancel()
    ended = await asyncio.gather(*searchers, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
    return alone, beside


async def p99_of_delays() -> float:
    delays = []
    for _ in range(TURNS):
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        delays.append((time.perf_counter() - began - 0.001) * 1000)
    return sorted(delays)[len(delays) * 99 // 100]


if __name__ == "__main__":
    main()
