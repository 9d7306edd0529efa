"""Connects many clients of RocketMQ 4 that only send heartbeats, and prints what they cost their servers.

    python -m benchmarks.idle_remoting_clients --clients 5000 [--cluster]

Without `--cluster` it measures an embedded server, and an idle one with and without the port; with it a cluster
of one broker and one proxy. A client is a TCP connection with a heartbeat every 30 s, as a member of one of 20 groups
and as a producer, with what clients ask when they begin: its route, and its group's members when they change. They are
in a process of their own. Times are of the servers' processors.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil

from benchmarks.idle_clients import Memory, memory_of, standard_input
from tests.support.cluster_processes import ClusterProcesses
from tests.support.ports import ANY_PORT
from tests.support.stack import Stack

TOPIC = "idle-remoting"
GROUPS = 20
HEARTBEAT_S = 30.0
SETTLE_S = 10.0
CONNECTING_AT_ONCE = 50
CONNECT_TIMEOUT_S = 300.0
_ROOT = Path(__file__).parents[1]
_PREFIX = struct.Struct(">II")
_HEARTBEAT, _ROUTE = 34, 105
_IDLE_S = 5.0


def encode_request(code: int, opaque: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request as Java's client 4.9.8 writes it."""
    header = {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 409}
    text = json.dumps({**header, "serializeTypeCurrentRPC": "JSON"}, separators=(",", ":")).encode()
    return _PREFIX.pack(4 + len(text) + len(body), len(text)) + text + body


def heartbeat_of(number: int) -> bytes:
    """Return the body of a client's heartbeats."""
    group, now_ms = f"idle-{number % GROUPS}", 1_795_000_000_000
    subscriptions = [
        {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": "TAG",
            "subString": "*",
            "subVersion": now_ms,
            "tagsSet": [],
            "topic": topic,
        }
        for topic in (TOPIC, f"%RETRY%{group}")
    ]
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }
    producers = [{"groupName": "CLIENT_INNER_PRODUCER"}]
    body = {"clientID": f"10.0.{number >> 8}.{number & 255}@{number}", "consumerDataSet": [consumer]}
    return json.dumps({**body, "producerDataSet": producers}, separators=(",", ":")).encode()


class IdleClient(asyncio.Protocol):
    """One client; it counts the frames that it gets, and parses none."""

    def __init__(self, number: int, tally: "Counter[str]") -> None:
        self._numbers = itertools.count(1)
        self._body = heartbeat_of(number)
        self._tally = tally
        self._transport: asyncio.Transport
        self._is_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._tally["connected"] += 1
        transport.write(encode_request(_ROUTE, next(self._numbers), {"topic": TOPIC}))
        self.beat()

    def data_received(self, data: bytes) -> None:
        self._tally["bytes"] += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self._is_ended:
            self._tally["lost"] += 1

    def beat(self) -> None:
        """Send a heartbeat."""
        self._transport.write(encode_request(_HEARTBEAT, next(self._numbers), {}, self._body))
        self._tally["heartbeats"] += 1

    def close(self) -> None:
        self._is_ended = True
        self._transport.close()


async def live(address: str, count: int) -> None:
    """Run the process of the clients: it prints its state when all are connected, and for each line that it gets."""
    tally: Counter[str] = Counter()
    lines = await standard_input()
    host, _, port = address.rpartition(":")
    gate = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def connect(number: int) -> IdleClient:
        async with gate:
            loop = asyncio.get_running_loop()
            _, client = await loop.create_connection(lambda: IdleClient(number, tally), host, int(port))
            await asyncio.sleep(0.01)
        return client

    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        clients = await asyncio.gather(*map(connect, range(count)))
    beating = asyncio.create_task(_beat_forever(clients))
    _print_state(tally)
    while await lines.readline():
        _print_state(tally)
    beating.cancel()
    for client in clients:
        client.close()


async def _beat_forever(clients: Sequence[IdleClient]) -> None:
    while True:
        began = time.monotonic()
        for number, client in enumerate(clients):
            client.beat()
            if number % 10 == 0:
                due = began + HEARTBEAT_S * number / len(clients)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.sleep(max(0.0, began + HEARTBEAT_S - time.monotonic()))


def _print_state(tally: "Counter[str]") -> None:
    print(json.dumps(tally), flush=True)


