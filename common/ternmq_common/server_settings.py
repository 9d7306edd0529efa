"""Settings of the processes: `ternmq up`, `ternmq broker`, `ternmq proxy`. Sizes in bytes, times in milliseconds;
checked once, at start."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ternmq_common.addresses import DEFAULT_GRPC, DEFAULT_HTTP, is_wildcard, parsed_address
from ternmq_common.delay_levels import DEFAULT_DELAY_LEVELS, parse_delay_levels
from ternmq_common.limits import (
    DAY_MS,
    DEFAULT_QUEUES,
    GIB,
    HOUR_MS,
    INBOUND_BYTES_MAX,
    KIB,
    MIB,
    MINUTE_MS,
    POLL_MAX_MS,
    QUEUES_MAX,
    SECOND_MS,
)
from ternmq_common.log_levels import parsed_log_levels
from ternmq_common.settings import InvalidSetting, rendered

DEFAULT_STORAGE = "127.0.0.1:10911"
DEFAULT_REGISTRY = "postgresql://ternmq@127.0.0.1:5432/ternmq"

RANGES = {
    "default_queues": (1, QUEUES_MAX),
    "segment_bytes": (MIB, 2 * GIB),
    "disk_free_min_bytes": (0, 1024 * 1024 * GIB),
    "retention_ms": (MINUTE_MS, 3650 * DAY_MS),
    "retention_check_interval_ms": (100, DAY_MS),
    "body_bytes_max": (1, INBOUND_BYTES_MAX - MIB),
    "properties_bytes_max": (1, MIB),
    "properties_max": (1, 1024),
    "delay_max_ms": (SECOND_MS, 365 * DAY_MS),
    "transaction_timeout_ms": (100, HOUR_MS),
    "transaction_check_interval_ms": (100, HOUR_MS),
    "transaction_check_max": (1, 1000),
    "transactions_max": (1, 10_000_000),
    "long_poll_max_ms": (SECOND_MS, 10 * MINUTE_MS),
    "client_expiry_ms": (10 * SECOND_MS, DAY_MS),
    "consumption_flush_interval_ms": (10, MINUTE_MS),
    "shutdown_grace_ms": (0, 5 * MINUTE_MS),
    "lease_ms": (SECOND_MS, MINUTE_MS),
    "registry_wait_ms": (0, HOUR_MS),
    "connections_max": (1, 1_000_000),
    "connection_streams_max": (1, 100_000),
    "request_bytes_max": (64 * KIB, INBOUND_BYTES_MAX),
    "request_entries_max": (1, 100_000),
    "request_inflated_bytes_max": (KIB, GIB),
    "connection_in_bytes_max": (MIB, GIB),
    "in_bytes_max": (MIB, 64 * GIB),
    "connection_out_bytes_max": (64 * KIB, GIB),
    "out_bytes_max": (MIB, 64 * GIB),
    "control_frames_per_second": (10, 1_000_000),
    "resets_per_second": (1, 100_000),
    "header_timeout_ms": (100, 10 * MINUTE_MS),
    "body_timeout_ms": (100, HOUR_MS),
    "output_timeout_ms": (100, HOUR_MS),
    "connection_idle_ms": (SECOND_MS, DAY_MS),
    "keepalive_ms": (SECOND_MS, DAY_MS),
    "keepalive_timeout_ms": (100, HOUR_MS),
    "auto_create_per_minute": (1, 1_000_000),
    "workers": (1, 64),
}
_BROKER_NAME = re.compile(r"[A-Za-z0-9_.-]{1,127}", re.ASCII)
LISTENERS_MAX = 8


class FlushMode(StrEnum):
    """When a message is acknowledged: `sync` after fdatasync, `async` after the write."""

    SYNC = "sync"
    ASYNC = "async"


class LogFormat(StrEnum):
    """Log lines for people, or one JSON object per line."""

    TEXT = "text"
    JSON = "json"


class EventLoop(StrEnum):
    """The event loop of a process; `auto`: uvloop if it is installed, else asyncio's own."""

    AUTO = "auto"
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


