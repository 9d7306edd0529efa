"""The options that all kinds of clients have."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypedDict

from ternmq.connections.connection_events import ConnectionListener
from ternmq.connections.credentials import READ_AGAIN_S, CredentialsSource
from ternmq.connections.tls import Tls
from ternmq.hooks import Hooks
from ternmq.times.backoff import END_BACKOFF, Backoff
from ternmq.times.durations import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How often a client does its housekeeping, in seconds; the defaults are those of the official clients.

    A producer that is closed waits for `attempt_extra_s` longer than an attempt may take, for the server and the
    network; before it repeats the end of a transaction, it waits for `end_backoff`.
    """

    heartbeat_s: float = 10.0
    route_refresh_s: float = 30.0
    settings_s: float = 300.0
    assignment_s: float = 5.0
    lite_sync_s: float = 30.0
    error_pause_s: float = 1.0
    credentials_s: float = READ_AGAIN_S
    attempt_extra_s: float = 1.0
    end_backoff: Backoff = END_BACKOFF

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_s") and not isinstance(value, float | int):
                raise TypeError(f"{field.name} is a number of seconds, which {value!r} is not")


class ClientOptions(TypedDict, total=False):
    """Keyword arguments of every client, all optional."""

    credentials: CredentialsSource | None
    """The client's credentials, for servers with access control: `Credentials`, a `CredentialsFile`, or a function that
    returns `Credentials`."""

    tls: Tls
    """True for a server whose certificate the system trusts, or `TlsOptions`."""

    request_timeout: Seconds
    """Seconds, or a timedelta, for one attempt of one request; 3 by default."""

    hooks: Sequence[Hooks]
    """Observers, such as `ternmq.otel.OpenTelemetryHooks`."""

    timing: Timing
    """The periods of heartbeats and the like."""

    on_connection: ConnectionListener | None
    """Called with a `ConnectionEvent` when a server is connected, lost, and connected again; see
    `ternmq.connections.connection_events`."""
