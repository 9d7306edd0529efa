"""The checks of `ternmq doctor`, from the installation to a message that is sent and read.

Each check yields findings, and turns its failures into findings too, so that the other checks still run.
"""

import json
import os
import platform
import shutil
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ternmq_command.terminal.failures import CommandFailure, RegistryUnreachable
from ternmq_common.catalog.removal_warning import has_nothing_to_lose
from ternmq_common.installing import COMPILED_HINT
from ternmq_rpc.build_form import is_compiled

if TYPE_CHECKING:
    from ternmq.admin.brokers import Broker
    from ternmq_command.calls.admin import AdminClient

State = Literal["ok", "warning", "problem"]
# Timed messages and leases depend on clocks; clocks set by hand are exact to a second.
CLOCK_AHEAD_MAX_S = 1.0
DESCRIPTORS_WANTED = 65_536
# The free share of a disk below which brokers refuse messages (`disk_free_min_bytes`, auto); a warning at twice that.
FREE_SHARE_MIN = 0.05
HEALTH_BYTES_MAX = 64 << 10
HTTP_TIMEOUT_S = 5.0
CERTIFICATE_TIMEOUT_S = 5.0
DAY_S = 24 * 3600.0
# When servers begin to log warnings about their certificates.
CERTIFICATE_DAYS_MIN = 14
ROUND_TRIP_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `advice` says what to do, if there is anything to do."""

    subject: str
    state: State
    text: str
    advice: str = ""


def check_installation() -> Iterator[Finding]:
    """Report this command's version, and whether the installation is compiled, which makes a server faster."""
    text = f"ternmq {metadata.version('ternmq')}, Python {platform.python_version()}"
    if is_compiled():
        yield Finding("installation", "ok", f"{text}, compiled")
    else:
        yield Finding(
            "installation", "ok", f"{text}, plain Python", f"sends take 0.6 of the CPU compiled: {COMPILED_HINT}"
        )


def check_descriptors() -> Iterator[Finding]:
    """Check how many connections a server started here could have."""
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= DESCRIPTORS_WANTED:
        yield Finding("descriptors", "ok", "no limit" if hard == resource.RLIM_INFINITY else f"{hard:,}")
        return
    yield Finding(
        "descriptors",
        "warning",
        f"{hard:,} for a process started here: so many clients, less some hundreds, can be connected",
        f"for more raise the limit to {DESCRIPTORS_WANTED:,} (systemd: LimitNOFILE, shells: ulimit -Hn as root)",
    )


def check_disk(data_dir: Path) -> Iterator[Finding]:
    """Check the disk space of a broker's data directory on this machine; no finding if it does not exist."""
    if not data_dir.is_dir():
        return
    try:
        disk = shutil.disk_usage(data_dir)
    except OSError as error:
        yield Finding("disk", "problem", f"{data_dir}: {error.strerror or error}", "look at the file system")
        return
    share = disk.free / disk.total
    text = f"{disk.free / 2**30:,.1f} GiB of {disk.total / 2**30:,.1f} free at {data_dir}"
    if share < FREE_SHARE_MIN:
        yield Finding("disk", "problem", text, "brokers refuse sends at this: free some, or shorten retention_ms")
    elif share < 2 * FREE_SHARE_MIN:
        yield Finding("disk", "warning", text, "free disk space soon, or shorten retention_ms")
    elif not os.access(data_dir, os.W_OK):
        yield Finding("disk", "problem", f"{data_dir} can't be written by this user", "run the broker as its owner")
    else:
        yield Finding("disk", "ok", text)


def check_registry(url: str, password_file: Path | None = None) -> Iterator[Finding]:
    """Check whether a cluster's database answers, and has the schema that this version needs."""
    from ternmq_common.resources.setting import without_password

    shown = without_password(url)
    try:
        from ternmq_command.server.server_process import server_failures

        with server_failures():
            from ternmq_registry.errors import RegistryUnavailable
            from ternmq_registry.migrations import NEWEST
            from ternmq_registry.sql import schema

            try:
                found = schema.schema_version(url, password_file)
            except RegistryUnavailable as error:
                raise RegistryUnreachable(error.reason) from None
    except CommandFailure as failure:
        yield Finding(
            "registry", "problem", f"{shown}: {failure.message}", "check the URL, its password and the database"
        )
        return
    if found == NEWEST:
        yield Finding("registry", "ok", f"{shown}, schema {found}")
    else:
        has = "no schema" if found is None else f"schema {found}"
        yield Finding("registry", "problem", f"{shown} has {has}, {NEWEST} is needed", "ternmq registry migrate")


