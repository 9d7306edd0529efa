"""The network between processes: listening sockets and connections that carry bytes in order, when chance lets them.

A connection has two ends, each a transport of the process that has it. Bytes, and what is heard of the other end's end,
arrive in the order in which they were sent. What is on the way when a connection is reset is lost. Between two machines
that are cut off from each other nothing arrives; what was sent comes when that is over, or the connection is reset.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from tests.simulation.running.loop import running_process

if TYPE_CHECKING:
    from tests.simulation.running.loop import ProcessLoop, WorldLoop

_LATENCY_S = (0.00005, 0.0005)
_LATE_S = 0.3
_LATE_SHARE = 0.02
_IN_FLIGHT_BYTES_MAX = 256 << 10
_NEXT_S = 1e-9


class Listener:
    """A socket that listens; what the storage service has for one of the kernel's."""

    def __init__(self, network: "Network", address: str, process: "ProcessLoop") -> None:
        self._network = network
        self.address = address
        self.process = process
        self.waiting: deque[Connection] = deque()

    def setblocking(self, _flag: bool) -> None: ...

    def accept(self) -> "tuple[Connection, str]":
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.popleft(), "peer"

    def getsockname(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def close(self) -> None:
        self._network.listeners.pop(self.address, None)


class Connection(asyncio.Transport):
    """One end."""

    def __init__(self, network: "Network", process: "ProcessLoop", peer_name: str) -> None:
        super().__init__()
        self._network = network
        self.process = process
        self._peer_name = peer_name
        self.other: Connection
        self._protocol: asyncio.BufferedProtocol | None = None
        self._unread: deque[bytes | Exception | None] = deque()
        self._reads = True
        self._closing = False
        self._lost = False
        self._last_s = 0.0
        self._in_flight = 0
        self._is_paused = False
        self._high = _IN_FLIGHT_BYTES_MAX

    def setblocking(self, _flag: bool) -> None: ...

    def begin(self, protocol: asyncio.BaseProtocol) -> "Connection":
        """The process has a protocol for it."""
        self.process.call_soon(self._made, cast("asyncio.BufferedProtocol", protocol))
        return self

    def _made(self, protocol: asyncio.BufferedProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self._give()

    # --- asyncio.Transport

    def get_extra_info(self, name: str, default: object = None) -> Any:  # noqa: ANN401
        return self._peer_name if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reads and not self._closing

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        if not self._reads:
            self._reads = True
            self.process.call_soon(self._give)

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data:
            return
        self._send(bytes(data))
        self._in_flight += len(data)
        if self._in_flight > self._high and not self._is_paused and self._protocol is not None:
            self._is_paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._send(None)
            self.process.call_soon(self._lose, None)

    def abort(self) -> None:
        if not self._lost:
            self._closing = True
            self._send(ConnectionResetError("the other end has reset it"))
            self.process.call_soon(self._lose, None)

    # --- on the way

    def _send(self, what: bytes | Exception | None) -> None:
        if not self._network.holds(self, what):
            self.send_on(what)

    def send_on(self, what: bytes | Exception | None) -> None:
        """Have it arrive when chance lets it."""
        arrives_s = max(self._last_s + _NEXT_S, self._network.arrival_s(self.process, self.other.process))
        self._last_s = arrives_s
        self._network.loop.call_at(arrives_s, self._arrive, what)

    def _arrive(self, what: bytes | Exception | None) -> None:
        """At the other end, unless its machines can't reach each other by now."""
        other = self.other
        if other._lost or not other.process.is_alive:
            if isinstance(what, bytes) and self._network.answers_of(other.process):
                self.reset("the other machine knows nothing of it")
            return
        if isinstance(what, bytes):
            self._in_flight -= len(what)
            if self._is_paused and self._in_flight <= self._high // 2:
                self.process.call_soon(self._resume_writing)
        other._unread.append(what)
        other.process.call_soon(other._give)

    def _resume_writing(self) -> None:
        if self._is_paused and self._protocol is not None and not self._lost:
            self._is_paused = False
            self._protocol.resume_writing()

    def _give(self) -> None:
        """Give the process what has come."""
        protocol = self._protocol
        while self._unread and self._reads and not self._lost and protocol is not None:
            what = self._unread.popleft()
            if isinstance(what, bytes):
                self._give_bytes(protocol, what)
            else:
                self._lose(what)

    def _give_bytes(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._lost:
            buffer = memoryview(protocol.get_buffer(len(view)))
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            view = view[size:]
            protocol.buffer_updated(size)
            if not self._reads and view:
                self._unread.appendleft(bytes(view))
                return

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = self._closing = True
            self._network.connections.pop(self, None)
            if self._protocol is not None:
                self._protocol.connection_lost(error)

    def reset(self, why: str) -> None:
        """This end hears that the connection is no more; the other one does not."""
        self._unread.append(ConnectionResetError(why))
        self._reads = True
        self.process.call_soon(self._give)


class Network:
    """All connections, and who can't reach whom."""

    def __init__(self, loop: "WorldLoop") -> None:
        self.loop = loop
        self.listeners: dict[str, Listener] = {}
        self.connections: dict[Connection, None] = {}
        self._cut_until_s: dict[frozenset[str], float] = {}
        self._held: dict[tuple[str, str], list[tuple[Connection, bytes | Exception | None]]] = {}
        self.is_disturbed = True

    def bind(self, address: str) -> Listener:
        """A socket of the process that calls."""
        process = running_process()
        listener = self.listeners[address] = Listener(self, address, process)
        return listener

    def cut(self, one: str, other: str, for_s: float) -> None:
        """Machines of these names don't reach each other for a while."""
        self._cut_until_s[frozenset((one, other))] = self.loop.time() + for_s

    def hold(self, sender: str, receiver: str) -> None:
        """What one machine sends to another one is on the way until `release`; the other direction is as before."""
        self._held[sender, receiver] = []

    def release(self) -> None:
        """What was held arrives now, in the order in which it was sent."""
        held, self._held = self._held, {}
        for sent in held.values():
            for connection, what in sent:
                connection.send_on(what)

    def holds(self, connection: "Connection", what: bytes | Exception | None) -> bool:
        """Whether something that is sent now is held; if so it is kept for later."""
        held = self._held.get((connection.process.name, connection.other.process.name))
        if held is None:
            return False
        held.append((connection, what))
        return True

    def heal(self) -> None:
        """From now on nothing is late or cut off."""
        self._cut_until_s.clear()
        self.is_disturbed = False

    def arrival_s(self, sender: "ProcessLoop", receiver: "ProcessLoop") -> float:
        """When something that is sent now arrives."""
        dice, now_s = self.loop.dice, self.loop.time()
        cut_until_s = self._cut_until_s.get(frozenset((sender.name, receiver.name)), 0.0)
        late_s = dice.uniform(0, _LATE_S) if self.is_disturbed and dice.random() < _LATE_SHARE else 0.0
        again_s = dice.uniform(0, 0.5) if cut_until_s > now_s else 0.0
        return max(now_s, cut_until_s + again_s) + dice.uniform(*_LATENCY_S) + late_s

    def answers_of(self, gone: "ProcessLoop") -> bool:
        """Whether the machine of a process that is no more says so to who sends it something."""
        return any(each.process.name == gone.name for each in self.listeners.values()) or not gone.lost_power

    def ended(self, process: "ProcessLoop") -> None:
        """The process is no more: its machine says so to all who had a connection, unless it lost power."""
        for address in [address for address, each in self.listeners.items() if each.process is process]:
            del self.listeners[address]
        for end in [each for each in self.connections if each.process is process]:
            del self.connections[end]
            if not process.lost_power:
                end._send(ConnectionResetError("the process is no more"))

    def reset_some(self, share: float) -> None:
        """Some ends of connections hear that these are no more; of the others, half never."""
        dice = self.loop.dice
        for end in list(self.connections):
            if dice.random() < share and not end._lost:
                end.reset("something in between has reset it")
                if dice.random() < 0.5:
                    self.loop.call_later(dice.uniform(0, 2.0), end.other.reset, "reset in between")

    async def connect(self, address: str) -> Connection:
        """A connection of the process that calls. OSError."""
        process = running_process()
        listener = self.listeners.get(address)
        if listener is None:
            await asyncio.sleep(self.loop.dice.uniform(*_LATENCY_S))
            raise ConnectionRefusedError(111, "Connection refused")
        await asyncio.sleep(max(0.0, self.arrival_s(process, listener.process) - self.loop.time()))
        if self.listeners.get(address) is not listener:
            raise ConnectionRefusedError(111, "Connection refused")
        here, there = (Connection(self, process, address), Connection(self, listener.process, f"{process.name}:0"))
        here.other, there.other = there, here
        self.connections[here] = self.connections[there] = None
        listener.waiting.append(there)
        listener.process.came(listener)
        return here
