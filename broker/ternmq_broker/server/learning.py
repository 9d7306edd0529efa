"""Versions of the registry that proxies know and the broker does not: what was deleted up to them is to be forgotten.

The registry may be out for the broker alone, so it is asked again every LEARN_AGAIN_S until it says. Nobody waits for
that without end: frames go on after PATIENCE_S; of a topic or group that was made since nothing is stored, and who asks
for that hears it after STORING_PATIENCE_S. Both together are less than a proxy waits for an answer.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.server.forgetting import Forgetting
    from ternmq_registry.directory import Directory

_log = logging.getLogger(__name__)
PATIENCE_S = 0.5
STORING_PATIENCE_S = 1.2
LEARN_AGAIN_S = 1.0


class Learning:
    """Brings `forgetting.looked_up_to` to the latest version that somebody has named. `on_learned` is called when
    `knows` may answer otherwise than before."""

    def __init__(self, directory: "Directory", forgetting: "Forgetting", on_learned: "Callable[[], None]") -> None:
        self._directory = directory
        self._forgetting = forgetting
        self._on_learned = on_learned
        self._wanted = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._learned = asyncio.Condition()
        self._closed = False

    def knows(self, version: int) -> bool:
        """Whether all that was deleted up to that version is forgotten."""
        return version <= self._forgetting.looked_up_to

    async def known_up_to(self, version: int) -> None:
        """A proxy knows that version; know it too, as far as the registry can be reached. That may take seconds, and
        all calls of the proxy wait behind this one: those are not held up for long."""
        if not self.knows(version):
            await asyncio.wait({self._learn(version)}, timeout=PATIENCE_S)

    async def known_soon(self, version: int) -> bool:
        """Wait until `knows(version)`, not for long; whether it does then."""
        self.see_to(version)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORING_PATIENCE_S), self._learned:
                await self._learned.wait_for(lambda: self.knows(version))
        return self.knows(version)

    def see_to(self, version: int) -> None:
        """Have that version learned, unless that is under way."""
        if version > self._wanted or (not self._tasks and self._again is None):
            self.begin(version)

    def begin(self, version: int) -> None:
        """The registry has that version: learn it while it is there, before somebody waits for it."""
        if not self.knows(version) and not self._closed:
            self._learn(version)

    def _learn(self, version: int) -> "asyncio.Task[None]":
        self._wanted = max(self._wanted, version)
        task = asyncio.create_task(self._learn_up_to(self._wanted), name="later version of the registry")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _learn_up_to(self, version: int) -> None:
        try:
            await self._directory.at_least(version)
            await self._forgetting.catch_up()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("version %d of the registry can't be followed", version)
        async with self._learned:
            self._learned.notify_all()
        if self._closed:
            return
        if self.knows(version):
            self._on_learned()
            return
        if self._directory.problem is None and self._directory.snapshot.version < version:
            self._wanted = 0  # the registry was restored, and has no such version any more
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(LEARN_AGAIN_S, self._learn_again)

    def _learn_again(self) -> None:
        self._again = None
        if self.knows(self._wanted):
            self._on_learned()  # also of a version that there is no more: who named it has heard of that meanwhile
        else:
            self.begin(self._wanted)

    def close(self) -> None:
        """Nothing more is learned."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
        for task in self._tasks:
            task.cancel()
