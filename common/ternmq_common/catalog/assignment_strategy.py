"""How the members of a pull-consuming group share the message queues of a topic: the setting of a group, as a text.

averagely                         runs of queues, sizes differ by one at most; an empty text means this too
averagely-by-circle               every n-th queue
consistent-hash                   a member that comes or goes moves its own queues only
by-config:c1=0,b/1;c2=b/2,b/3     fixed lists: `c1`, `c2` are client ids, `b/1` is queue 1 of broker b, `0` is queue 0
                                  of every broker, of all topics; no queue may be in two lists
machine-room:r1,r2                even shares, but only of the queues of brokers called `r1@...` or `r2@...`
machine-room-nearby:averagely     one of the first three inside each room; all members share rooms that have none

The codes that RocketMQ reports (`pulling.md, Shares`) are read too: AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, CONFIG:...,
MACHINE_ROOM:..., MACHINE_ROOM_NEARBY-AVG and so on; letters of names may be small or capital. `str()` writes the forms
above, the same for equal strategies. The proxy computes which member gets which queue.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import QUEUES_MAX

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueRef

# The registry stores up to 4096; the canonical form may be a few characters longer than the input.
STRATEGY_CHARACTERS_MAX = 4000
_QUEUE_ID = re.compile(r"[0-9]{1,9}")


class StrategyName(enum.Enum):
    """The strategies, by the names in a group's settings."""

    AVERAGELY = "averagely"
    AVERAGELY_BY_CIRCLE = "averagely-by-circle"
    CONSISTENT_HASH = "consistent-hash"
    BY_CONFIG = "by-config"
    MACHINE_ROOM = "machine-room"
    MACHINE_ROOM_NEARBY = "machine-room-nearby"


_PLAIN = (StrategyName.AVERAGELY, StrategyName.AVERAGELY_BY_CIRCLE, StrategyName.CONSISTENT_HASH)
_NAMES = {name.value: name for name in StrategyName} | {
    "avg": StrategyName.AVERAGELY,
    "avg-by-circle": StrategyName.AVERAGELY_BY_CIRCLE,
    "config": StrategyName.BY_CONFIG,
}
_NEARBY_CODE = "machine-room-nearby-"


class FixedQueue(NamedTuple):
    """A queue in a fixed list: one of `broker`, or the one with that id on every broker if `broker` is empty."""

    broker: str
    queue_id: int

    def includes_queue(self, queue: "QueueRef") -> bool:
        return self.queue_id == queue.queue_id and self.broker in ("", queue.broker)

    def __str__(self) -> str:
        return f"{self.broker}/{self.queue_id}" if self.broker else str(self.queue_id)


class FixedList(NamedTuple):
    """The queues of one member, sorted."""

    member: str
    queues: tuple[FixedQueue, ...]

    def __str__(self) -> str:
        return f"{self.member}={','.join(map(str, self.queues))}"


@dataclass(frozen=True, slots=True)
class AssignmentStrategy:
    """A checked strategy. `rooms` and `lists` are sorted; fields that the strategy does not use have defaults."""

    name: StrategyName = StrategyName.AVERAGELY
    inner: StrategyName = StrategyName.AVERAGELY
    rooms: tuple[str, ...] = ()
    lists: tuple[FixedList, ...] = ()

    @classmethod
    def parse_strategy(cls, text: str) -> "AssignmentStrategy":
        """Parse a text of one of the forms above; BAD_REQUEST for any other."""
        if len(text) > STRATEGY_CHARACTERS_MAX:
            raise _strategy_error(f"it has {len(text)} characters; {STRATEGY_CHARACTERS_MAX} are allowed")
        name, parameters = _split_name(text)
        if name is StrategyName.BY_CONFIG:
            return cls(name, lists=_parse_lists(parameters or ""))
        if name is StrategyName.MACHINE_ROOM:
            return cls(name, rooms=_parse_rooms(parameters or ""))
        if name is StrategyName.MACHINE_ROOM_NEARBY:
            return cls(name, inner=_parse_inner(parameters or ""))
        if parameters is not None:
            raise _strategy_error(f"{name.value} has no parameters")
        return cls(name)

    def __str__(self) -> str:
        return self.name.value + "".join(f":{parameters}" for parameters in self._render_parameters())

    def _render_parameters(self) -> Iterator[str]:
        if self.name is StrategyName.BY_CONFIG:
            yield ";".join(map(str, self.lists))
        elif self.name is StrategyName.MACHINE_ROOM:
            yield ",".join(self.rooms)
        elif self.name is StrategyName.MACHINE_ROOM_NEARBY:
            yield self.inner.value


