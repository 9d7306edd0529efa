"""Changes that another leader may take back, each with the value that it replaced.

A change by an operation of the log applies in memory at once, but a side file must not have it before the operation is
acknowledged: a replica whose log is cut back to where another leader's continues must have the earlier value. So the
writers of side files get their values here. Values are tuples of numbers, each of which only rises.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT", bound=tuple[int, ...])


class UnacknowledgedChanges(Generic[KeyT, ValueT]):
    """The unacknowledged changes by key, in the log's order: where the operation ends in the log, and the value
    before.
    """

    def __init__(self) -> None:
        self._before: dict[KeyT, list[tuple[int, ValueT]]] = {}

    def __bool__(self) -> bool:
        return bool(self._before)

    def __iter__(self) -> Iterator[KeyT]:
        return iter(list(self._before))

    def add_change(self, key: KeyT, decided_at: int, before: ValueT) -> None:
        """Add a change by the operation that ends at log offset `decided_at`."""
        self._before.setdefault(key, []).append((decided_at, before))

    def acknowledge_below(self, acknowledged: int) -> None:
        """Drop the changes below that log offset: they will never be taken back."""
        for key in self:
            left = [change for change in self._before[key] if change[0] > acknowledged]
            if left:
                self._before[key] = left
            else:
                del self._before[key]

    def acknowledged_value(self, key: KeyT, value: ValueT) -> ValueT:
        """Return the part of the key's current value that can't be taken back."""
        changes = self._before.get(key)
        return changes[0][1] if changes else value

    def raise_to(self, key: KeyT, least: ValueT) -> None:
        """Raise the key's earlier values too, after something else has raised the value for good."""
        if key in self._before:
            self._before[key] = [(at, _raise_value(before, least)) for at, before in self._before[key]]


def _raise_value(value: ValueT, least: ValueT) -> ValueT:
    return type(value)(map(max, value, least))
