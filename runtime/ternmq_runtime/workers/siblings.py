"""Questions between the processes of one supervisor, at the sockets where they serve their health.

A question is `GET /inside/QUESTION/ARGUMENT`, with the argument quoted as in a URL. The sockets are in the supervisor's
folder, which is for this user alone; a process without such a socket answers no questions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from ternmq_runtime.http.front import INTERNAL_PATH
from ternmq_runtime.logs import log_control
from ternmq_runtime.observability.self_report import SelfReport, create_report
from ternmq_runtime.workers.local_requests import NoAnswer, request_locally

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_common.server_settings import ProcessSettings
    from ternmq_runtime.workers.worker_place import WorkerPlace

Answers = dict[str, Callable[[str], Awaitable[bytes]]]
"""Functions by question; each gets the argument, on the process's event loop."""

LOG_LEVELS, CHANGE_LOG_LEVELS, REPORT, READY = "log-levels", "change-log-levels", "report", "/health/ready"
MAY_READ = "may-read"
"""The question of the supervisor, which knows no users: may an `Asker` read what HTTP reports? YES if so."""
YES = b"yes"
# More than a process gives itself to answer.
_PATIENCE_S = 2.0
_SEPARATOR = "\n"


class SiblingProcesses:
    """The other processes of a worker's supervisor that have started; none without a `place`."""

    def __init__(self, place: "WorkerPlace | None" = None) -> None:
        self._place = place

    async def ask_all(self, question: str, argument: str = "") -> dict[str, bytes | None]:
        """Send a question to all; return the answers by process name, None for those that give none."""
        answers = await self._request_all(f"{INTERNAL_PATH}{question}/{quote(argument, safe='')}")
        return {
            name: answer[1] if answer is not None and answer[0] == 200 else None for name, answer in answers.items()
        }

    async def read_health(self) -> dict[str, str | None]:
        """Return what is wrong with each process, as a sentence; None where nothing is."""
        answers = await self._request_all(READY)
        return {
            name: "it does not answer" if answer is None else _describe_fault(*answer)
            for name, answer in answers.items()
        }

    async def _request_all(self, path: str) -> "dict[str, tuple[int, bytes] | None]":
        places = await asyncio.to_thread(self._find_sockets)
        answers = await asyncio.gather(*(_request_or_none(socket, path) for socket in places.values()))
        return dict(zip(places, answers, strict=True))

    def _find_sockets(self) -> "dict[str, Path]":
        if self._place is None:
            return {}
        own = self._place.own_folder
        folders = sorted(each for each in self._place.folder.iterdir() if each != own)
        return {folder.name: folder / "http" for folder in folders}


async def _request_or_none(socket: "Path", path: str) -> tuple[int, bytes] | None:
    try:
        return await request_locally(str(socket), path, _PATIENCE_S)
    except NoAnswer:
        return None


def _describe_fault(code: int, body: bytes) -> str | None:
    health = msgspec.json.decode(body, type=dict[str, str | bool])
    return str(health["status"]) if code != 200 else str(health["degraded"]) if "degraded" in health else None


def create_answers(settings: "ProcessSettings") -> Answers:
    """Return the answers that every process gives about itself."""

    async def log_levels(_: str) -> bytes:
        return log_control.current_levels().encode()

    async def change_log_levels(argument: str) -> bytes:
        levels, _, by = argument.partition(_SEPARATOR)
        return log_control.change_levels(levels, by=by).encode()

    async def report(_: str) -> bytes:
        return msgspec.json.encode(create_report(settings))

    return {LOG_LEVELS: log_levels, CHANGE_LOG_LEVELS: change_log_levels, REPORT: report}


def encode_log_change(levels: str, *, by: str) -> str:
    """Encode the argument of CHANGE_LOG_LEVELS."""
    return f"{levels}{_SEPARATOR}{by}"


def decode_report(answer: bytes) -> SelfReport:
    """Decode an answer to REPORT."""
    return msgspec.json.decode(answer, type=SelfReport)