def check_access() -> Iterator[Finding]:
    """Check whether the options of TLS and keys are usable; whether the server accepts them shows in its first call."""
    from ternmq_command.calls.access import current_access

    access = current_access()
    try:
        tls, keys = access.tls_options(), access.current_credentials()
        if tls is not None:
            from ternmq.errors import UnusableFile

            try:
                tls.ssl_context()
            except UnusableFile as error:
                raise CommandFailure(str(error), hint="look at --ca, --client-cert and --client-key") from None
    except CommandFailure as failure:
        yield Finding("access", "problem", failure.what, failure.hint or "look at --credentials-file")
        return
    if tls is None and keys is not None:
        advised = "use --tls: an eavesdropper could replay your signatures"
        yield Finding("access", "warning", f"calls are signed by {keys.access_key}, without TLS", advised)
    elif tls is not None:
        yield Finding("access", "ok", f"by TLS, {'unsigned' if keys is None else f'signed by {keys.access_key}'}")


def check_server(admin: "AdminClient") -> Iterator[Finding]:
    """Check whether the server answers, its version and its clock.

    Raises CommandFailure if it does not answer, since the other checks need it.
    """
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.server_time import call_with_time, server_now

    info, server_time = call_with_time(lambda: admin.send_call(broker_calls.server_info()), server_now)
    own = metadata.version("ternmq")
    text = f"version {info.version}, {info.resident_bytes / 2**20:,.0f} MiB"
    if info.version == own:
        yield Finding("server", "ok", text)
    else:
        yield Finding("server", "warning", f"{text}; this command is {own}", "use the command of the server's version")
    if server_time is None:
        yield Finding("clock", "warning", "the server does not report its time", "it is an older one: upgrade it")
        return
    ahead_s = server_time.ahead.total_seconds()
    if info.test_clock:
        yield Finding(
            "clock", "warning", f"test clock, {ahead_s:+.1f} s", "not for production: start without --test-clock"
        )
    elif abs(ahead_s) > CLOCK_AHEAD_MAX_S:
        yield Finding("clock", "problem", f"the server's is {ahead_s:+.1f} s from this machine's", "set both by NTP")
    else:
        yield Finding("clock", "ok", f"the server's is {ahead_s:+.2f} s from this machine's")


