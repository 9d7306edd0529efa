"""Reads and changes the log levels of all processes of the called server."""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.access.needs import CLUSTER_GET, CLUSTER_UPDATE
from ternmq_runtime.logs import log_control
from ternmq_runtime.workers.siblings import CHANGE_LOG_LEVELS, LOG_LEVELS, encode_log_change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_LOG_LEVELS = "log-levels"


class LogLevels(NamedTuple):
    """The levels of processes by their names, this one first, and the processes that did not answer."""

    by_process: dict[str, str]
    silent: list[str]


async def find_log_levels(call: "Call", services: "Services") -> LogLevels:
    """Return the levels in force in each process."""
    services.access.require_all("GetLogLevels", call, (CLUSTER_GET, _LOG_LEVELS))
    answers = await services.process.siblings.ask_all(LOG_LEVELS)
    return _join_levels(services, log_control.current_levels(), answers)


async def update_log_levels(levels: str, call: "Call", services: "Services") -> LogLevels:
    """Change the levels in each process, until it ends; BAD_REQUEST for what are none."""
    services.access.require_change("UpdateLogLevels", call, (CLUSTER_UPDATE, _LOG_LEVELS))
    return await _change_levels(levels, call, services)


async def change_log_level(level: str | int, call: "Call", services: "Services") -> tuple[str, LogLevels]:
    """Set one level for all loggers of this server, and return the levels from before, and those of now; BAD_REQUEST
    for a level that is a number of none."""
    services.access.require_change("ChangeLogLevel", call, (CLUSTER_UPDATE, _LOG_LEVELS))
    if isinstance(level, int):
        raise MessagingError(ErrorCode.BAD_REQUEST, f"log level {level} is unknown")
    before = log_control.current_levels()
    return before, await _change_levels(level, call, services)


async def _change_levels(levels: str, call: "Call", services: "Services") -> LogLevels:
    try:
        own = log_control.change_levels(levels, by=call.caller_text)
    except ValueError as error:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"log levels: {error}") from None
    answers = await services.process.siblings.ask_all(CHANGE_LOG_LEVELS, encode_log_change(levels, by=call.caller_text))
    return _join_levels(services, own, answers)


def _join_levels(services: "Services", own: str, answers: "Mapping[str, bytes | None]") -> LogLevels:
    others = {name: answer.decode() for name, answer in answers.items() if answer is not None}
    silent = [name for name, answer in answers.items() if answer is None]
    return LogLevels({services.process.name: own, **others}, silent)