@dataclass(frozen=True, slots=True)
class Listener:
    """One address for clients, `host:port`. `advertised` is where clients that came in there are told to come, None if
    nobody said so: then by the way that they took."""

    address: str
    advertised: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """What every process of a server has."""

    http: str = DEFAULT_HTTP
    """HOST:PORT of health, metrics and console; port 0 picks a free one."""

    shutdown_grace_ms: int = 1500
    """Milliseconds that running calls get to end when the process stops."""

    log_level: str = "info"
    """What is logged: debug, info, warning or error and above of our own packages, warnings of libraries. A package has
    a level of its own by PACKAGE=LEVEL, several are separated by commas."""

    log_format: LogFormat = LogFormat.TEXT
    """Log lines for people, or one JSON object per line."""

    loop: EventLoop = EventLoop.AUTO
    """The event loop: auto takes uvloop if it is installed, else asyncio's own."""

    otlp_endpoint: str | None = None
    """http://HOST:PORT of an OpenTelemetry collector (OTLP over gRPC) that gets metrics and traces; none: nobody."""

    trace_ratio: float = 0.0
    """Share of the messages that are traced, 0 to 1, of those whose producer says nothing about it."""

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name, None)
            if value is not None and not least <= value <= most:
                raise InvalidSetting(name, f"{rendered(name, least)} to {rendered(name, most)} is allowed")
        self._check_address("http")
        try:
            parsed_log_levels(self.log_level)
        except ValueError as error:
            raise InvalidSetting("log_level", str(error)) from None
        if not 0 <= self.trace_ratio <= 1:
            raise InvalidSetting("trace_ratio", "0 to 1 is allowed")

    def _check_address(self, name: str) -> None:
        try:
            parsed_address(getattr(self, name))
        except ValueError as error:
            raise InvalidSetting(name, str(error)) from None


