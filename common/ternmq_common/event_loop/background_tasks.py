"""Tasks that belong to an object and run beside its calls: named, kept until they end, and stopped with their owner.

Failure  an error that ends a task is logged once, with the name of the task, or raised to the caller that awaits the
         task.
Stop     cancels the tasks and waits for their end; tasks that these start meanwhile are stopped too. A task may stop
         the others of its owner.
Order    an object with tasks of which one needs the other has a `BackgroundTasks` for each, and stops them in order.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from types import TracebackType

T = TypeVar("T")
_log = logging.getLogger(__name__)


class BackgroundTasks:
    """The running tasks of one owner. As a context manager it stops them at the end of the block."""

    def __init__(self, log: logging.Logger = _log) -> None:
        """Failures are logged to `log`."""
        self._log = log
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in the order of their starts, which simulations need

    def __len__(self) -> int:
        """How many tasks run. One that ended in this turn of the loop does not, though it is still kept."""
        return sum(not task.done() for task in self._tasks)

    def start(self, work: "Coroutine[Any, Any, T]", *, name: str | None = None) -> "asyncio.Task[T]":
        """Run the work in a task; an error that ends it is logged. Without a name it has that of its function."""
        task = self.start_awaited(work, name=name)
        task.add_done_callback(self._log_failure)
        return task

    def start_awaited(self, work: "Coroutine[Any, Any, T]", *, name: str | None = None) -> "asyncio.Task[T]":
        """Run the work in a task that the caller awaits, or takes the result of."""
        task = asyncio.create_task(work, name=name or getattr(work, "__qualname__", None))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def run_to_end(self, work: "Coroutine[Any, Any, T]") -> T:
        """Run the work to its end, even if the caller is cancelled; then an error is logged."""
        task = self.start_awaited(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._log_failure)
            raise

    def cancel(self) -> None:
        """Cancel all tasks, but for the one that calls this."""
        for task in _others(self._tasks):
            task.cancel()

    async def stop(self) -> None:
        """Cancel all tasks and wait for their end."""
        while _others(self._tasks):
            await cancel_tasks(self._tasks)

    async def wait_until_done(self) -> None:
        """Wait for the end of all tasks."""
        while others := _others(self._tasks):
            await asyncio.wait(others)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        await self.stop()

    def _log_failure(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("the task %s failed", task.get_name(), exc_info=error)


async def cancel_tasks(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks, but for the one that calls this, and wait for their end."""
    others = _others(tasks)
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


def _others(tasks: "Iterable[asyncio.Task[Any]]") -> "list[asyncio.Task[Any]]":
    own = asyncio.current_task()
    return [task for task in tasks if task is not own]
