"""The healthy client's process: `python -m tests.attacks.healthy PROTOCOL ADDRESS PID`, 200 sends a second on one
connection of the protocol, `grpc` or `remoting`.

Commands   lines of the standard input: `measure` begins to count, `end` prints the figures as JSON and ends.
Latency    from the moment at which a call was due, so that one that had to wait for others shows it. A call that is not
           answered at the end counts with the time that it has waited.
Work       the processor time of the server, whose process id is PID, within the same span: what it did before it
           answered. Unlike latency, it does not depend on what else the machine does.
"""

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple, Protocol

from google.protobuf.message import DecodeError

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.attacks.processor_time import read_processor_s
from tests.attacks.remoting.requests import SEND as SEND_CODE
from tests.attacks.remoting.requests import send_fields
from tests.attacks.remoting.wire import RemotingWire
from tests.attacks.target import SEND, message, send_request
from tests.attacks.wire import Disconnected, Wire
from tests.support import http2_wire as h2
from tests.support.http2_wire import Frame, Kind

TOPIC = "healthy"
PER_SECOND = 200
_CLIENT_ID = ("x-mq-client-id", "healthy")
_BODY = bytes(100)
_WARM_UP_S = 1.0
# A call that takes longer than this has failed.
_CALL_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Figures:
    """Latencies, and the work of the server within them, in milliseconds."""

    calls: int = 0
    failed: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    p99_work_ms: float = 0.0


class Begun(NamedTuple):
    due: float
    work_s: float


class Ended(NamedTuple):
    latency_s: float
    work_s: float
    ok: bool


OnAnswer = Callable[[int, bool], None]
"""Called with the number of a call that has ended, and whether it succeeded."""


class Caller(Protocol):
    """One connection on which messages are sent. `next_call` is the number of the next call."""

    @property
    def closed(self) -> bool: ...

    @property
    def next_call(self) -> int: ...

    def send_message(self, message_id: str) -> None: ...

    def close(self) -> None: ...


class GrpcCaller:
    def __init__(self, address: str, on_answer: OnAnswer) -> None:
        self._on_answer = on_answer
        self._answered = set[int]()
        self._wire = Wire(address, watcher=self._heard)

    @property
    def closed(self) -> bool:
        return self._wire.closed

    @property
    def next_call(self) -> int:
        return self._wire.next_stream

    def send_message(self, message_id: str) -> None:
        self._wire.call(SEND, send_request(message(TOPIC, _BODY, message_id)), _CLIENT_ID)

    def close(self) -> None:
        self._wire.close()

    def _heard(self, frame: Frame) -> None:
        if frame.kind == Kind.DATA and frame.payload and _is_ok(frame.payload):
            self._answered.add(frame.stream)
        if frame.kind == Kind.RST_STREAM or (frame.kind == Kind.HEADERS and frame.flags & h2.END_STREAM):
            is_ok = frame.stream in self._answered
            self._answered.discard(frame.stream)
            self._on_answer(frame.stream, is_ok)


class RemotingCaller:
    def __init__(self, address: str, on_answer: OnAnswer) -> None:
        self._wire = RemotingWire(address, on_answer=lambda answer: on_answer(answer.opaque, answer.code == 0))

    @property
    def closed(self) -> bool:
        return self._wire.closed

    @property
    def next_call(self) -> int:
        return self._wire.sent + 1

    def send_message(self, message_id: str) -> None:
        self._wire.call(SEND_CODE, _BODY, **send_fields(TOPIC, i=f"UNIQ_KEY\x01{message_id}"))

    def close(self) -> None:
        self._wire.close()


CALLERS: dict[str, Callable[[str, OnAnswer], Caller]] = {"grpc": GrpcCaller, "remoting": RemotingCaller}


class Healthy:
    """Sends at its pace, and connects again when it must."""

    def __init__(self, connect: Callable[[OnAnswer], Caller], server_pid: int) -> None:
        self._open = connect
        self._server_pid = server_pid
        self._lock = threading.Lock()
        self._begun: dict[tuple[int, int], Begun] = {}
        self._ended: list[Ended] = []
        self._generation = 0
        self._caller: Caller | None = None
        self._number = 0
        self.measured_from = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Send until the end; then wait for the last answers, as long as an answer may take."""
        due = time.monotonic()
        while not stop.is_set():
            time.sleep(max(0.0, due - time.monotonic()))
            self._send(due)
            due += 1 / PER_SECOND
        deadline = time.monotonic() + _CALL_TIMEOUT_S
        while self._begun and time.monotonic() < deadline:
            time.sleep(1 / PER_SECOND)

    def _send(self, due: float) -> None:
        begun = Begun(due, read_processor_s(self._server_pid))
        try:
            if self._caller is None or self._caller.closed:
                self._connect()
            assert self._caller is not None
            with self._lock:
                self._begun[self._generation, self._caller.next_call] = begun
            self._number += 1
            self._caller.send_message(f"healthy-{self._number}")
        except Disconnected:
            with self._lock:
                self._ended.append(self._end(begun, ok=False))

    def _connect(self) -> None:
        if self._caller is not None:
            self._caller.close()
        with self._lock:
            self._ended += [self._end(begun, ok=False) for begun in self._begun.values()]
            self._begun.clear()
            self._generation += 1
        generation = self._generation
        self._caller = self._open(lambda call, is_ok: self._note_answer((generation, call), is_ok=is_ok))

    def _note_answer(self, call: tuple[int, int], *, is_ok: bool) -> None:
        with self._lock:
            begun = self._begun.pop(call, None)
            if begun is not None:
                self._ended.append(self._end(begun, ok=is_ok))

    def _end(self, begun: Begun, *, ok: bool) -> Ended:
        return Ended(time.monotonic() - begun.due, read_processor_s(self._server_pid) - begun.work_s, ok)

    def begin(self) -> None:
        with self._lock:
            self._ended.clear()

    def figures(self) -> Figures:
        with self._lock:
            ended = self._ended + [self._end(begun, ok=False) for begun in self._begun.values()]
        if len(ended) < 2:
            return Figures(calls=len(ended), failed=len(ended))
        latencies = [1000 * each.latency_s for each in ended]
        cuts = statistics.quantiles(latencies, n=100, method="inclusive")
        work = statistics.quantiles([1000 * each.work_s for each in ended], n=100, method="inclusive")
        failed = sum(not each.ok or each.latency_s > _CALL_TIMEOUT_S for each in ended)
        return Figures(len(ended), failed, cuts[49], cuts[98], max(latencies), work[98])


def _is_ok(data: bytes) -> bool:
    try:
        answer = rpc.SendMessageResponse.FromString(data[5:])
    except DecodeError:
        return False
    return answer.status.code == pb.OK


def main() -> None:
    protocol, address, pid = sys.argv[1:]
    connect = CALLERS[protocol]
    healthy, stop = Healthy(lambda on_answer: connect(address, on_answer), int(pid)), threading.Event()
    sending = threading.Thread(target=healthy.run, args=(stop,))
    sending.start()
    time.sleep(_WARM_UP_S)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "measure":
            healthy.begin()
        else:
            break
    stop.set()
    sending.join()
    print(json.dumps(asdict(healthy.figures())), flush=True)


if __name__ == "__main__":
    main()
