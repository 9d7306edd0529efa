"""Where groups are in lite topics of which they hold nothing: one number each, since there may be a hundred thousand.

What is taken has its state again (`OrderedConsumption`), and rests when all that it handed out is settled. Generations
of claims are then counted from the highest that any of them had, so that no receipt handle is good again.
"""

from collections.abc import Iterator

from ternmq_broker.delivery.ordered_consumption import OrderedConsumption


class Resting:
    """Of one broker, by group and the topic of the lite topic's queue."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[str, int]] = {}
        self._generation = 0

    def __len__(self) -> int:
        return sum(map(len, self._offsets.values()))

    def put(self, group: str, topic: str, offset: int, generation: int) -> None:
        self._offsets.setdefault(group, {})[topic] = offset
        self._generation = max(self._generation, generation)

    def at(self, group: str, topic: str) -> int | None:
        """Where the group rests; None if it does not."""
        return self._offsets.get(group, {}).get(topic)

    def take(self, group: str, topic: str) -> OrderedConsumption | None:
        """The group's state, which rests no more; None if there is none."""
        offset = self._offsets.get(group, {}).pop(topic, None)
        return None if offset is None else self.begun(offset)

    def begun(self, offset: int, generation: int = 0) -> OrderedConsumption:
        """A state that begins there, and counts its claims from `generation` at least."""
        state = OrderedConsumption(offset, generation)
        state.go_on_from(self._generation)
        return state

    def forget(self, group: str, topic: str) -> bool:
        """Whether it rested."""
        return self._offsets.get(group, {}).pop(topic, None) is not None

    def forget_group(self, group: str) -> None:
        self._offsets.pop(group, None)

    def of_group(self, group: str) -> dict[str, int]:
        """Where the group rests, by topic; to be looked at only."""
        return self._offsets.get(group, {})

    def groups(self) -> list[str]:
        """Those that rest anywhere."""
        return [group for group, offsets in self._offsets.items() if offsets]

    def all(self) -> Iterator[tuple[str, str, int]]:
        """Group, topic and offset."""
        for group, offsets in self._offsets.items():
            yield from ((group, topic, offset) for topic, offset in offsets.items())

    @property
    def generation(self) -> int:
        """The highest that any of them had."""
        return self._generation
