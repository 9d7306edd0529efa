"""The rest of calls whose first try had no task: what the broker could not take goes on in one."""

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ternmq_proxy.message_service.cluster.calls import Heard


class Asides:
    """Tasks whose ends are told."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def go_on(self, rest: "Awaitable[Any]", heard: "Heard") -> None:
        """`heard` hears what comes of it."""
        task = asyncio.create_task(self._told(rest, heard))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _told(self, rest: "Awaitable[Any]", heard: "Heard") -> None:
        try:
            result = await rest
        except Exception as error:  # noqa: BLE001 - the outermost of this task; who asked logs what was not foreseen
            heard(None, error)
        else:
            heard(result, None)