@dataclass(frozen=True, kw_only=True)
class StorageSettings(ProcessSettings):
    """What a process with a store has."""

    data_dir: Path = Path("ternmq-data")
    """Everything that survives a restart; one process at a time."""

    broker_name: str = "broker-0"
    """The shard's name in routes; clients remember queues by it."""

    flush: FlushMode = FlushMode.SYNC
    """When a message is acknowledged: after fdatasync, or after the write."""

    segment_bytes: int = field(default=GIB, metadata={"flag": "--segment-size"})
    """Bytes of one commit log file; retention removes whole files."""

    retention_ms: int = field(default=72 * HOUR_MS, metadata={"flag": "--retention"})
    """How long a message is kept, consumed or not, in milliseconds."""

    retention_check_interval_ms: int = MINUTE_MS
    """Milliseconds between two looks for files that are older than the retention."""

    disk_free_min_bytes: int | None = field(default=None, metadata={"flag": "--disk-free-min"})
    """Bytes that new messages must leave free on the disk; auto: 5 % of it, 1GiB at least and 10 % at most; 0: none."""

    transaction_timeout_ms: int = 6 * SECOND_MS
    """How long a half message waits for its first transaction check, if it doesn't say so itself; in milliseconds."""

    transaction_check_interval_ms: int = 30 * SECOND_MS
    """Milliseconds between two checks of the same transaction."""

    transaction_check_max: int = 15
    """How many checks a transaction gets before it is discarded."""

    transactions_max: int = 100_000
    """How many transactions may be open at the same time."""

    consumption_flush_interval_ms: int = SECOND_MS
    """Milliseconds between two writes of the groups' progress; what a crash delivers again."""

    accept_corruption: bool = False
    """Start although records that were durable can't be read any more; those, and no others, are lost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _BROKER_NAME.fullmatch(self.broker_name):
            raise InvalidSetting("broker_name", "1 to 127 letters, digits and the characters _ . - are allowed")


@dataclass(frozen=True, kw_only=True)
class TrafficSettings(ProcessSettings):
    """What the clients of a process may make grow, and for how long they may leave something half done.

    Beyond a limit the call ends, or the connection: nothing else of the process is to suffer from it.
    """

    connections_max: int | None = None
    """Connections of clients at the same time; auto: what the limit of file descriptors leaves. More wait."""

    connection_streams_max: int = 1000
    """Calls that one connection may have under way."""

    request_bytes_max: int = 32 * MIB
    """Bytes of one request; those of the largest body that is allowed fit in any case."""

    request_entries_max: int = 1024
    """Messages, receipt handles or other entries of one request."""

    request_inflated_bytes_max: int = 32 * MIB
    """Bytes that all compressed bodies of one request may have when they are inflated."""

    connection_in_bytes_max: int = 16 * MIB
    """Bytes of requests that one connection may have under way; then it waits, or gets more while much is left."""

    in_bytes_max: int = 96 * MIB
    """Bytes of requests under way on all connections; beyond, the connection that has most of them is closed."""

    connection_out_bytes_max: int = 8 * MIB
    """Bytes of answers that one client has not read; it gets no more messages until it reads."""

    out_bytes_max: int = 64 * MIB
    """Bytes of answers that all clients have not read; beyond, clients that read nothing lose their connection."""

    control_frames_per_second: int = 1000
    """Frames that ask for nothing (PING, SETTINGS, empty ones) a connection may send each second, beside its calls."""

    resets_per_second: int = 200
    """Calls that a connection may break off each second."""

    header_timeout_ms: int = 10 * SECOND_MS
    """How long a greeting, a block of headers or the head of an HTTP request may take, in milliseconds."""

    body_timeout_ms: int = 30 * SECOND_MS
    """How long a request may take to come, in milliseconds; a large one a second more for each 64 KiB."""

    output_timeout_ms: int = MINUTE_MS
    """A connection is closed when its client has read nothing of what waits for it for this many milliseconds."""

    connection_idle_ms: int = 10 * MINUTE_MS
    """A connection without calls is closed after this many milliseconds."""

    keepalive_ms: int = 2 * MINUTE_MS
    """A connection on which nothing came for this many milliseconds is asked for a sign of life."""

    keepalive_timeout_ms: int = 20 * SECOND_MS
    """How long that sign may take, in milliseconds, before the connection is closed."""

    auto_create_per_minute: int = 120
    """Topics and groups that clients may have created by using them, each minute."""


@dataclass(frozen=True, kw_only=True)
class FrontSettings(TrafficSettings):
    """What a process that serves clients has."""

    grpc: str = DEFAULT_GRPC
    """HOST:PORT of the gRPC front, or several, separated by commas; port 0 picks a free one. HOST:PORT=HOST:PORT tells
    clients to come to the second, which a load balancer or NodePort leads here."""

    workers: int = 1
    """Processes that serve clients, on as many cores: each has some of the connections, and limits of its own."""

    auto_create: bool = True
    """Create topics by the first message that is sent to them, and groups by their first use of a topic."""

    default_queues: int = DEFAULT_QUEUES
    """Message queues of a topic that is created without a number."""

    body_bytes_max: int = 4 * MIB
    """Bytes of one message's body."""

    properties_bytes_max: int = 16 * KIB
    """Bytes of one message's user properties, names and values together."""

    properties_max: int = 128
    """Number of one message's user properties."""

    delay_max_ms: int = 72 * HOUR_MS
    """How far ahead a delayed message may be due, in milliseconds."""

    delay_levels: str = DEFAULT_DELAY_LEVELS
    """What the levels of the 4.x property DELAY stand for, from level 1 on."""

    long_poll_max_ms: int = POLL_MAX_MS
    """How long a receive may wait for a message, in milliseconds."""

    client_expiry_ms: int = 120 * SECOND_MS
    """A client is forgotten this many milliseconds after its last sign of life."""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            taken = [_bound(listener.address) for listener in self.listeners]
        except ValueError as error:
            raise InvalidSetting("grpc", str(error)) from None
        if _bound(self.http) in taken and _bound(self.http)[1] != 0:
            raise InvalidSetting("http", "the gRPC front has this address already")
        try:
            parse_delay_levels(self.delay_levels)
        except ValueError as error:
            raise InvalidSetting("delay_levels", str(error)) from None

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """What `grpc` says, in its order; one at least."""
        return parsed_listeners(self.grpc)