async def _measure(address: str, pids: Sequence[int], clients: int, hold_s: float) -> dict[str, float]:
    """Return what the clients cost the servers with these process ids."""
    worked_s = _worked_s(pids)
    await asyncio.sleep(SETTLE_S)
    empty = (_worked_s(pids) - worked_s) / SETTLE_S
    before, worked_s, began = memory_of(pids), _worked_s(pids), time.monotonic()
    command = (sys.executable, "-m", "benchmarks.idle_remoting_clients", "--live", address, "--clients", str(clients))
    crowd = await asyncio.create_subprocess_exec(
        *command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 20
    )
    try:
        await _read_state(crowd)
        joined_s, joining_s = _worked_s(pids) - worked_s, time.monotonic() - began
        await asyncio.sleep(SETTLE_S)
        earlier, worked_s, began = await _read_state(crowd, asks=True), _worked_s(pids), time.monotonic()
        await asyncio.sleep(hold_s)
        state, later = await _read_state(crowd, asks=True), memory_of(pids)
        share = (_worked_s(pids) - worked_s) / (time.monotonic() - began)
    finally:
        crowd.kill()
        await crowd.wait()
    assert state["connected"] == clients, state
    return {
        "servers before, PSS MB": before.pss_kib / 1000,
        "the clients, PSS MB": (later.pss_kib - before.pss_kib) / 1000,
        "all joined, s": joining_s,
        "all joined, s of a core": joined_s,
        "without clients, % of a core": 100 * empty,
        "with heartbeats, % of a core": 100 * share,
        "heartbeats a second": (state["heartbeats"] - earlier["heartbeats"]) / hold_s,
        "connections lost": state["lost"],
    }


def _worked_s(pids: Sequence[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system for each in times)


async def _read_state(crowd: asyncio.subprocess.Process, *, asks: bool = False) -> "Counter[str]":
    assert crowd.stdin is not None
    assert crowd.stdout is not None
    if asks:
        crowd.stdin.write(b"\n")
    line = await crowd.stdout.readline()
    if not line:
        raise ConnectionError("the process of clients has ended; its reason is on standard error")
    return Counter(json.loads(line))


@contextlib.asynccontextmanager
async def _embedded(*, remoting: str = ANY_PORT) -> AsyncIterator[tuple[str, list[int]]]:
    with tempfile.TemporaryDirectory() as folder:
        options = () if remoting == ANY_PORT else ("--remoting", remoting)
        stack = Stack(Path(folder), *options)
        if remoting == ANY_PORT:
            stack.addresses["remoting"] = remoting
        await asyncio.to_thread(stack.start)
        try:
            yield stack.addresses.get("remoting", ""), [stack.process.pid]
        finally:
            await asyncio.to_thread(stack.kill9)


async def _idle_memory(remoting: str) -> Memory:
    async with _embedded(remoting=remoting) as (_, pids):
        await asyncio.sleep(_IDLE_S)
        return memory_of(pids)


async def _measure_cluster(clients: int, hold_s: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, ClusterProcesses(Path(folder), brokers=1, proxies=1) as cluster:
        pids = [each.process.pid for each in (*cluster.brokers, *cluster.proxies)]
        worked_s = _worked_s(pids[:1])
        figures = await _measure(cluster.proxies[0].remoting, pids, clients, hold_s)
        return {**figures, "the broker's part since its start, s": _worked_s(pids[:1]) - worked_s}


async def _measure_embedded(clients: int, hold_s: float) -> dict[str, float]:
    without, idle = await _idle_memory("off"), await _idle_memory(ANY_PORT)
    async with _embedded() as (address, pids):
        figures = await _measure(address, pids, clients, hold_s)
    return {"the port of an idle server, PSS MB": (idle.pss_kib - without.pss_kib) / 1000, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument(
        "--cluster", action="store_true", help="one broker and one proxy, instead of an embedded server"
    )
    parser.add_argument("--hold", type=float, default=60.0, help="seconds for which heartbeats are measured")
    parser.add_argument("--live", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.live:
        asyncio.run(live(arguments.live, arguments.clients))
        return
    measure = _measure_cluster if arguments.cluster else _measure_embedded
    for name, figure in asyncio.run(measure(arguments.clients, arguments.hold)).items():
        print(f"{name:<42} {figure:>12,.2f}")


if __name__ == "__main__":
    main()
