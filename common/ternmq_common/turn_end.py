"""The end of a turn of the event loop, where what many began in it is done together.

Work     what was gathered from many calls, such as messages that are to be appended to the log. It may bring more.
Writes   come last, when no work is left: a connection writes once what the whole turn made ready.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from ternmq_common.callbacks import tell

Do = Callable[[], None]


class TurnEnd:
    """Of one loop; see `turn_end`. What fails is told to the loop's exception handler, and holds up nothing else."""

    __slots__ = ("_comes", "_loop", "_work", "_writes")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: list[Do] = []
        self._writes: list[Do] = []
        self._comes = False

    def work(self, do: Do) -> None:
        """Do it at the end of this turn."""
        self._work.append(do)
        self._come()

    def write(self, do: Do) -> None:
        """Do it when all work of this turn is done."""
        self._writes.append(do)
        self._come()

    def _come(self) -> None:
        if not self._comes:
            self._comes = True
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        try:
            while self._work or self._writes:
                if self._work:
                    now, self._work = self._work, []
                else:
                    now, self._writes = self._writes, []
                for do in now:
                    tell(do)
        finally:
            self._comes = False


def turn_end() -> TurnEnd:
    """That of the loop that runs."""
    loop = asyncio.get_running_loop()
    end = _ENDS.get(loop)
    if end is None:
        end = _ENDS[loop] = TurnEnd(loop)
    return end


_ENDS: WeakKeyDictionary[asyncio.AbstractEventLoop, TurnEnd] = WeakKeyDictionary()
