"""A step that a server repeats in a task of its own, also after it failed.

A full disk must not end the loop, as it passes; nor may a bug, unnoticed. But it may last for days: a step that fails
every second must not fill the log, so each kind of OSError is logged once, until a step works.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.pacing.backoff import RETRY_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)


class FailureLog:
    """Logs the failures of one loop; `what` says what a failure means."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._logged_errno: int | None = None

    def log_failure(self, error: Exception, again_s: float) -> None:
        """Log that the step failed, and is tried again in so many seconds.

        All errors but OSError are bugs, and are logged with their traceback each time.
        """
        if not isinstance(error, OSError):
            _log.error("%s; it is tried again in %g s", self._what, again_s, exc_info=error)
        elif error.errno != self._logged_errno:
            self._logged_errno = error.errno
            _log.error("%s: %s; it is tried again every %g s", self._what, error, again_s)

    def note_success(self) -> None:
        """Note that the step worked."""
        if self._logged_errno is not None:
            self._logged_errno = None
            _log.info("what did not work before works again (%s)", self._what)


class BackgroundLoop:
    """Repeats a step in a task called `name`; `what` says what a failed step means. Owners may be subclasses.

    Before each step, and so after each failure, it pauses for `every_s`, or until `wake`; with 0 the step waits for its
    work itself.
    """

    def __init__(
        self, step: "Callable[[], Awaitable[None] | None]", *, name: str, what: str, every_s: float = 0.0
    ) -> None:
        self._step = step
        self._name = name
        self.every_s = every_s
        self._failures = FailureLog(what)
        self._tasks = BackgroundTasks()
        self._pause: asyncio.Future[None] | None = None

    def start(self) -> None:
        self._tasks.start(self._run_steps(), name=self._name)

    async def stop(self) -> None:
        """Cancel the step, which must allow that, and wait for its end."""
        await self._tasks.stop()

    def wake(self) -> None:
        """End the pause before the next step, if the loop is in it."""
        if self._pause is not None:
            _end_pause(self._pause)

    async def _sleep(self) -> None:
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(self.every_s, _end_pause, self._pause)
        try:
            await self._pause
        finally:
            timer.cancel()
            self._pause = None

    async def _run_steps(self) -> None:
        while True:
            if self.every_s:
                await self._sleep()
            try:
                if (waited := self._step()) is not None:
                    await waited
            except Exception as error:  # noqa: BLE001 - the outermost of this task, and it logs
                self._failures.log_failure(error, self.every_s or RETRY_S)
                if not self.every_s:
                    await asyncio.sleep(RETRY_S)
            else:
                self._failures.note_success()


def _end_pause(pause: "asyncio.Future[None]") -> None:
    if not pause.done():
        pause.set_result(None)