def _split_name(text: str) -> tuple[StrategyName, str | None]:
    """Split the text into the strategy's name and what follows its colon, None without a colon."""
    if not text.strip():
        return StrategyName.AVERAGELY, None
    first, colon, parameters = text.partition(":")
    folded = _fold_name(first)
    if not colon and folded.startswith(_NEARBY_CODE):
        return StrategyName.MACHINE_ROOM_NEARBY, folded.removeprefix(_NEARBY_CODE)
    name = _NAMES.get(folded)
    if name is None:
        raise _strategy_error(f"{first.strip()[:40]!r} is no strategy; there are {_join_names(tuple(StrategyName))}")
    return name, parameters if colon else None


def _fold_name(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _parse_inner(parameters: str) -> StrategyName:
    inner = _NAMES.get(_fold_name(parameters))
    if inner not in _PLAIN:
        raise _strategy_error(f"machine-room-nearby: is followed by one of {_join_names(_PLAIN)}")
    return inner


def _parse_rooms(parameters: str) -> tuple[str, ...]:
    rooms = {room.strip() for room in parameters.split(",")}
    if any(not room or "@" in room for room in rooms):
        raise _strategy_error("machine-room: is followed by names of rooms, without @ and separated by commas")
    return tuple(sorted(rooms))


def _parse_lists(parameters: str) -> tuple[FixedList, ...]:
    lists = sorted(_parse_list(piece) for piece in parameters.split(";"))
    members = [fixed.member for fixed in lists]
    if len(set(members)) < len(members):
        raise _strategy_error("a member has two lists; write one list for each member")
    _check_disjoint(lists)
    return tuple(lists)


def _parse_list(piece: str) -> FixedList:
    # A client id may have a = in it; a queue has none, so the last one separates them.
    member, _, queues = piece.rpartition("=")
    if not member.strip():
        raise _strategy_error("by-config: is followed by lists such as member=0,broker/1, separated by semicolons")
    return FixedList(member.strip(), tuple(sorted({_parse_queue(queue) for queue in queues.split(",")})))


def _parse_queue(text: str) -> FixedQueue:
    broker, slash, queue_id = text.rpartition("/")
    well_formed = _QUEUE_ID.fullmatch(queue_id.strip()) and bool(slash) == bool(broker.strip())
    if not well_formed or int(queue_id) >= QUEUES_MAX:
        raise _strategy_error(
            f"a queue is written broker/id, or id for every broker, up to {QUEUES_MAX - 1}, not {text[:40]!r}"
        )
    return FixedQueue(broker.strip(), int(queue_id))


def _check_disjoint(lists: list[FixedList]) -> None:
    """Refuse a queue in two lists: it would have two readers."""
    takers: dict[int, dict[str, str]] = {}  # queue id, broker, member
    for member, queues in lists:
        for queue in queues:
            taken = takers.setdefault(queue.queue_id, {})
            others = [taken.get(broker, member) for broker in ("", queue.broker)] if queue.broker else taken.values()
            other = next((name for name in others if name != member), None)
            if other is not None:
                raise _strategy_error(
                    f"queue {queue} is in the lists of {other!r} and {member!r}; a queue has one reader"
                )
            taken[queue.broker] = member


def _join_names(names: tuple[StrategyName, ...]) -> str:
    return ", ".join(name.value for name in names)


def _strategy_error(reason: str) -> MessagingError:
    return MessagingError(ErrorCode.BAD_REQUEST, f"the assignment strategy can't be used: {reason}")
