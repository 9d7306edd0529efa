"""Settings of access control and of what operators can reach."""

from dataclasses import dataclass

from ternmq_common.limits import MIB, MINUTE_MS
from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class AccessSettings(ProcessSettings):
    """Who may call a process, and what is logged of it."""

    access_control: bool = False
    """Serve only users of the registry, and only what their policies allow."""

    admin: str | None = None
    """HOST:PORT of a gRPC listener for operators, which alone serves administration and reflection, beside all other
    calls; port 0 picks a free one; none: every listener of the gRPC front serves them."""

    insecure: bool = False
    """Listen beyond this machine although access control is off, or plain text is accepted."""

    signature_window_ms: int = 15 * MINUTE_MS
    """How far the date that a client signs may be from now, in milliseconds; 0: any date will do."""

    signature_local_time: bool = True
    """Take dates in any zone's time for those in UTC, as the official Java, Go, Python and C# clients send them."""

    metrics_open: bool = False
    """Serve metrics and version to everybody by HTTP, though access control is on."""

    console: bool = True
    """Serve pages for operators under /console and the JSON API under /api/v1 by HTTP, beside health and metrics."""

    console_hosts: str = ""
    """Names, separated by commas, by which operators may call this server by HTTP without access control, beside its
    addresses and localhost."""

    console_grafana: str = ""
    """Address of a Grafana (https://...) to which the console links; empty: none."""

    console_prefix: str = ""
    """The path below which a reverse proxy has pages and JSON API, as /mq, whether or not it removes that from the
    requests that it forwards; empty: none."""

    audit_log: str = ""
    """File for the audit log; empty: audit.log in the data directory, or among the other logs where there is none."""

    audit_log_bytes: int = 64 * MIB
    """Bytes of one file of the audit log."""

    audit_log_files: int = 8
    """Files of the audit log that are kept beside the one that is written."""
