"""Measures ten times as many senders as a server can serve: `python -m benchmarks.overload [--delays 0 1000] [--seconds
N]`.

For each `overload_delay_ms`, on a server of its own:
best       messages a second that are served with 64 in flight on 4 connections: the server's limit
flood      640 in flight on 16 connections, each of which is sent again as soon as it was answered
healthy    a client on its own connection sends 50 a second, alone and then beside the flood

Server and clients have a core each; the healthy client has priority there, if the user may request that, so that the
flood's processes do not take its time. Latencies are those of all answers, of served and of refused sends; sends that a
client gave up after 3 seconds are counted.
"""

import argparse
import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bench.load import Figures, build_loader, figures_of, held
from benchmarks.bench.processes import pinned, urgent
from benchmarks.embedded_server import cpu_s, start_server, status_kib
from ternmq.admin import topics as topic_calls
from ternmq_command.calls.admin import AdminClient

if TYPE_CHECKING:
    import subprocess

BEST_CONNECTIONS, BEST_IN_FLIGHT = 4, 64
CONNECTIONS, IN_FLIGHT = 16, 640
HEALTHY_RATE = 50
MEMORY_EVERY_S = 0.2
TOPICS = ("greedy", "healthy")


@dataclass(frozen=True, slots=True)
class Overload:
    """The result of an overload, and of the healthy client beside it; times in milliseconds."""

    greedy: Figures
    healthy: Figures
    server_cpu_s: float
    memory_mb: float

    def lines(self, best: float, calm: Figures) -> Iterator[tuple[str, str]]:
        """Yield the lines to print."""
        seconds = self.greedy["seconds"]
        served = self.greedy["sent"] / seconds
        errors = dict(self.greedy["errors"] or {})
        offered = (self.greedy["sent"] + sum(errors.values())) / seconds
        yield "came, /s", f"{offered:,.0f} ({offered / best:.1f} times the best)"
        yield "served, /s", f"{served:,.0f} ({served / best:.0%} of the best)"
        yield "served: p50, p99", _latency(self.greedy)
        yield "refused: p50, p99", _latency(self.greedy, "refused_us")
        yield "not served", ", ".join(f"{code} {number:,}" for code, number in sorted(errors.items())) or "none"
        yield "server's CPU", f"{self.server_cpu_s / seconds:.2f} of a core"
        yield "memory, highest", f"{self.memory_mb:.0f} MB"
        failed = ", ".join(f"{code} {number:,}" for code, number in sorted((self.healthy["errors"] or {}).items()))
        yield "healthy client: p50, p99", f"{_latency(self.healthy)} (alone {_latency(calm)})"
        yield "healthy client: served", f"{self.healthy['sent']:,}" + (f", not {failed}" if failed else "")


def main() -> None:
    """Measure each delay, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--delays", type=int, nargs="+", default=[0, 1000], help="overload_delay_ms, one after the other"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each flood")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="sends of the flood at a time")
    parser.add_argument("--batch", type=int, default=1, help="messages in each send of the flood")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each")
    arguments = parser.parse_args()
    build_loader()
    for delay_ms in arguments.delays:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), delay_ms, arguments)


def measure(folder: Path, delay_ms: int, arguments: argparse.Namespace) -> None:
    """Measure one server, first without and then with the flood."""
    cores = sorted(os.sched_getaffinity(0))
    with running(folder, delay_ms, cores[:1]) as (pid, endpoint):
        load = Load(pid, endpoint, arguments.batch, cores[-1:])
        best = load.best(seconds=3.0)
        calm = load.healthy_alone(seconds=3.0)
        found = load.flood(arguments.in_flight, arguments.seconds)
    if arguments.json:
        printed = {"delay_ms": delay_ms, "best": best, "greedy": found.greedy, "calm": calm, "healthy": found.healthy}
        print(json.dumps({**printed, "memory_mb": found.memory_mb}), flush=True)
        return
    print(f"overload_delay_ms = {delay_ms}; best {best:,.0f} messages a second", flush=True)
    for label, figure in found.lines(best, calm):
        print(f"    {label:<26} {figure}", flush=True)


@contextlib.contextmanager
def running(folder: Path, delay_ms: int, cores: list[int]) -> Iterator[tuple[int, str]]:
    """Start a server; yield its process id and endpoint."""
    with pinned(cores):
        delay = {"TERNMQ_OVERLOAD_DELAY_MS": str(delay_ms)}
        server, endpoint = start_server(folder, "--flush", "async", environment=delay)
    try:
        with AdminClient(endpoint) as admin:
            for topic in TOPICS:
                admin.send_call(topic_calls.create_topic(topic, "normal", 8))
        yield server.pid, endpoint
    finally:
        server.terminate()
        server.wait()


class Load:
    """The load on one server."""

    def __init__(self, pid: int, endpoint: str, batch: int, cores: list[int]) -> None:
        self._pid, self._endpoint, self._cores = pid, endpoint, cores
        self._load = ("-topic", "greedy", "-batch", batch)

    def best(self, seconds: float) -> float:
        """Return messages a second that are served when they are sent as fast as answers arrive."""
        load = ("-connections", BEST_CONNECTIONS, "-in-flight", BEST_IN_FLIGHT, "-seconds", seconds)
        with held("send", self._endpoint, *self._load, *load, cores=self._cores) as process:
            figures = figures_of(process)
        return float(figures["sent"] / figures["seconds"])

    def healthy_alone(self, seconds: float) -> Figures:
        """Measure the client that sends little."""
        with self._healthy(seconds) as process:
            return figures_of(process)

    def flood(self, in_flight: int, seconds: float) -> Overload:
        """Run both together; the healthy client is connected before, and begins and ends within the flood."""
        load = (*self._load, "-connections", CONNECTIONS, "-in-flight", in_flight, "-seconds", seconds)
        with (
            self._healthy(seconds * 0.7) as healthy,
            held("send", self._endpoint, *load, cores=self._cores) as greedy,
            ThreadPoolExecutor() as threads,
            _Memory(self._pid) as memory,
        ):
            before = cpu_s(self._pid)
            running = threads.submit(figures_of, greedy)
            time.sleep(seconds * 0.2)
            beside = figures_of(healthy)
            found = running.result()
            return Overload(found, beside, cpu_s(self._pid) - before, memory.most_mb)

    @contextlib.contextmanager
    def _healthy(self, seconds: float) -> "Iterator[subprocess.Popen[str]]":
        options = ("-topic", "healthy", "-connections", 1, "-in-flight", 1, "-rate", HEALTHY_RATE, "-seconds", seconds)
        with urgent(), held("send", self._endpoint, *options, cores=self._cores) as process:
            yield process


class _Memory:
    """Samples the resident memory of a process until the end of the `with` block."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.most_mb = 0.0

    def __enter__(self) -> "_Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self.most_mb = max(self.most_mb, status_kib(self._pid, "VmRSS") * 1024 / 1e6)
            if self._ended.wait(MEMORY_EVERY_S):
                return


def _latency(figures: Figures, of: str = "latency_us") -> str:
    found = figures.get(of)
    if not found or not found["count"]:
        return "none"
    return f"{found['p50'] / 1000:.1f} ms, {found['p99'] / 1000:.1f} ms"


if __name__ == "__main__":
    main()
