"""Measures servers that have just started, are idle, or hold much data; and several workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.bench import load
from benchmarks.bench.processes import cpu_s, memory_mb
from benchmarks.bench.servers import TERNMQ, Setup
from benchmarks.bench.works import ALL, APACHE_ONLY, CPU, FILL, RATE, READERS, Bar, Case, rates, sends

if TYPE_CHECKING:
    from benchmarks.bench.field import Field, Scale
    from benchmarks.bench.servers import Server
    from benchmarks.bench.works import Measure, Measured

STARTED, RESIDENT, ANONYMOUS, IDLE = "seconds", "resident MB", "anonymous MB", "% of a core"
SEND_CPU, CONSUME_CPU = "send, CPU us/message", "consume, CPU us/message"
SPREAD = ("-in-flight", 32)
IN_FLIGHT = 128
ONE_WORKER, TWO_WORKERS = Setup(TERNMQ, cores=2), Setup(TERNMQ, workers=2, cores=2)


def cases(scale: Scale) -> list[Case]:
    """Return all cases at this scale."""
    return [
        Case(work="start", name="to the first acknowledged message", setups=ALL, measure=first_message, fresh=True),
        Case(
            work="idle",
            name="without clients",
            setups=ALL,
            measure=idle,
            fresh=True,
            bars=[Bar(figure=IDLE, limit=0.1)],
        ),
        Case(
            work="idle",
            name=f"{scale.idle_clients:,} clients, each with a stream and a long poll",
            setups=APACHE_ONLY,
            measure=idle_clients,
            fresh=True,
            bars=[Bar(figure=RESIDENT, limit=150, peer=None), Bar(figure=IDLE, limit=3, peer=None)],
        ),
        Case(
            work="memory",
            name=f"after {scale.stored:,} messages",
            setups=ALL,
            measure=memory_after,
            fresh=True,
            bars=[Bar(figure=RESIDENT, limit=0.06)],
        ),
        *(
            Case(
                work="topics",
                name=f"sends over {count:,} topics in turn" if count > 1 else "sends to one topic",
                setups=APACHE_ONLY,
                measure=over_topics(count),
            )
            for count in scale.topics
        ),
        *(
            Case(work="backlog", name=f"{count:,} messages waiting", setups=ALL, measure=behind(count))
            for count in scale.backlogs
        ),
        *_workers(),
    ]


def first_message(field: Field, server: Server) -> Measured:
    """Measure the time from the start of the first process until it serves, and a first send; without creating its
    topic."""
    names = field.topic(server, "first")
    began = time.monotonic()
    field.load(server, "send", *names, "-count", 1, "-in-flight", 1)
    return {STARTED: server.started_s + time.monotonic() - began}


def idle(field: Field, server: Server) -> Measured:
    """Measure a server without connections, after the work that follows its start."""
    time.sleep(field.scale.settle_s)
    return _resting(field, server)


def idle_clients(field: Field, server: Server) -> Measured:
    """Measure idle clients: connected, with a Telemetry stream, heartbeats and a waiting receive, and no messages."""
    names = field.topic(server, "idle", group=True)
    seconds = field.scale.idle_s + field.scale.settle_s + 1
    options = (*names, "-clients", field.scale.idle_clients, "-seconds", seconds)
    cores = field.cores_of_load(server)
    with load.held("idle", server.endpoint, *options, cores=cores, way_in=server.way_in):
        time.sleep(field.scale.settle_s)
        return _resting(field, server)


def _resting(field: Field, server: Server) -> Measured:
    before, began = cpu_s(server.pids), time.monotonic()
    time.sleep(field.scale.idle_s)
    share = (cpu_s(server.pids) - before) / (time.monotonic() - began)
    return {IDLE: share * 100, **_memory(server)}


def _memory(server: Server) -> Measured:
    return {RESIDENT: memory_mb(server.pids), ANONYMOUS: memory_mb(server.pids, "RssAnon")}


def memory_after(field: Field, server: Server) -> Measured:
    """Measure the memory after messages were sent and consumed."""
    count = field.scale.stored
    names = field.topic(server, "stored", group=True)
    field.load(server, "send", *names, *FILL, "-count", count)
    field.load(server, "consume", *names, *READERS, "-count", count)
    return _memory(server)


def over_topics(count: int) -> Measure:
    """Return the measure of sends, each to the next of so many topics."""

    def measure(field: Field, server: Server) -> Measured:
        name = f"spread-{count}"
        field.topics(server, name, count)
        options = ("-topic", name, "-topics", count, *SPREAD, "-seconds", field.scale.load_s)
        found = field.load(server, "send", *options)
        return rates(found, found.figures["sent"])

    return measure


def behind(count: int) -> Measure:
    """Return the measure of sends to a topic whose consumers are so far behind, and of their reads of the oldest
    messages."""

    def measure(field: Field, server: Server) -> Measured:
        names = field.topic(server, f"backlog-{count}", group=True)
        field.fill(server, names, count)
        sent = field.load(server, "send", *names, *SPREAD, "-seconds", field.scale.load_s)
        consumed = field.load(server, "consume", *names, *READERS, "-count", sent.figures["sent"])
        return {
            SEND_CPU: rates(sent, sent.figures["sent"])[CPU],
            CONSUME_CPU: rates(consumed, consumed.figures["acknowledged"])[CPU],
        }

    return measure


def _workers() -> list[Case]:
    """Return one and two processes on the same two cores. The load generator shares them, so the ratio is a lower
    bound."""
    return [
        Case(
            work="workers",
            name=f"2 beside 1 on two cores: 256 B, {IN_FLIGHT} in flight",
            setups=(TWO_WORKERS, ONE_WORKER),
            measure=sends("-in-flight", IN_FLIGHT),
            bars=[Bar(figure=RATE, limit=1.6, at_least=True, setup=TWO_WORKERS, peer=TERNMQ)],
        )
    ]
