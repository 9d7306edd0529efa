"""The end of a turn of the event loop, where work that many calls began in the turn is done together.

Work    gathered from many calls, such as messages to append to the log. It may bring more work.
Writes  come last, when no work is left: a connection writes once what the whole turn made ready.
"""

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from ternmq_common.event_loop.callbacks import call_back

Do = Callable[[], None]


class TurnEnd:
    """The end of the turns of one loop; see `turn_end`. An error goes to the loop's exception handler, and holds up
    nothing."""

    __slots__ = ("_is_scheduled", "_loop", "_work", "_writes")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: list[Do] = []
        self._writes: list[Do] = []
        self._is_scheduled = False

    def add_work(self, do: Do) -> None:
        """Call `do` at the end of this turn."""
        self._work.append(do)
        self._schedule_end()

    def add_write(self, do: Do) -> None:
        """Call `do` when all work of this turn is done."""
        self._writes.append(do)
        self._schedule_end()

    def _schedule_end(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_all)

    def _run_all(self) -> None:
        try:
            while self._work or self._writes:
                if self._work:
                    now, self._work = self._work, []
                else:
                    now, self._writes = self._writes, []
                for do in now:
                    call_back(do)
        finally:
            self._is_scheduled = False


def turn_end() -> TurnEnd:
    """The `TurnEnd` of the running loop."""
    loop = asyncio.get_running_loop()
    end = _ENDS.get(loop)
    if end is None:
        end = _ENDS[loop] = TurnEnd(loop)
    return end


_ENDS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, TurnEnd]] = WeakKeyDictionary()
