"""Settings of access control and of what operators can reach."""

from dataclasses import dataclass

from ternmq_common.limits import DAY_MS, GIB, KIB, MIB, MINUTE_MS
from ternmq_common.resources.setting import setting
from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class AccessSettings(ProcessSettings):
    """Access control, and the audit log of calls."""

    access_control: bool = setting(
        False, "Serve only users of the registry, and only what their policies allow.", flag=True, see="security.md"
    )
    admin: str | None = setting(
        None,
        "Address of a gRPC listener for operators, which alone serves administration and reflection, beside all "
        "other calls; port 0 picks a free one; none: every listener of the gRPC front serves them.",
        flag=True, form="HOST:PORT", see="security.md#a-listener-for-operators",
    )  # fmt: skip
    insecure: bool = setting(
        False,
        "Listen beyond this machine although access control is off, or plain text is accepted.",
        flag=True, see="security.md",
    )  # fmt: skip
    signature_window_ms: int = setting(
        15 * MINUTE_MS,
        "How far the date that a client signs may be from now; 0: any date will do.",
        within=(0, DAY_MS), see="security.md",
    )  # fmt: skip
    signature_local_time: bool = setting(
        True,
        "Take dates in any zone's time for those in UTC, as the official Java, Go, Python and C# clients send them.",
        see="security.md",
    )
    metrics_open: bool = setting(
        False, "Serve metrics and version to everybody by HTTP, though access control is on.", see="security.md"
    )
    console: bool = setting(
        True,
        "Serve pages for operators under /console and the JSON API under /api/v1 by HTTP, beside health and metrics.",
        see="http-api.md",
    )
    console_hosts: str = setting(
        "",
        "Names by which operators may call this server by HTTP without access control, beside its addresses and "
        "localhost.",
        form="NAME[,NAME]...", see="http-api.md",
    )  # fmt: skip
    console_grafana: str = setting(
        "",
        "Address of a Grafana (https://...) to which the console links; empty: none.",
        form="URL", see="http-api.md",
    )  # fmt: skip
    console_prefix: str = setting(
        "",
        "The path below which a reverse proxy has pages and JSON API, as /mq, whether or not it removes that from "
        "the requests that it forwards; empty: none.",
        flag=True, form="PATH", see="http-api.md#behind-a-reverse-proxy",
    )  # fmt: skip
    audit_log: str = setting(
        "",
        "File for the audit log; empty: audit.log in the data directory, or among the other logs where there is none.",
        form="FILE",
    )
    audit_log_bytes: int = setting(64 * MIB, "Size of one file of the audit log.", within=(64 * KIB, GIB))
    audit_log_files: int = setting(
        8, "Files of the audit log that are kept beside the one that is written.", within=(1, 1000)
    )
