"""Limits how many requests an HTTP server answers at once, for each kind of path.

A request to the site may wait for messages, and metrics may be large. However many of those are sent, they use no slot
of the few paths by which an orchestrator decides whether the process lives.
"""

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

SITE_MAX = 40
OTHERS_MAX = 12


class NoSlot(Exception):
    """Too many requests of that kind are being answered at once."""


class RequestSlots:
    """The slots of one server: `SITE_MAX` for its site, `OTHERS_MAX` for the rest, no limit for the paths `always`."""

    def __init__(self, always: "frozenset[str]") -> None:
        self._always = always
        self._site = _SlotCount(SITE_MAX)
        self._others = _SlotCount(OTHERS_MAX)

    def hold_site_slot(self) -> "AbstractContextManager[None]":
        """Hold a slot while the site answers a request. NoSlot."""
        return self._site.hold_slot()

    def hold_slot(self, path: str) -> "AbstractContextManager[None]":
        """Hold a slot while a request of that path, which is not the site's, is answered. NoSlot."""
        return nullcontext() if path in self._always else self._others.hold_slot()


class _SlotCount:
    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._count = 0

    @contextmanager
    def hold_slot(self) -> "Iterator[None]":
        if self._count >= self._count_max:
            raise NoSlot(
                f"{self._count} requests like this one are being answered, the most that may be: try again soon"
            )
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
