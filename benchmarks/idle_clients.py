"""Connects many clients that do nothing, and prints how much memory they cost their servers.

    python -m benchmarks.idle_clients --clients 5000 [--polling] [--endpoint HOST:PORT]... [--watch PID]...

Without an endpoint it measures an embedded server of its own. Other benchmarks start a crowd with `connect`, read their
own servers' memory with `memory_of`, and ask the crowd with `state` whether all clients are still connected.

A client is a TCP connection of its own with HTTP/2, a Telemetry stream on which settings were exchanged, and a
heartbeat every 10 s; with `polling` also a ReceiveMessage that waits 30 s, and the next one when it has ended. The
crowd is in processes of its own, so that nothing of it is counted.

A grpc channel for each client would cost the machine more than the measured server, so frames are encoded here by hand.
That is little work, because a client may choose what its server sends: without a dynamic table (SETTINGS) headers can
be skipped, and with a connection window that is never used up there is nothing to give back. Of the answers' headers
only `grpc-status` is searched, as gRPC's servers write it; a proxy in between that compresses it (Huffman) would make
each call count as failed.
"""

import argparse
import asyncio
import contextlib
import json
import struct
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.embedded_server import start_server
from ternmq.admin import topics as topic_calls
from ternmq_command.calls.admin import AdminClient
from ternmq_protos.v2 import definition_pb2, service_pb2

