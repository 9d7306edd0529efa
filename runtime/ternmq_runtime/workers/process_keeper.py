"""Keeps one process of a supervisor running: starts it, and starts another one when it has ended."""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.errors import StartupError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_runtime.workers.child_process import ChildProcess, ProcessKilled, describe_exit
from ternmq_runtime.workers.restarts import LONGEST_S, RestartBackoff
from ternmq_runtime.workers.worker_place import WorkerPlace, encode_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.server_settings import ProcessSettings

_log = logging.getLogger(__name__)


class ProcessKeeper:
    """Keeps the process of one place running, from `start` to `end_process`. `lost` is called with the reason if no
    process can be started there any more; without it the start is tried again."""

    def __init__(
        self,
        place: WorkerPlace,
        settings: "ProcessSettings",
        command: tuple[str, ...],
        *,
        lost: "Callable[[str], None] | None" = None,
    ) -> None:
        self.place = place
        self.restarts = RestartBackoff()
        self._settings = settings
        self._command = command
        self._on_lost = lost
        self._child = ChildProcess(place.name, *command)
        self._tasks = BackgroundTasks()
        self._ends = False
        self.serves = False

    async def prepare_process(self) -> None:
        """Load the program, so that the start is fast."""
        await self._child.prepare_process()

    async def start_process(self) -> None:
        """Start the process, and return when it serves; StartupError if it can't."""
        await self._start_child(self.place)
        if self._ends:  # another process has failed meanwhile
            return
        self._tasks.start(self._restart_forever(), name=f"watch over {self.place.name}")

    async def end_process(self, grace_s: float) -> None:
        """End the process in order, kill it after so many seconds; it is not restarted."""
        self._ends = True
        await self._tasks.stop()
        self.serves = False
        await self._child.end_process(grace_s)

    async def _start_child(self, place: WorkerPlace) -> None:
        self.restarts.record_start(asyncio.get_running_loop().time())
        await self._child.start_serving(encode_place(place, self._settings))
        self.serves = True
        _log.debug("%s is process %d", place.name, self._child.pid)

    async def _restart_forever(self) -> None:
        why = describe_exit(await self._child.wait_ended())
        while True:
            self.serves = False
            wait_s = self.restarts.record_death(asyncio.get_running_loop().time())
            self._log_death(why)
            await asyncio.sleep(wait_s)
            self._child = ChildProcess(self.place.name, *self._command)
            try:
                await self._start_child(replace(self.place, is_restart=True))
            except StartupError as error:
                await self._child.wait_ended()
                if self._on_lost is not None and not isinstance(error, ProcessKilled):
                    self._on_lost(f"{self.place.name} can't be started again: {error}")
                    return
                why = f"could not be started: {error}"
            else:
                why = describe_exit(await self._child.wait_ended())

    def _log_death(self, why: str) -> None:
        if not self.restarts.is_worth_logging:
            _log.debug("%s %s", self.place.name, why)
        elif self.restarts.is_often:
            _log.error(
                "%s %s, again and again; it is restarted every %g s at most, and this is not logged again until it "
                "has been steady",
                self.place.name,
                why,
                LONGEST_S,
            )
        else:
            _log.error("%s %s; it is restarted", self.place.name, why)
