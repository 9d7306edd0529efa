"""The offsets of groups in lite topics of which they hold no message: one number for each, as there may be many.

There may be a hundred thousand. `take_state` turns such an offset into a full state again (`OrderedConsumption`); the
state becomes an offset when all that it handed out is settled. Generations of claims are then counted from the highest
that any of them had, so that no old receipt handle becomes valid.
"""

from collections.abc import Iterator

from ternmq_broker.delivery.ordered_consumption import OrderedConsumption


class IdleOffsets:
    """The offsets of one broker, by group and the topic of the lite topic's queue."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[str, int]] = {}
        self._generation = 0

    def __len__(self) -> int:
        return sum(map(len, self._offsets.values()))

    def put_offset(self, group: str, topic: str, offset: int, generation: int) -> None:
        self._offsets.setdefault(group, {})[topic] = offset
        self._generation = max(self._generation, generation)

    def offset_of(self, group: str, topic: str) -> int | None:
        """Return the group's offset; None if it has none here."""
        return self._offsets.get(group, {}).get(topic)

    def take_state(self, group: str, topic: str) -> OrderedConsumption | None:
        """Remove the group's offset, and return a state that begins there; None if there is none."""
        offset = self._offsets.get(group, {}).pop(topic, None)
        return None if offset is None else self.begin_state(offset)

    def begin_state(self, offset: int, generation: int = 0) -> OrderedConsumption:
        """Create a state that begins at the offset, and counts its claims from `generation` at least."""
        state = OrderedConsumption(offset, generation)
        state.continue_generation(self._generation)
        return state

    def forget_offset(self, group: str, topic: str) -> bool:
        """Drop the group's offset; return whether there was one."""
        return self._offsets.get(group, {}).pop(topic, None) is not None

    def forget_group(self, group: str) -> None:
        self._offsets.pop(group, None)

    def offsets_of_group(self, group: str) -> dict[str, int]:
        """Return the group's offsets, by topic. Do not change the result."""
        return self._offsets.get(group, {})

    def idle_groups(self) -> list[str]:
        """Return the groups that have any offset here."""
        return [group for group, offsets in self._offsets.items() if offsets]

    def all_offsets(self) -> Iterator[tuple[str, str, int]]:
        """Yield group, topic and offset."""
        for group, offsets in self._offsets.items():
            yield from ((group, topic, offset) for topic, offset in offsets.items())

    @property
    def generation(self) -> int:
        """The highest generation that any of them had."""
        return self._generation