def check_certificate(endpoint: str) -> Iterator[Finding]:
    """Check how long the server's certificate is valid, by this machine's clock; no finding without TLS."""
    from ternmq_command.calls.access import current_access
    from ternmq_common.addresses import parse_address

    tls = current_access().tls_options()
    if tls is None:
        return
    host, port = parse_address(endpoint)
    try:
        with (
            socket.create_connection((host, port), timeout=CERTIFICATE_TIMEOUT_S) as connected,
            tls.ssl_context().wrap_socket(connected, server_hostname=tls.server_name or host) as secured,
        ):
            shown = secured.getpeercert() or {}
    except OSError as error:
        yield Finding("certificate", "warning", f"it could not be read: {error}", "is the server still there?")
        return
    ends_s = ssl.cert_time_to_seconds(str(shown["notAfter"]))
    days = int((ends_s - time.time()) / DAY_S)
    until = datetime.fromtimestamp(ends_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if days < CERTIFICATE_DAYS_MIN:
        advised = "replace it; the server uses the new one without a restart"
        yield Finding("certificate", "warning", f"ends in {days} days, at {until}", advised)
    else:
        yield Finding("certificate", "ok", f"valid for {days} days, until {until}")


def check_brokers(admin: "AdminClient") -> Iterator[Finding]:
    from ternmq.admin import brokers as broker_calls

    for broker in admin.send_call(broker_calls.list_brokers()):
        if not broker.live:
            yield Finding("broker", "problem", f"{broker.name} is away", f"start it, or: {_removal_command(broker)}")
        elif broker.draining:
            yield Finding("broker", "warning", f"{broker.name} is being drained", f"ternmq broker resume {broker.name}")
        else:
            yield Finding("broker", "ok", f"{broker.name}, {broker.load.proxies} proxies connected")
        if broker.replicas:
            yield _check_replicas(broker)
        skew_s = broker.load.clock_skew
        if broker.live and skew_s is not None and abs(skew_s) > CLOCK_AHEAD_MAX_S:
            skew_text = f"that of {broker.name} is {skew_s:+.1f} s from the registry's"
            yield Finding(
                "clock",
                "problem",
                skew_text,
                "set both by NTP; timed messages are refused and withheld if it is far off",
            )


def _removal_command(broker: "Broker") -> str:
    """Return the command that removes the broker, with --force unless it is known to be empty."""
    known_empty = broker.draining and has_nothing_to_lose(broker.load)
    return f"ternmq broker remove {broker.name}{'' if known_empty else ' --force'}"


def _check_replicas(broker: "Broker") -> Finding:
    in_sync = sum(replica.in_sync for replica in broker.replicas)
    in_sync_text = f"{in_sync} of {broker.replicas_wanted} of {broker.name} are in sync"
    if in_sync < broker.min_insync:
        needed = f"{in_sync_text}, and {broker.min_insync} must be"
        return Finding("replicas", "problem", needed, f"start the others; see: ternmq shard show {broker.name}")
    if in_sync < broker.replicas_wanted:
        return Finding("replicas", "warning", in_sync_text, f"ternmq shard show {broker.name}")
    return Finding("replicas", "ok", in_sync_text)


def check_health(http: str) -> Iterator[Finding]:
    """Check the health that the server reports at its HTTP address."""
    from ternmq.connections.tls import advise_on_failure
    from ternmq_command.calls.web import build_url, fetch_page

    try:
        status, body = fetch_page(http, "/health/ready", bytes_max=HEALTH_BYTES_MAX, timeout_s=HTTP_TIMEOUT_S)
    except OSError as error:
        reason = getattr(error, "reason", error)
        advised, _ = advise_on_failure(str(reason), uses_tls=True)
        address = "name the server's address with --http, such as https://mq.example.com:8082"
        yield Finding("health", "warning", f"nothing answers at {build_url(http, '')}: {reason}", advised or address)
        return
    if status in {401, 403}:
        yield Finding("health", "warning", f"{build_url(http, '')} does not accept these keys", "give others, or --tls")
        return
    try:
        health = json.loads(body)
        text, degraded = str(health["status"]), health.get("degraded")
    except (ValueError, KeyError, AttributeError, TypeError):
        yield Finding(
            "health", "warning", f"{build_url(http, '')} is not TernMQ's", "name the server's address with --http"
        )
        return
    if status != 200:
        yield Finding("health", "problem", text, "the server's log says more")
    elif degraded is not None:
        yield Finding("health", "warning", str(degraded), "the server's log says more")
    else:
        yield Finding("health", "ok", text)


def check_round_trip(endpoint: str, admin: "AdminClient") -> Iterator[Finding]:
    """Send a message to a topic created for it and read it again; the topic is deleted afterwards."""
    from ternmq.admin import topics as topic_calls

    topic = f"ternmq-doctor-{os.urandom(4).hex()}"
    try:
        admin.send_call(topic_calls.create_topic(topic, "normal", 1))
        try:
            began = time.monotonic()
            broker = _send_and_read(endpoint, topic)
            took_ms = (time.monotonic() - began) * 1000
        finally:
            admin.send_call(topic_calls.delete_topic(topic))
    except CommandFailure as failure:
        yield Finding("round trip", "problem", failure.message, "the server's log says more")
        return
    if broker is None:
        text = f"a message was stored, and not found again within {ROUND_TRIP_PATIENCE_S:g} s"
        yield Finding("round trip", "problem", text, "the server's log says more")
    else:
        yield Finding("round trip", "ok", f"sent to {broker} and read again in {took_ms:.0f} ms")


def _send_and_read(endpoint: str, topic: str) -> str | None:
    """Send one message and read it by offset; return its broker, None if it was not found in time."""
    from ternmq_command.calls.messaging import MessagingClient
    from ternmq_protos.v2 import definition_pb2 as pb

    body = os.urandom(16)
    message = pb.Message(topic=pb.Resource(name=topic), body=body)
    message.system_properties.message_id = os.urandom(16).hex().upper()
    message.system_properties.message_type = pb.NORMAL
    message.system_properties.born_timestamp.GetCurrentTime()
    with MessagingClient(endpoint) as client:
        client.send_messages([message])
        give_up = time.monotonic() + ROUND_TRIP_PATIENCE_S
        while time.monotonic() < give_up:
            for queue in client.readable_queues(topic):
                start, end = client.first_offset(queue), client.end_offset(queue)
                if any(found.body == body for found in client.read_messages(queue, start, end)):
                    return queue.broker.name
    return None
