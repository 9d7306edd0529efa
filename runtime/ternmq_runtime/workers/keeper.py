"""Keeps one process of a supervisor running: starts it, and starts another one when it has ended."""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.errors import StartupError
from ternmq_runtime.workers.child import Child, Killed, ending
from ternmq_runtime.workers.place import Place, told
from ternmq_runtime.workers.restarts import LONGEST_S, Restarts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.server_settings import ProcessSettings

_log = logging.getLogger(__name__)


class Keeper:
    """Keeps the process of one place running, from `start` to `end`. `lost` is called with the reason if no process can
    be started there any more; without it the start is tried again."""

    def __init__(
        self,
        place: Place,
        settings: "ProcessSettings",
        command: tuple[str, ...],
        *,
        lost: "Callable[[str], None] | None" = None,
    ) -> None:
        self.place = place
        self.restarts = Restarts()
        self._settings = settings
        self._command = command
        self._lost = lost
        self._child = Child(place.name, *command)
        self._keeping: asyncio.Task[None] | None = None
        self._ends = False
        self.serves = False

    async def prepare(self) -> None:
        """Load the program, so that the start is fast."""
        await self._child.prepare()

    async def start(self) -> None:
        """Start the process, and return when it serves; StartupError if it can't."""
        await self._start(self.place)
        if self._ends:  # another process has failed meanwhile
            return
        self._keeping = asyncio.create_task(self._keep(), name=f"watch over {self.place.name}")

    async def end(self, grace_s: float) -> None:
        """End the process in order, kill it after so many seconds; it is not restarted."""
        self._ends = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        self.serves = False
        await self._child.end(grace_s)

    async def _start(self, place: Place) -> None:
        self.restarts.started(asyncio.get_running_loop().time())
        await self._child.start(told(place, self._settings))
        self.serves = True
        _log.debug("%s is process %d", place.name, self._child.pid)

    async def _keep(self) -> None:
        why = ending(await self._child.ended())
        while True:
            self.serves = False
            wait_s = self.restarts.died(asyncio.get_running_loop().time())
            self._say(why)
            await asyncio.sleep(wait_s)
            self._child = Child(self.place.name, *self._command)
            try:
                await self._start(replace(self.place, is_restart=True))
            except StartupError as error:
                await self._child.ended()
                if self._lost is not None and not isinstance(error, Killed):
                    self._lost(f"{self.place.name} can't be started again: {error}")
                    return
                why = f"could not be started: {error}"
            else:
                why = ending(await self._child.ended())

    def _say(self, why: str) -> None:
        if not self.restarts.is_worth_saying:
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
