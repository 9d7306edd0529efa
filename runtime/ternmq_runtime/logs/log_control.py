"""The log levels of this process: set at the start, read and changed while it runs.

A logger lives as long as the process, and the text of a change names loggers, so their number is limited.
"""

import logging

from ternmq_common.process.log_levels import OWN_PACKAGES, LogLevel, LogLevels, parse_log_levels

_log = logging.getLogger(__name__)
TEXT_MAX = 1000
NAMES_MAX = 1000
_levels: LogLevels | None = None
_named: set[str] = set()


def current_levels() -> str:
    """Return the levels in force, as the setting `log_level` writes them: `info,ternmq_proxy=debug`."""
    return _format_levels(_levels_in_force())


def parse_levels(text: str, *, names_max: int = NAMES_MAX) -> LogLevels:
    """Parse the levels of `text`; ValueError if they can't be applied."""
    if len(text) > TEXT_MAX:
        raise ValueError(f"log levels of {len(text)} characters; at most {TEXT_MAX} are allowed")
    levels = parse_log_levels(text)
    if len(_named | levels.named.keys()) > names_max:
        raise ValueError(
            f"more than {names_max} loggers were named since this process began; restart it, or name fewer"
        )
    return levels


def apply_levels(levels: LogLevels) -> None:
    """Put these levels in force, and reset the loggers of earlier ones."""
    global _levels  # noqa: PLW0603 - as logging itself, it is the process's
    for name in _named:
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.getLogger().setLevel(levels.of_others.name)
    for name, level in {**dict.fromkeys(OWN_PACKAGES, levels.own), **levels.named}.items():
        logging.getLogger(name).setLevel(level.name)
    _named.update(levels.named)
    _levels = levels


def change_levels(text: str, *, by: str) -> str:
    """Put these levels in force and log the change at any level; return them. Raises ValueError."""
    levels = parse_levels(text)
    before = current_levels()
    apply_levels(levels)
    # Not subject to any level: readers of the log must learn why there is more in it from here on, or less.
    record = _log.makeRecord(
        _log.name,
        logging.WARNING,
        __file__,
        0,
        "log levels: %s, after %s; changed by %s",
        (current_levels(), before, by),
        None,
    )
    logging.getLogger().handle(record)
    return current_levels()


def _levels_in_force() -> LogLevels:
    if _levels is not None:
        return _levels
    level = logging.getLevelName(logging.getLogger(OWN_PACKAGES[0]).getEffectiveLevel()).lower()
    return LogLevels(LogLevel(level) if level in set(LogLevel) else LogLevel.INFO, {})


def _format_levels(levels: LogLevels) -> str:
    return ",".join([levels.own, *(f"{name}={level}" for name, level in levels.named.items())])
