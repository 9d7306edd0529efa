"""When to query the registry for what isn't known here.

A name that stays missing is queried once a second at most, and so is a registry that is out: clients that ask for
what isn't there must not keep a database busy.
"""

import math
from typing import TYPE_CHECKING

from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_registry.directory import Directory

AGAIN_S = 1.0
_NAMES_MAX = 1024


class Lookups:
    """`now` is a monotonic clock in seconds."""

    def __init__(self, directory: "Directory", now: "Callable[[], float]") -> None:
        self._directory = directory
        self._now = now
        self._failed_at = -math.inf
        self._looked_at: dict[str, float] = {}

    async def look_up_name(self, name: str) -> None:
        """Have the directory know it if it is there; `RegistryUnavailable` if nobody can tell now."""
        now = self._now()
        if now - max(self._failed_at, self._looked_at.get(name, -math.inf)) < AGAIN_S:
            if self._directory.problem is not None:
                raise RegistryUnavailable(self._directory.problem)
            return
        try:
            await self._directory.refresh()
        except RegistryUnavailable:
            self._failed_at = self._now()
            raise
        self._note(name)

    def _note(self, name: str) -> None:
        now = self._now()
        if len(self._looked_at) >= _NAMES_MAX:
            self._looked_at = {each: at for each, at in self._looked_at.items() if now - at < AGAIN_S}
        if len(self._looked_at) < _NAMES_MAX:
            self._looked_at[name] = now
