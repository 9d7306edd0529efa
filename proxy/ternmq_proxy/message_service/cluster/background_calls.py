"""Continues calls in a task that the broker could not take at the first attempt, which needs no task."""

from typing import TYPE_CHECKING, Any

from ternmq_common.event_loop.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ternmq_proxy.message_service.cluster.broker_links.calls import ResultCallback


class BackgroundCalls:
    """Runs the rest of calls in tasks, and keeps the tasks until they end."""

    def __init__(self) -> None:
        self._tasks = BackgroundTasks()

    def start(self, rest: "Awaitable[Any]", on_result: "ResultCallback") -> None:
        """Run the rest of a call, and call `on_result` with its result or error."""
        self._tasks.start(self._finish_call(rest, on_result), name="rest of a call")

    async def _finish_call(self, rest: "Awaitable[Any]", on_result: "ResultCallback") -> None:
        try:
            result = await rest
        except Exception as error:  # noqa: BLE001 - the outermost of this task; the caller logs unexpected errors
            on_result(None, error)
        else:
            on_result(result, None)
