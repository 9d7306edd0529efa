"""The works that are measured under load. A work has cases; a case is one load, run on one server after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.bench.servers import APACHE, FLOOR, NATS, TERNMQ, Setup

if TYPE_CHECKING:
    from benchmarks.bench.field import Field
    from benchmarks.bench.load import Run
    from benchmarks.bench.servers import Server

ASYNC, SYNC = Setup(TERNMQ), Setup(TERNMQ, flush="sync")
PEERS = (Setup(APACHE), Setup(NATS))
ALL = (ASYNC, *PEERS)
WITH_SYNC = (ASYNC, SYNC, *PEERS)
WITH_FLOOR = (*WITH_SYNC, Setup(FLOOR))
APACHE_ONLY = (ASYNC, Setup(APACHE))
TLS, ACCESS_CONTROL = Setup(TERNMQ, tls=True), Setup(TERNMQ, access_control=True)
CPU, RATE, P50, P99 = "CPU us/message", "messages/s", "p50 ms", "p99 ms"
FILL = ("-batch", 32, "-in-flight", 8)
READERS = ("-in-flight", 4)
# The warm-up of a server is by gRPC, and Java has not compiled the code of this protocol then.
REHEARSAL_S = 60.0

Measured = Mapping[str, float]
Measure = Callable[["Field", "Server"], Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A target of an issue for a figure: for its ratio to a peer, or for the figure itself when `peer` is None."""

    figure: str
    limit: float
    peer: str | None = APACHE
    setup: Setup = ASYNC
    at_least: bool = False

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One load on several servers: on warm ones that stay, or on `fresh` ones, which are started for each round. Before
    the first round Apache RocketMQ has the load once, and again until `rehearsal_s` have passed."""

    work: str
    name: str
    setups: Sequence[Setup]
    measure: Measure
    fresh: bool = False
    rehearsal_s: float = 0.0
    bars: Sequence[Bar] = field(default=())


def rates(found: Run, messages: float) -> Measured:
    """Return the figures that nearly all works have."""
    return {CPU: found.server_cpu_s / messages * 1e6, RATE: messages / found.seconds}


def delays(found: Run) -> Measured:
    """Return percentiles, in milliseconds."""
    latency = found.figures["latency_us"]
    return {P50: latency["p50"] / 1000, P99: latency["p99"] / 1000}


def sends(*options: object, topic: str = "sends", kind: str = "NORMAL") -> Measure:
    """Return the measure of sends for a while, as fast as answers arrive."""

    def measure(field: Field, server: Server) -> Measured:
        names = field.topic(server, topic, kind)
        found = field.load(server, "send", *names, *options, "-type", kind, "-seconds", field.scale.load_s)
        return {**rates(found, found.figures["sent"]), **delays(found)}

    return measure


def consumes(topic: str, *options: object, kind: str = "NORMAL", share: float = 1.0) -> Measure:
    """Return the measure of consuming and acknowledging messages that were sent just before."""

    def measure(field: Field, server: Server) -> Measured:
        count = int(field.scale.consumed * share)
        names = field.topic(server, topic, kind, group=True)
        fill = FILL if kind == "NORMAL" else ()
        field.load(server, "send", *names, *fill, "-type", kind, "-count", count)
        found = field.load(server, "consume", *names, *READERS, *options, "-count", count)
        return rates(found, found.figures["acknowledged"])

    return measure


def remoting_sends(*options: object) -> Measure:
    """Return the measure of sends by the remoting protocol."""

    def measure(field: Field, server: Server) -> Measured:
        names = field.topic(server, "remoting", "NORMAL")
        seconds = ("-seconds", field.scale.load_s)
        found = field.load(server, "remoting-send", *names, *options, *seconds, endpoint=server.remoting)
        return {**rates(found, found.figures["sent"]), **delays(found)}

    return measure


def remoting_pulls(field: Field, server: Server) -> Measured:
    """Measure pulls of 32 by the remoting protocol, of messages that were sent just before."""
    count = field.scale.consumed
    names = field.topic(server, "remoting-pulled", "NORMAL", group=True)
    to = server.remoting
    field.load(server, "remoting-send", *names, *FILL, "-count", count, endpoint=to)
    found = field.load(server, "remoting-consume", *names, *READERS, "-count", count, endpoint=to)
    return rates(found, found.figures["received"])


def remoting_end_to_end(field: Field, server: Server) -> Measured:
    """Measure the time from the begin of a send to its message at a pull that waits, by the remoting protocol."""
    names = field.topic(server, "remoting-waiting", "NORMAL", group=True)
    options = ("-rate", 1000, "-seconds", field.scale.waiting_s)
    found = field.load(server, "remoting-e2e", *names, *options, endpoint=server.remoting)
    return {**delays(found), CPU: found.server_cpu_s / found.figures["sent"] * 1e6}


def end_to_end(rate: int) -> Measure:
    """Return the measure of the time from the begin of a send to its message at a waiting consumer."""

    def measure(field: Field, server: Server) -> Measured:
        names = field.topic(server, "end-to-end", group=True)
        found = field.load(server, "e2e", *names, "-rate", rate, "-seconds", field.scale.waiting_s)
        return {**delays(found), CPU: found.server_cpu_s / found.figures["sent"] * 1e6}

    return measure


def late(field: Field, server: Server) -> Measured:
    """Measure how late delayed messages arrive; one that is early becomes a note."""
    names = field.topic(server, "delayed", "DELAY", group=True)
    rate = ("-rate", 200, "-seconds", field.scale.waiting_s, "-delay", "2s")
    found = field.load(server, "delayed", *names, *rate)
    if early := found.figures["early"]:
        field.notes.append(f"{server.setup}: {early} of {found.figures['received']} delayed messages came early")
    return delays(found)


def transactions(field: Field, server: Server) -> Measured:
    """Measure a half message and its commit."""
    names = field.topic(server, "transactions", "TRANSACTION")
    found = field.load(server, "transactions", *names, "-seconds", field.scale.load_s)
    return {**rates(found, found.figures["sent"]), **delays(found)}


def _in_flight(count: int, *bars: Bar) -> Case:
    options = ("-in-flight", count)
    return Case(work="unary", name=f"256 B, {count} in flight", setups=WITH_FLOOR, measure=sends(*options), bars=bars)


def _floor(limit: float) -> Bar:
    """Return the bar for the cost beside that of a server that stores nothing."""
    return Bar(figure=CPU, limit=limit, peer=FLOOR)


def _body(name: str, size: int) -> Case:
    options = ("-in-flight", 32, "-body", size)
    return Case(work="unary", name=f"{name}, 32 in flight", setups=WITH_SYNC, measure=sends(*options))


def _guarded(name: str, *setups: Setup, limit: float | None = None) -> Case:
    """Return a case of the first server beside the other; a limit is one of its cost beside the bare front's."""
    bars = [] if limit is None else [Bar(figure=CPU, limit=limit, peer=TERNMQ, setup=setups[0])]
    return Case(work="guarded", name=name, setups=setups, measure=sends("-in-flight", 32), bars=bars)


