"""Settings of every server process."""

from dataclasses import dataclass
from enum import StrEnum

from ternmq_common.addresses import DEFAULT_HTTP, parse_address
from ternmq_common.log_levels import parse_log_levels
from ternmq_common.server_settings.ranges import RANGES
from ternmq_common.settings import InvalidSetting, render_value


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

    http: str = DEFAULT_HTTP
    """HOST:PORT of health, metrics and console; port 0 picks a free one."""

    shutdown_grace_ms: int = 1500
    """How long running calls may take to end when the process stops, in milliseconds."""

    log_level: str = "info"
    """What is logged: debug, info, warning or error and above of our own packages, warnings of libraries. A package has
    a level of its own by PACKAGE=LEVEL, several are separated by commas."""

    log_format: LogFormat = LogFormat.TEXT
    """Log lines for people, or one JSON object per line."""

    loop: EventLoop = EventLoop.AUTO
    """The event loop: auto takes uvloop if it is installed, else asyncio's own."""

    otlp_endpoint: str | None = None
    """http://HOST:PORT of an OpenTelemetry collector (OTLP over gRPC) that gets metrics and traces; none: no export."""

    trace_ratio: float = 0.0
    """Share of the messages that are traced, 0 to 1, of those whose producer does not decide it."""

    metric_series_max: int = 1000
    """Topics, groups, and pairs of both, that have metrics of their own; the others are summed up as `other`."""

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name, None)
            if value is not None and not least <= value <= most:
                raise InvalidSetting(name, f"{render_value(name, least)} to {render_value(name, most)} is allowed")
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