@dataclass(frozen=True, kw_only=True)
class ServerSettings(FrontSettings, StorageSettings):
    """`ternmq up`: the embedded stack. May change between restarts."""

    test_clock: bool = False
    """Let clients move the clock (`ternmq clock advance`): for tests of applications only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.body_bytes_max > self.segment_bytes // 2:
            raise InvalidSetting("body_bytes_max", "at most half a segment (segment_bytes) is allowed")
        if self.test_clock and self.workers > 1:
            raise InvalidSetting("workers", "a test clock (test_clock) moves the time of one process; 1 goes with it")


@dataclass(frozen=True, kw_only=True)
class MemberSettings(ProcessSettings):
    """What a process of a cluster has."""

    registry: str = DEFAULT_REGISTRY
    """URL of the PostgreSQL database that all processes of the cluster share; a password may be in $PGPASSWORD."""

    registry_wait_ms: int = 30 * SECOND_MS
    """Milliseconds to wait for the registry at the start before giving up."""


@dataclass(frozen=True, kw_only=True)
class BrokerServerSettings(StorageSettings, MemberSettings):
    """`ternmq broker`: one shard of a cluster."""

    storage: str = DEFAULT_STORAGE
    """HOST:PORT of the storage service, which proxies call; port 0 picks a free one."""

    advertised_storage: str | None = None
    """HOST:PORT by which proxies reach the storage service; none: the one it listens on."""

    rejoin: bool = False
    """Take part again although this broker was removed from the cluster."""

    lease_ms: int = 6 * SECOND_MS
    """How long the broker stays in the routes without a heartbeat; one is sent three times as often."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_address("storage")
        if self.advertised_storage is not None:
            self._check_address("advertised_storage")
        elif is_wildcard(parsed_address(self.storage)[0]):
            raise InvalidSetting(
                "advertised_storage", "HOST:PORT by which proxies reach this broker is needed, as storage names no host"
            )


@dataclass(frozen=True, kw_only=True)
class ProxySettings(FrontSettings, MemberSettings):
    """`ternmq proxy`: one of any number of proxies of a cluster, none of which keeps anything."""

    proxy_name: str = ""
    """How brokers and logs call this proxy; empty: the machine's name and the process's number."""


def parsed_listeners(text: str) -> tuple[Listener, ...]:
    """The listeners of `HOST:PORT[=HOST:PORT],...`; ValueError says what is wrong, and with which."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > LISTENERS_MAX:
        raise ValueError(f"at most {LISTENERS_MAX} listeners are allowed")
    listeners = tuple(_listener(part) for part in parts)
    taken = [_bound(listener.address) for listener in listeners]
    for listener, (host, port) in zip(listeners, taken, strict=True):
        if port != 0 and taken.count((host, port)) > 1:
            raise ValueError(f"{listener.address} is there more than once")
    return listeners


def _listener(text: str) -> Listener:
    address, separator, advertised = (part.strip() for part in text.partition("="))
    for part in (address, advertised) if separator else (address,):
        try:
            parsed_address(part)
        except ValueError as error:
            raise ValueError(f"{part!r} is no address: {error}") from None
    if not separator:
        return Listener(address)
    host, port = parsed_address(advertised)
    if port == 0 or is_wildcard(host):
        raise ValueError(f"nobody can connect to {advertised}; name the host and port that clients are to come to")
    return Listener(address, advertised)


def _bound(address: str) -> tuple[str, int]:
    host, port = parsed_address(address)
    return host.lower(), port
