"""Settings that limit what the clients of a process can make grow."""

from dataclasses import dataclass

from ternmq_common.limits import MIB, MINUTE_MS, SECOND_MS
from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class TrafficSettings(ProcessSettings):
    """Limits of what the clients of a process can make grow, and of how long something may stay half done.

    Beyond a limit the call ends, or the connection: nothing else of the process suffers from it.
    """

    connections_max: int | None = None
    """Connections of clients at the same time; auto: what the limit of file descriptors leaves. More wait."""

    connection_streams_max: int = 4096
    """Calls that one connection may have under way. A push consumer has a poll waiting for each topic that it may
    subscribe to, or each message queue, and what it calls beyond waits in the client, acknowledgements too."""

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
    """Frames that request nothing (PING, SETTINGS, empty ones) a connection may send each second, beside its calls."""

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
