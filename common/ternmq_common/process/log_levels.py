"""Log levels by package: `info`, or `info,ternmq_proxy=debug,hpack=debug`. Pure.

Ours    the level without a name is that of our own packages; `info` if there is none.
Others  libraries stay at warning, or above with ours, unless they are named: at debug some log all that passes.
Names   are those of loggers, which log lines have; a name covers all below it, `root` everything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

OWN_PACKAGES = (
    "pyspark_ternmq",
    "ternmq",
    "ternmq_broker",
    "ternmq_command",
    "ternmq_common",
    "ternmq_console",
    "ternmq_protos",
    "ternmq_proxy",
    "ternmq_registry",
    "ternmq_rpc",
    "ternmq_runtime",
)
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)
_SHORT = {name.removeprefix("ternmq_"): name for name in OWN_PACKAGES if name.startswith("ternmq_")}


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_GRAVITY = {level: number for number, level in enumerate(LogLevel)}


@dataclass(frozen=True, slots=True)
class LogLevels:
    """`own` is the level of our packages, `named` those of loggers that have one of their own."""

    own: LogLevel
    named: Mapping[str, LogLevel]

    @property
    def of_others(self) -> LogLevel:
        """The level of libraries that are not named."""
        return max(self.own, LogLevel.WARNING, key=_GRAVITY.__getitem__)

    def is_logged(self, logger: str, level: LogLevel) -> bool:
        """Whether a line of one of our loggers at this level is logged."""
        while logger not in self.named and "." in logger:
            logger = logger.rpartition(".")[0]
        return _GRAVITY[level] >= _GRAVITY[self.named.get(logger, self.own)]


def parse_log_levels(text: str) -> LogLevels:
    """Parse `LEVEL[,PACKAGE=LEVEL]...`; ValueError with the mistake."""
    own: LogLevel | None = None
    named: dict[str, LogLevel] = {}
    for part in text.split(","):
        name, separator, level = (piece.strip() for piece in part.rpartition("="))
        if not separator and own is None:
            own = _parse_level(level)
        elif not separator:
            raise ValueError(f"{level!r} is a second level for all; PACKAGE=LEVEL is one for a package")
        elif _check_name(name) in named:
            raise ValueError(f"{name} is there more than once")
        else:
            named[name] = _parse_level(level)
    return LogLevels(own or LogLevel.INFO, named)


def _parse_level(text: str) -> LogLevel:
    try:
        return LogLevel(text.lower())
    except ValueError:
        raise ValueError(
            f"{text!r} is no level; one of {', '.join(LogLevel)} is needed, and PACKAGE=LEVEL for a package, like "
            "info,ternmq_proxy=debug"
        ) from None


def _check_name(name: str) -> str:
    """Check the name of a package; a mistake in one of ours would not be noticed otherwise."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a package, like ternmq_proxy")
    package = name.partition(".")[0]
    if package in _SHORT:
        raise ValueError(f"{package!r} is no package; did you mean {_SHORT[package]!r}?")
    if package.startswith("ternmq") and package not in OWN_PACKAGES:
        raise ValueError(f"{package!r} is no package of ours; they are {', '.join(OWN_PACKAGES)}")
    return name
