"""A process that a supervisor has started, seen from the process itself."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ternmq_common.errors import StartupError
from ternmq_common.process.private_files import create_folder
from ternmq_runtime import process
from ternmq_runtime.workers.child_process import FAILED
from ternmq_runtime.workers.worker_place import decode_place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack

    from ternmq_common.server_settings import ProcessSettings
    from ternmq_runtime.workers.worker_place import WorkerPlace

S = TypeVar("S", bound="ProcessSettings")


def run_worker(
    kind: "type[S]",
    start: "Callable[[WorkerPlace, S, AsyncExitStack], Awaitable[str]]",
    *,
    over: asyncio.Event | None = None,
) -> int:
    """Run the server that the supervisor describes on standard input until the supervisor ends it, or ends itself, or
    `over` is set; return the exit code.

    `start` begins everything that the stack ends, and returns the ready line. Its StartupError is printed for the
    supervisor.
    """
    line = sys.stdin.buffer.readline()
    if not line:
        return 0  # the supervisor is gone
    place, settings = decode_place(line, kind)
    supervisor = _SupervisorPipe()

    async def begin(stack: "AsyncExitStack") -> str:
        supervisor.watch_pipe()
        create_folder(place.own_folder)
        return await start(place, settings, stack)

    try:
        return process.run_server(settings, begin, over=over, name=place.name, is_part=True)
    except StartupError as error:
        print(FAILED, " ".join(str(error).split()), flush=True)  # noqa: T201 - standard output is the supervisor's
        return 1
    finally:
        if supervisor.is_gone:
            shutil.rmtree(place.own_folder, ignore_errors=True)
            with suppress(OSError):  # others are in it
                place.folder.rmdir()


class _SupervisorPipe:
    """This end of the pipe from the supervisor: nothing is sent there, but its end is noticed."""

    def __init__(self) -> None:
        self.is_gone = False

    def watch_pipe(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read_pipe)

    def _read_pipe(self) -> None:
        if not os.read(sys.stdin.fileno(), 1):
            self.is_gone = True
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            signal.raise_signal(signal.SIGTERM)
