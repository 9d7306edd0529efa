"""The healthy client's process: `python -m tests.attacks.healthy GRPC PID`, 200 sends a second on one connection.

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
from dataclasses import asdict, dataclass
from typing import NamedTuple

from google.protobuf.message import DecodeError

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.attacks.processor_time import read_processor_s
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


class Healthy:
    """Sends at its pace, and connects again when it must."""

    def __init__(self, address: str, server_pid: int) -> None:
        self._address = address
        self._server_pid = server_pid
        self._lock = threading.Lock()
        self._begun: dict[tuple[int, int], Begun] = {}
        self._answered = set[tuple[int, int]]()
        self._ended: list[Ended] = []
        self._generation = 0
        self._wire: Wire | None = None
        self._number = 0
        self.measured_from = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Send until the end; then wait a little for the last answers."""
        due = time.monotonic()
        while not stop.is_set():
            time.sleep(max(0.0, due - time.monotonic()))
            self._send(due)
            due += 1 / PER_SECOND
        deadline = time.monotonic() + _WARM_UP_S
        while self._begun and time.monotonic() < deadline:
            time.sleep(1 / PER_SECOND)

    def _send(self, due: float) -> None:
        begun = Begun(due, read_processor_s(self._server_pid))
        try:
            if self._wire is None or self._wire.closed:
                self._connect()
            assert self._wire is not None
            with self._lock:
                self._begun[self._generation, self._wire.next_stream] = begun
            self._number += 1
            self._wire.call(SEND, send_request(message(TOPIC, _BODY, f"healthy-{self._number}")), _CLIENT_ID)
        except Disconnected:
            with self._lock:
                self._ended.append(self._end(begun, ok=False))

    def _connect(self) -> None:
        if self._wire is not None:
            self._wire.close()
        with self._lock:
            self._ended += [self._end(begun, ok=False) for begun in self._begun.values()]
            self._begun.clear()
            self._generation += 1
        generation = self._generation
        self._wire = Wire(self._address, watcher=lambda frame: self._heard(generation, frame))

    def _heard(self, generation: int, frame: Frame) -> None:
        call = (generation, frame.stream)
        if frame.kind == Kind.DATA and frame.payload and _is_ok(frame.payload):
            self._answered.add(call)
        if frame.kind == Kind.RST_STREAM or (frame.kind == Kind.HEADERS and frame.flags & h2.END_STREAM):
            with self._lock:
                begun = self._begun.pop(call, None)
                if begun is not None:
                    self._ended.append(self._end(begun, ok=call in self._answered))
                    self._answered.discard(call)

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
    healthy, stop = Healthy(sys.argv[1], int(sys.argv[2])), threading.Event()
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
