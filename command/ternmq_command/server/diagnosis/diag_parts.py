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
from ternmq_command.calls.web import build_url, fetch_page
from ternmq_command.client.commands import client_record
from ternmq_command.group.progress import sum_progress
from ternmq_command.group.settings import group_record
from ternmq_command.server.broker_admin import broker_record
from ternmq_command.server.diagnosis.status import status_record
from ternmq_command.shard.records import shard_record
from ternmq_command.terminal.failures import CommandFailure
from ternmq_command.terminal.name_suggestions import list_names
from ternmq_command.terminal.output import iso_or_none
from ternmq_command.topic.settings import topic_record

if TYPE_CHECKING:
    from ternmq_command.server.diagnosis.bundle import DiagnosticBundle
    from ternmq_protos.admin_v1 import admin_pb2

LOG_LINES = 1000
LOG_BYTES_MAX = 4 << 20
CLIENTS_MAX = 1000
LAGS_MAX = 200
ANSWER_BYTES_MAX = 16 << 20
HTTP_TIMEOUT_S = 10.0


def fill_bundle(bundle: "DiagnosticBundle", endpoint: str, http: str, log: Path | None) -> None:
    """Add all parts that can be read."""
    bundle.add_json("command.json", "this command and its machine", lambda: _command_facts(endpoint, http))
    bundle.add_text(
        "metrics.txt", "the server's metrics, as Prometheus reads them", lambda: _fetch_text(http, "/metrics")
    )
    bundle.add_text("health-ready.json", "whether the server can serve now", lambda: _fetch_text(http, "/health/ready"))
    bundle.add_text("health-live.json", "whether its event loop turns", lambda: _fetch_text(http, "/health/live"))
    if log is not None:
        bundle.add_text("log.txt", f"the last {LOG_LINES} lines of {log.name}", lambda: _last_lines(log))
    with WatchingClient(endpoint) as client:
        bundle.add_json("server.json", "version, start and time of the server", lambda: _server_facts(client))
        if bundle.is_unreachable:
            return
        _fill_server_parts(bundle, client)


def _fill_server_parts(bundle: "DiagnosticBundle", client: WatchingClient) -> None:
    from ternmq.admin import brokers as broker_calls
    from ternmq.admin import groups as group_calls
    from ternmq.admin import topics as topic_calls

    bundle.add_json("status.json", "whether each component is well", lambda: status_record(client.get_status()))
    bundle.add_json("log-levels.json", "what the server's processes log", lambda: _log_level_facts(client))
    bundle.add_json(
        "brokers.json",
        "the brokers",
        lambda: [broker_record(each) for each in client.send_call(broker_calls.list_brokers())],
    )
    bundle.add_json(
        "shards.json",
        "the replicas of brokers",
        lambda: [shard_record(each) for each in client.send_call(broker_calls.list_brokers())],
    )
    bundle.add_json(
        "topics.json",
        "all topics",
        lambda: [topic_record(each) for each in client.send_call(topic_calls.list_topics())],
    )
    bundle.add_json(
        "groups.json",
        "all groups",
        lambda: [group_record(each) for each in client.send_call(group_calls.list_groups())],
    )
    bundle.add_json("lags.json", f"the lags of the first {LAGS_MAX} groups", lambda: _group_lags(client))
    bundle.add_json("clients.json", f"the first {CLIENTS_MAX} clients", lambda: _client_records(client))
    processes: list[admin_pb2.ProcessDiagnostics] = []

    def process_records() -> object:
        processes.extend(client.get_diagnostics().processes)
        return list(map(_process_record, processes))

    bundle.add_json("processes.json", "settings in force, memory and tasks of each process", process_records)
    for each in processes:
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", each.process)[:64]
        bundle.add_text(f"threads-{name}.txt", "stacks of its threads", functools.partial(str, each.threads))


def _command_facts(endpoint: str, http: str) -> object:
    return {
        "ternmq": metadata.version("ternmq"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "endpoint": endpoint,
        "http": http,
    }


def _server_facts(client: WatchingClient) -> object:
    from ternmq.admin import brokers as broker_calls

    info = client.send_call(broker_calls.server_info())
    return {
        "version": info.version,
        "started": iso_or_none(info.started),
        "now": iso_or_none(info.now, timespec="milliseconds"),
        "test_clock": info.test_clock,
        "resident_bytes": info.resident_bytes,
    }


def _log_level_facts(client: WatchingClient) -> object:
    answer = client.log_levels()
    return {
        "processes": {each.process: each.levels for each in answer.processes},
        "silent": list(answer.silent),
    }


def _group_lags(client: WatchingClient) -> object:
    from ternmq.admin import groups as group_calls

    return {
        name: sum_progress(client.send_call(group_calls.describe_group(name)).progress)
        for name in list_names(client, "group")[:LAGS_MAX]
    }


def _client_records(client: WatchingClient) -> object:
    found = (each for page in client.list_clients() for each in page.clients)
    return [client_record(each) for each in itertools.islice(found, CLIENTS_MAX)]


def _process_record(process: "admin_pb2.ProcessDiagnostics") -> object:
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


def _fetch_text(http: str, path: str) -> str:
    """Fetch a page's text, also that of a refusal; raises CommandFailure when nothing answers."""
    try:
        page = fetch_page(http, path, bytes_max=ANSWER_BYTES_MAX, timeout_s=HTTP_TIMEOUT_S)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CommandFailure(
            f"nothing answers at {build_url(http, '')}: {reason}", hint="name it with --http"
        ) from None
    return page.body.decode(errors="backslashreplace")


def _last_lines(log: Path) -> str:
    """Return the last LOG_LINES lines of the log, or of its last LOG_BYTES_MAX bytes; raises OSError."""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES_MAX))
        lines = file.read(LOG_BYTES_MAX).decode(errors="backslashreplace").splitlines(keepends=True)
    return "".join(lines[-LOG_LINES:])
