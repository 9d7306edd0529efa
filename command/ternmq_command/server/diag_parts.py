"""Collects the parts of the bundle of `ternmq diag` from a server's gRPC and HTTP addresses."""

import functools
import itertools
import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_command.calls.watching import WatchingClient
from ternmq_command.calls.web import fetched, url_of
from ternmq_command.client.commands import client_record
from ternmq_command.group.progress import totals
from ternmq_command.group.settings import group_record
from ternmq_command.server.broker_admin import broker_record
from ternmq_command.server.status import status_record
from ternmq_command.shard.records import shard_record
from ternmq_command.terminal.failures import CommandFailure
from ternmq_command.terminal.output import iso
from ternmq_command.topic.commands import topic_record

if TYPE_CHECKING:
    from ternmq_command.server.bundle import Bundle
    from ternmq_protos.admin_v1 import admin_pb2

LOG_LINES = 1000
LOG_BYTES_MAX = 4 << 20
CLIENTS_MAX = 1000
LAGS_MAX = 200
ANSWER_BYTES_MAX = 16 << 20
HTTP_TIMEOUT_S = 10.0


def fill(bundle: "Bundle", endpoint: str, http: str, log: Path | None) -> None:
    """Add all parts that can be read."""
    bundle.add_json("command.json", "this command and its machine", lambda: _command(endpoint, http))
    bundle.add("metrics.txt", "the server's metrics, as Prometheus reads them", lambda: _fetched(http, "/metrics"))
    bundle.add("health-ready.json", "whether the server can serve now", lambda: _fetched(http, "/health/ready"))
    bundle.add("health-live.json", "whether its event loop turns", lambda: _fetched(http, "/health/live"))
    if log is not None:
        bundle.add("log.txt", f"the last {LOG_LINES} lines of {log.name}", lambda: _end_of(log))
    with WatchingClient(endpoint) as client:
        bundle.add_json("server.json", "version, start and time of the server", lambda: _server(client))
        if bundle.is_nobody_there:
            return
        _fill_of_server(bundle, client)


def _fill_of_server(bundle: "Bundle", client: WatchingClient) -> None:
    bundle.add_json("status.json", "whether each component is well", lambda: status_record(client.status()))
    bundle.add_json("log-levels.json", "what the server's processes log", lambda: _log_levels(client))
    bundle.add_json("brokers.json", "the brokers", lambda: [broker_record(each) for each in client.brokers()])
    bundle.add_json("shards.json", "the replicas of brokers", lambda: [shard_record(each) for each in client.brokers()])
    bundle.add_json("topics.json", "all topics", lambda: [topic_record(each) for each in client.topics()])
    bundle.add_json("groups.json", "all groups", lambda: [group_record(each) for each in client.groups()])
    bundle.add_json("lags.json", f"the lags of the first {LAGS_MAX} groups", lambda: _lags(client))
    bundle.add_json("clients.json", f"the first {CLIENTS_MAX} clients", lambda: _clients(client))
    told: list[admin_pb2.ProcessDiagnostics] = []

    def processes() -> object:
        told.extend(client.diagnostics().processes)
        return list(map(_process, told))

    bundle.add_json("processes.json", "settings in force, memory and tasks of each process", processes)
    for each in told:
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", each.process)[:64]
        bundle.add(f"threads-{name}.txt", "stacks of its threads", functools.partial(str, each.threads))


def _command(endpoint: str, http: str) -> object:
    return {
        "ternmq": metadata.version("ternmq"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "endpoint": endpoint,
        "http": http,
    }


def _server(client: WatchingClient) -> object:
    info = client.server_info()
    return {
        "version": info.version,
        "started": iso(info.started),
        "now": iso(info.now, timespec="milliseconds"),
        "test_clock": info.test_clock,
        "resident_bytes": info.resident_bytes,
    }


def _log_levels(client: WatchingClient) -> object:
    answer = client.log_levels()
    return {
        "processes": {each.process: each.levels for each in answer.processes},
        "silent": list(answer.silent),
    }


def _lags(client: WatchingClient) -> object:
    return {name: totals(client.group(name).progress) for name in client.group_names()[:LAGS_MAX]}


def _clients(client: WatchingClient) -> object:
    found = (each for page in client.clients() for each in page.clients)
    return [client_record(each) for each in itertools.islice(found, CLIENTS_MAX)]


def _process(process: "admin_pb2.ProcessDiagnostics") -> object:
    return {
        "process": process.process,
        "pid": process.pid,
        "python": process.python,
        "platform": process.platform,
        "resident_bytes": process.resident_bytes,
        "descriptors": process.descriptors,
        "settings": dict(sorted(process.settings.items())),
        "tasks": process.tasks,
        "tasks_by_kind": dict(process.tasks_by_kind),
    }


def _fetched(http: str, path: str) -> str:
    """Fetch a page's text, also that of a refusal; raises CommandFailure when nothing answers."""
    try:
        page = fetched(http, path, bytes_max=ANSWER_BYTES_MAX, timeout_s=HTTP_TIMEOUT_S)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CommandFailure(f"nothing answers at {url_of(http, '')}: {reason}", hint="name it with --http") from None
    return page.body.decode(errors="backslashreplace")


def _end_of(log: Path) -> str:
    """Return the last LOG_LINES lines of the log, or of its last LOG_BYTES_MAX bytes; raises OSError."""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES_MAX))
        lines = file.read(LOG_BYTES_MAX).decode(errors="backslashreplace").splitlines(keepends=True)
    return "".join(lines[-LOG_LINES:])