def _remoting(name: str, measure: Measure, bar: Bar) -> Case:
    """Return a case by the remoting protocol, beside Apache's broker itself."""
    return Case(work="remoting", name=name, setups=APACHE_ONLY, measure=measure, rehearsal_s=REHEARSAL_S, bars=[bar])


def _end_to_end(rate: int, *bars: Bar) -> Case:
    return Case(work="latency", name=f"end to end, {rate:,}/s", setups=ALL, measure=end_to_end(rate), bars=bars)


LOADS: tuple[Case, ...] = (
    _in_flight(1, _floor(1.15)),
    _in_flight(4, _floor(1.15)),
    _in_flight(32, Bar(figure=CPU, limit=0.45), Bar(figure=CPU, limit=0.6, setup=SYNC), _floor(1.1)),
    _in_flight(128, Bar(figure=RATE, limit=2, at_least=True), _floor(0.95)),
    _in_flight(256),
    _body("4 KiB", 4096),
    _body("64 KiB", 64 << 10),
    _body("1 MiB", 1 << 20),
    Case(
        work="batch",
        name="32 messages a request",
        setups=WITH_SYNC,
        measure=sends("-batch", 32, "-in-flight", 32),
        bars=[Bar(figure=CPU, limit=1.0)],
    ),
    Case(
        work="consume",
        name="receive 32, acknowledge in one call",
        setups=ALL,
        measure=consumes("consume"),
        bars=[Bar(figure=CPU, limit=0.2)],
    ),
    Case(
        work="consume",
        name="receive 32, one acknowledgement a message",
        setups=ALL,
        measure=consumes("consume", "-ack-each", share=0.5),
        bars=[Bar(figure=CPU, limit=0.35)],
    ),
    _end_to_end(200),
    _end_to_end(1000, Bar(figure=P99, limit=0.5)),
    _end_to_end(2000),
    Case(work="fifo", name="send", setups=APACHE_ONLY, measure=sends("-in-flight", 32, topic="fifo", kind="FIFO")),
    Case(
        work="fifo",
        name="receive and acknowledge",
        setups=APACHE_ONLY,
        measure=consumes("fifo-consumed", kind="FIFO", share=0.1),
    ),
    _remoting("256 B, 1 in flight", remoting_sends("-in-flight", 1), Bar(figure=CPU, limit=0.5)),
    _remoting("256 B, 128 in flight", remoting_sends("-in-flight", 128), Bar(figure=CPU, limit=0.6)),
    _remoting("32 messages a batch", remoting_sends("-batch", 32, "-in-flight", 32), Bar(figure=CPU, limit=1.2)),
    _remoting("pull 32, offsets committed", remoting_pulls, Bar(figure=CPU, limit=1.0)),
    _remoting("end to end, 1,000/s", remoting_end_to_end, Bar(figure=P99, limit=0.5)),
    Case(work="delayed", name="how late", setups=APACHE_ONLY, measure=late),
    Case(
        work="transactions",
        name="half message and commit",
        setups=APACHE_ONLY,
        measure=transactions,
        bars=[Bar(figure=CPU, limit=0.4)],
    ),
    _guarded("access control", ACCESS_CONTROL, ASYNC, limit=1.1),
    _guarded("TLS", TLS, ASYNC, limit=1.25),
    _guarded("TLS beside Apache's", TLS, Setup(APACHE, tls=True)),
)