TOPIC = "idle-clients"
GROUPS = 20
CLIENTS_PER_PROCESS = 5000  # below the usual limit of open files
CONNECTING_AT_ONCE = 50
CONNECT_TIMEOUT_S = 120.0
CALL_TIMEOUT_S = 3
POLL_S = 30
HEARTBEAT_S = 10.0
_TICK_S = 0.1

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM = _ACK = 0x1
_END_HEADERS = 0x4
_FRAME_HEADER = struct.Struct(">BHBBI")  # length (8 + 16 bits), type, flags, stream
_FRAME_BYTES = _FRAME_HEADER.size
_HEADER_TABLE_SIZE = 1
_STATUS_OK = b"\x0bgrpc-status\x010"
_INDEXED = b"\x40"
_TABLE_SIZE_UPDATE = 0x20
_TABLE_BYTES_DEFAULT = 4096
_TELEMETRY_STREAM = 1


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return _FRAME_HEADER.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def headers_of(method: str, client_id: str, authority: str, timeout_s: int | None) -> bytes:
    """Encode a header block of literals that the server puts into its dynamic table, as it does for clients in Java and
    Go: each request id is different, so that the table fills up. Later blocks refer to none."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/apache.rocketmq.v2.MessagingService/{method}",
        ":authority": authority,
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "grpc-java-netty/1.53.0",
        "x-mq-language": "JAVA",
        "x-mq-protocol": "v2",
        "x-mq-client-version": "5.0.7",
        "x-mq-date-time": "20261121T120000Z",
        "x-mq-request-id": str(uuid.uuid4()),
        "x-mq-client-id": client_id,
    }
    if timeout_s is not None:
        headers["grpc-timeout"] = f"{timeout_s}S"
    return b"".join(_INDEXED + _literal(name) + _literal(value) for name, value in headers.items())


def _literal(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 127  # longer ones have another form
    return bytes((len(data),)) + data


def grpc_data(message: bytes) -> bytes:
    return struct.pack(">?I", False, len(message)) + message


def opening() -> bytes:
    """Return the preface; no header table, no pushes; a connection window that lasts for ever."""
    settings = struct.pack(">HIHI", _HEADER_TABLE_SIZE, 0, 2, 0)
    window = struct.pack(">I", 2**31 - 1 - 65_535)
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(_SETTINGS, 0, 0, settings) + frame(_WINDOW_UPDATE, 0, 0, window)


def table_update(settings: bytes) -> bytes:
    """Return what a header block has to begin with after these settings of the server: the size of the dynamic table,
    if the server wants a smaller one."""
    size = dict(struct.iter_unpack(">HI", settings)).get(_HEADER_TABLE_SIZE, _TABLE_BYTES_DEFAULT)
    if size >= _TABLE_BYTES_DEFAULT:
        return b""
    if size < 31:
        return bytes((_TABLE_SIZE_UPDATE | size,))
    more = size - 31
    rest = bytes((more,)) if more < 128 else bytes((more & 127 | 128, more >> 7))
    return bytes((_TABLE_SIZE_UPDATE | 31,)) + rest


Client = TypeVar("Client", bound="IdleClient")


class IdleClient(asyncio.Protocol):
    """One client. `ready` is done when its settings were answered; all clients of the process share `tally`."""

    def __init__(self, number: int, authority: str, tally: "Counter[str]", *, polling: bool) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._id = f"idle-{number}@127.0.0.1@0@{number:x}"
        self._group = f"idle-{number % GROUPS}"
        self._authority = authority
        self._tally = tally
        self._polling = polling
        self._next_stream = _TELEMETRY_STREAM
        self._calls: dict[int, str] = {}
        self._unread = b""
        self._table_update = b""
        self._transport: asyncio.Transport
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(opening())
        command = service_pb2.TelemetryCommand(settings=self.settings())
        self._call("Telemetry", command.SerializeToString(), timeout_s=None, more_follows=True)

    def settings(self) -> definition_pb2.Settings:
        """Create the client's settings."""
        return _settings(self._group)

    def heartbeat(self) -> None:
        request = service_pb2.HeartbeatRequest(client_type=definition_pb2.SIMPLE_CONSUMER)
        request.group.name = self._group
        self._call("Heartbeat", request.SerializeToString(), timeout_s=CALL_TIMEOUT_S)

    def poll(self) -> None:
        request = service_pb2.ReceiveMessageRequest(batch_size=32)
        request.group.name = self._group
        request.message_queue.topic.name = TOPIC
        request.message_queue.id = -1
        request.filter_expression.expression = "*"
        request.invisible_duration.seconds = 30
        request.long_polling_timeout.seconds = POLL_S
        self._call("ReceiveMessage", request.SerializeToString(), timeout_s=POLL_S + CALL_TIMEOUT_S)

    def close(self) -> None:
        self._closing = True
        self._transport.abort()

    def _call(self, method: str, message: bytes, *, timeout_s: int | None, more_follows: bool = False) -> None:
        if self._transport.is_closing():
            return
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self._calls[stream] = method
        block = self._table_update + headers_of(method, self._id, self._authority, timeout_s)
        self._table_update = b""
        head = frame(_HEADERS, _END_HEADERS, stream, block)
        flags = 0 if more_follows else _END_STREAM
        self._transport.write(head + frame(_DATA, flags, stream, grpc_data(message)))

    def data_received(self, data: bytes) -> None:
        unread = self._unread + data
        begin = 0
        while len(unread) - begin >= _FRAME_BYTES:
            high, low, kind, flags, stream = _FRAME_HEADER.unpack_from(unread, begin)
            end = begin + _FRAME_BYTES + (high << 16 | low)
            if end > len(unread):
                break
            self._frame_received(kind, flags, stream, unread[begin + _FRAME_BYTES : end])
            begin = end
        self._unread = unread[begin:]

    def _frame_received(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            self._transport.write(frame(kind, _ACK, 0, payload if kind == _PING else b""))
            if kind == _SETTINGS:
                self._table_update = table_update(payload)
        elif kind == _DATA and stream == _TELEMETRY_STREAM:
            self._read_command(payload)
        elif kind == _RST_STREAM and stream in self._calls:
            self._ended(stream, well=False)
        elif kind == _HEADERS and flags & _END_STREAM:
            self._ended(stream, well=_STATUS_OK in payload)
        elif kind == _GOAWAY:
            self._transport.close()

    def _read_command(self, payload: bytes) -> None:
        """Handle a command: the server's first one is the answer to the settings."""
        if self.ready.done():
            return
        command = service_pb2.TelemetryCommand.FromString(payload[5:])
        if command.status.code != definition_pb2.OK or not command.HasField("settings"):
            self.ready.set_exception(ConnectionError(f"the settings were refused: {command.status.message}"))
            return
        self.ready.set_result(None)
        self._tally["connected"] += 1
        if self._polling:
            self.poll()

    def _ended(self, stream: int, *, well: bool) -> None:
        method = self._calls.pop(stream)
        if stream == _TELEMETRY_STREAM:
            self._transport.close()
            return
        self._tally[f"{method} {'ended' if well else 'failed'}"] += 1
        if method == "ReceiveMessage":
            self.poll()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(exc or ConnectionError("the connection was closed before the settings' answer"))
        elif not self._closing and not self.ready.exception():
            self._tally["connected"] -= 1
            self._tally["lost"] += 1


def _settings(group: str) -> definition_pb2.Settings:
    """Create the settings of a simple consumer of the official Java client."""
    settings = definition_pb2.Settings(client_type=definition_pb2.SIMPLE_CONSUMER)
    settings.access_point.scheme = definition_pb2.IPv4
    settings.access_point.addresses.add(host="127.0.0.1", port=8081)
    settings.request_timeout.seconds = CALL_TIMEOUT_S
    settings.subscription.group.name = group
    settings.subscription.long_polling_timeout.seconds = POLL_S
    entry = settings.subscription.subscriptions.add()
    entry.topic.name = TOPIC
    entry.expression.type = definition_pb2.TAG
    entry.expression.expression = "*"
    agent = settings.user_agent
    agent.language, agent.version = definition_pb2.JAVA, "5.0.7"
    agent.platform, agent.hostname = "Linux 6.1.0", "idle-clients"
    return settings


async def live(endpoints: Sequence[str], numbers: range, *, polling: bool) -> None:
    """Run one process of a crowd: it prints its state when all are connected, and for each line that it gets; ends with
    its input."""
    tally: Counter[str] = Counter()
    lines = await standard_input()
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        clients = await _connect_all(endpoints, numbers, tally, polling=polling)
    beating = asyncio.create_task(beat(clients, IdleClient.heartbeat, HEARTBEAT_S))
    _say(tally)
    while await lines.readline():
        _say(tally)
    beating.cancel()
    for client in clients:
        client.close()


async def _connect_all(
    endpoints: Sequence[str], numbers: range, tally: "Counter[str]", *, polling: bool
) -> list[IdleClient]:
    gate = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def connected(number: int) -> IdleClient:
        endpoint = endpoints[number % len(endpoints)]
        host, port = endpoint.rsplit(":", 1)
        async with gate:
            _, client = await asyncio.get_running_loop().create_connection(
                lambda: IdleClient(number, endpoint, tally, polling=polling), host, int(port)
            )
            await client.ready
        return client

    return list(await asyncio.gather(*map(connected, numbers)))


async def beat(clients: Sequence[Client], speak: Callable[[Client], None], every_s: float) -> None:
    """Call `speak` for each client at its own moment of every so many seconds."""
    ticks = round(every_s / _TICK_S)
    loop = asyncio.get_running_loop()
    began, tick = loop.time(), 0
    while True:
        for client in clients[tick % ticks :: ticks]:
            speak(client)
        tick += 1
        await asyncio.sleep(began + tick * _TICK_S - loop.time())


async def standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def _say(tally: "Counter[str]") -> None:
    sys.stdout.write(json.dumps(tally) + "\n")
    sys.stdout.flush()


class Crowd:
    """Idle clients in processes of their own, until `close`."""

    def __init__(self, processes: list[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    async def state(self) -> "Counter[str]":
        """Return the current counts: `connected` clients and those `lost`, and calls as `Heartbeat ended`, `Heartbeat
        failed`, `ReceiveMessage ended`, `ReceiveMessage failed`."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
        return await self.heard()

    async def heard(self) -> "Counter[str]":
        """Return the sum of what each process prints next; ConnectionError if one has ended."""
        state: Counter[str] = Counter()
        for process in self._processes:
            assert process.stdout is not None
            line = await process.stdout.readline()
            if not line:
                raise ConnectionError("a process of clients has ended; its reason is on standard error")
            state.update(json.loads(line))
        return state

    async def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            await process.wait()


async def connect(endpoints: Sequence[str], clients: int, *, polling: bool) -> Crowd:
    """Connect that many clients to the endpoints (`host:port`) in turn; return when all have their settings.

    They use the topic TOPIC, which must exist; the groups `idle-0` and so on may be created by their use.
    """
    starts = range(0, clients, CLIENTS_PER_PROCESS)
    crowd = Crowd(
        [
            await _start_process(endpoints, range(start, min(start + CLIENTS_PER_PROCESS, clients)), polling=polling)
            for start in starts
        ]
    )
    try:
        state = await crowd.heard()
        assert state["connected"] == clients, state
    except BaseException:
        await crowd.close()
        raise
    return crowd


async def _start_process(endpoints: Sequence[str], numbers: range, *, polling: bool) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "benchmarks.idle_clients", "--numbers", str(numbers.start), str(numbers.stop)]
    command += [part for endpoint in endpoints for part in ("--endpoint", endpoint)]
    command += ["--polling"] if polling else []
    root = Path(__file__).parents[1]
    return await asyncio.create_subprocess_exec(*command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one process or several. Only `pss_kib` can be added up: it divides shared memory among
    processes."""

    rss_kib: int
    pss_kib: int
    own_kib: int

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(self.rss_kib + other.rss_kib, self.pss_kib + other.pss_kib, self.own_kib + other.own_kib)


def memory_of(pids: Sequence[int]) -> Memory:
    return sum((_memory(pid) for pid in pids), Memory(0, 0, 0))


def _memory(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {name.rstrip(":"): int(value) for name, value, _ in map(str.split, lines)}
    return Memory(kib["Rss"], kib["Pss"], kib["Private_Clean"] + kib["Private_Dirty"])


async def measure(
    endpoints: Sequence[str], pids: Sequence[int], clients: int, *, polling: bool, hold_s: float
) -> dict[str, float]:
    """Return the servers' memory before, with the clients connected, and after they were connected for `hold_s`."""
    before = memory_of(pids)
    crowd = await connect(endpoints, clients, polling=polling)
    connected = memory_of(pids)
    await asyncio.sleep(hold_s)
    state, later = await crowd.state(), memory_of(pids)
    await crowd.close()
    return {
        "servers before, PSS MB": before.pss_kib / 1000,
        "with clients just connected, PSS MB": connected.pss_kib / 1000,
        f"after {hold_s:g} s, PSS MB": later.pss_kib / 1000,
        f"after {hold_s:g} s, RSS MB": later.rss_kib / 1000,
        "a client, PSS KiB": (later.pss_kib - before.pss_kib) / clients,
        **state,
    }


@contextlib.asynccontextmanager
async def embedded() -> AsyncIterator[tuple[str, int]]:
    """Start a server of our own; yield its endpoint and its process id."""
    with tempfile.TemporaryDirectory() as folder:
        server, endpoint = await asyncio.to_thread(start_server, Path(folder))
        try:
            yield endpoint, server.pid
        finally:
            server.terminate()
            await asyncio.to_thread(server.wait)


async def _main(arguments: argparse.Namespace) -> dict[str, float]:
    polling, hold_s, clients = arguments.polling, arguments.hold, arguments.clients
    if arguments.endpoint:
        return await measure(arguments.endpoint, arguments.watch, clients, polling=polling, hold_s=hold_s)
    async with embedded() as (endpoint, pid):
        with AdminClient(endpoint) as admin:
            await asyncio.to_thread(admin.send_call, topic_calls.create_topic(TOPIC, "normal", 8))
        return await measure([endpoint], [pid], clients, polling=polling, hold_s=hold_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--endpoint", action="append", default=[], help="HOST:PORT of a proxy; may be given again")
    parser.add_argument("--watch", action="append", default=[], type=int, help="process whose memory counts")
    parser.add_argument("--polling", action="store_true", help="each client has a ReceiveMessage waiting")
    parser.add_argument("--hold", type=float, default=25.0, help="seconds that the clients stay")
    parser.add_argument("--numbers", nargs=2, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.numbers:
        asyncio.run(live(arguments.endpoint, range(*arguments.numbers), polling=arguments.polling))
        return
    for name, figure in asyncio.run(_main(arguments)).items():
        print(f"{name:<42} {figure:>12,.2f}")


if __name__ == "__main__":
    main()
