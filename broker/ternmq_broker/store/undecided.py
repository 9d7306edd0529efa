"""Changes that another leader may take back: what they made of a value, and what it was before.

A change that an operation of the log makes is known to everybody at once, but a side file must not speak of it before
the operation is acknowledged: a replica whose log is cut back to where another leader's goes on has to have the value
of before. So who writes the file asks here. Values are tuples of numbers, each of which only rises.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT", bound=tuple[int, ...])


class Undecided(Generic[KeyT, ValueT]):
    """By key the changes, in the log's order: where the operation ends in the log, and the value before."""

    def __init__(self) -> None:
        self._before: dict[KeyT, list[tuple[int, ValueT]]] = {}

    def __bool__(self) -> bool:
        return bool(self._before)

    def __iter__(self) -> Iterator[KeyT]:
        return iter(list(self._before))

    def add(self, key: KeyT, decided_at: int, before: ValueT) -> None:
        """The value is changed by the operation that ends at log offset `decided_at`."""
        self._before.setdefault(key, []).append((decided_at, before))

    def decide(self, acknowledged: int) -> None:
        """What lies below that log offset will never be taken back."""
        for key in self:
            left = [change for change in self._before[key] if change[0] > acknowledged]
            if left:
                self._before[key] = left
            else:
                del self._before[key]

    def decided(self, key: KeyT, value: ValueT) -> ValueT:
        """Of a key whose value is that now: what can't be taken back of it."""
        changes = self._before.get(key)
        return changes[0][1] if changes else value

    def raise_to(self, key: KeyT, least: ValueT) -> None:
        """Something else has raised the key's value, for good: so were those before."""
        if key in self._before:
            self._before[key] = [(at, _raised(before, least)) for at, before in self._before[key]]


def _raised(value: ValueT, least: ValueT) -> ValueT:
    return type(value)(map(max, value, least))
