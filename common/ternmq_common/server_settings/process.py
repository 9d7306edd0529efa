"""Settings of every server process."""

from dataclasses import dataclass
from enum import StrEnum

from ternmq_common.addresses import DEFAULT_HTTP, parse_address
from ternmq_common.limits import MINUTE_MS
from ternmq_common.process.log_levels import LogLevel, parse_log_levels
from ternmq_common.resources.setting import InvalidSetting, setting, settings_of


class LogFormat(StrEnum):
    """Log lines for people, or one JSON object per line."""

    TEXT = "text"
    JSON = "json"


class EventLoop(StrEnum):
    """The event loop of a process; `auto`: uvloop if it is installed, else asyncio's own."""

    AUTO = "auto"
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """Settings of every server process."""

    http: str = setting(
        DEFAULT_HTTP, "Address of health, metrics and console; port 0 picks a free one.", flag=True, form="HOST:PORT"
    )
    shutdown_grace_ms: int = setting(
        1500, "How long running calls may take to end when the process stops.", within=(0, 5 * MINUTE_MS)
    )
    log_level: str = setting(
        "info",
        "What is logged: debug, info, warning or error and above of our own packages, warnings of libraries. A "
        "package has a level of its own by PACKAGE=LEVEL, as in info,ternmq_proxy=debug; `ternmq log-level` "
        "changes them.",
        flag=True, form="LEVEL[,PACKAGE=LEVEL]...", words=tuple(LogLevel),
    )  # fmt: skip
    log_format: LogFormat = setting(LogFormat.TEXT, "Log lines for people, or one JSON object per line.", flag=True)
    loop: EventLoop = setting(
        EventLoop.AUTO, "The event loop: auto takes uvloop if it is installed, else asyncio's own.", flag=True
    )
    otlp_endpoint: str | None = setting(
        None,
        "An OpenTelemetry collector (OTLP over gRPC) that gets metrics and traces; none: no export.",
        form="http://HOST:PORT",
    )
    trace_ratio: float = setting(
        0.0, "Share of the messages that are traced, 0 to 1, of those whose producer does not decide it."
    )
    metric_series_max: int = setting(
        1000,
        "Topics, groups, and pairs of both, that have metrics of their own; the others are summed up as `other`.",
        within=(1, 20_000),
    )

    def __post_init__(self) -> None:
        for each in settings_of(type(self)).values():
            each.check_range(getattr(self, each.name))
        self._check_address("http")
        try:
            parse_log_levels(self.log_level)
        except ValueError as error:
            raise InvalidSetting("log_level", str(error)) from None
        if not 0 <= self.trace_ratio <= 1:
            raise InvalidSetting("trace_ratio", "0 to 1 is allowed")

    def _check_address(self, name: str) -> None:
        try:
            parse_address(getattr(self, name))
        except ValueError as error:
            raise InvalidSetting(name, str(error)) from None
