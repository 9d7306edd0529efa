"""Assigns message queues of a topic to the members of a pull-consuming group (formulas: `pulling.md, Shares`).

In the formulas the Q queues are sorted by (topic, broker, queue id), and `i` is the place of the member among the n
members sorted by client id, so an answer depends on the members, never on the order of lists.

Every queue has exactly one reader while the group has a member, with two exceptions that may leave queues without one:
by-config   queues in no list, and those of members that are not there
machine-room   queues of brokers that are in none of its rooms

The room of a broker is the part of its name before the first `@`, the room of a member the part of its id before the
first `@` of its client id; without an `@` both are in the room with the empty name.
"""

import bisect
import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence

from ternmq_common.catalog.assignment_strategy import AssignmentStrategy, StrategyName
from ternmq_common.shard.model import QueueRef

POINTS_PER_MEMBER = 10

# The part of the sorted queues, sorted, for one of the sorted members.
_Share = Callable[[Sequence[QueueRef], Sequence[str], str], list[QueueRef]]


def assign_queues(
    strategy: AssignmentStrategy, queues: Sequence[QueueRef], members: Sequence[str], member: str
) -> list[QueueRef]:
    """Return the queues that `member` reads, sorted; none if it is not among `members`."""
    everyone = sorted(set(members))
    if member not in everyone:
        return []
    ordered = sorted(set(queues), key=_queue_key)
    if strategy.name is StrategyName.BY_CONFIG:
        return _by_config(strategy, ordered, member)
    if strategy.name is StrategyName.MACHINE_ROOM:
        return _machine_room(strategy, ordered, everyone, member)
    if strategy.name is StrategyName.MACHINE_ROOM_NEARBY:
        return _assign_nearby(_SHARES[strategy.inner], ordered, everyone, member)
    return _SHARES[strategy.name](ordered, everyone, member)


def _queue_key(queue: QueueRef) -> tuple[str, str, int]:
    return queue.topic, queue.broker, queue.queue_id


def _assign_averagely(queues: Sequence[QueueRef], members: Sequence[str], member: str) -> list[QueueRef]:
    """Return a run of Q/n queues; the first Q mod n members get one more."""
    size, left_over = divmod(len(queues), len(members))
    index = members.index(member)
    start = index * size + min(index, left_over)
    return list(queues[start : start + size + (index < left_over)])


def _by_circle(queues: Sequence[QueueRef], members: Sequence[str], member: str) -> list[QueueRef]:
    """Return the queues whose place, modulo n, is the member's."""
    return list(queues[members.index(member) :: len(members)])


def _consistent_hash(queues: Sequence[QueueRef], members: Sequence[str], member: str) -> list[QueueRef]:
    """Return the queues for which the next point on the ring is the member's."""
    # Of two members at one point the later one has it, whichever others come or go.
    ring = {_ring_hash(f"{name}-{point}"): name for name in members for point in range(POINTS_PER_MEMBER)}
    points = sorted(ring)

    def reader(queue: QueueRef) -> str:
        # The text that identifies a queue in RocketMQ's clients.
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue_id}]"
        return ring[points[bisect.bisect_left(points, _ring_hash(text)) % len(points)]]

    return [queue for queue in queues if reader(queue) == member]


def _ring_hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


_SHARES: dict[StrategyName, _Share] = {
    StrategyName.AVERAGELY: _assign_averagely,
    StrategyName.AVERAGELY_BY_CIRCLE: _by_circle,
    StrategyName.CONSISTENT_HASH: _consistent_hash,
}


def _by_config(strategy: AssignmentStrategy, queues: Sequence[QueueRef], member: str) -> list[QueueRef]:
    """Return the queues of the member's list that exist, for every topic alike."""
    fixed = [queue for name, listed in strategy.lists if name == member for queue in listed]
    return [queue for queue in queues if any(entry.includes_queue(queue) for entry in fixed)]


def _machine_room(
    strategy: AssignmentStrategy, queues: Sequence[QueueRef], members: Sequence[str], member: str
) -> list[QueueRef]:
    """Return a run of P/n of the rooms' P queues; the rest at the end goes to the first P mod n members."""
    inside = [queue for queue in queues if _room_name(queue.broker) in strategy.rooms]
    size, left_over = divmod(len(inside), len(members))
    index = members.index(member)
    share = inside[index * size : (index + 1) * size]
    if index < left_over:
        share.append(inside[size * len(members) + index])
    return share


def _assign_nearby(share: _Share, queues: Sequence[QueueRef], members: Sequence[str], member: str) -> list[QueueRef]:
    """Apply the inner strategy in each room: among the members of the room, or among all if it has none."""
    rooms: defaultdict[str, list[QueueRef]] = defaultdict(list)
    for queue in queues:
        rooms[_room_name(queue.broker)].append(queue)
    assigned: list[QueueRef] = []
    for room, inside in rooms.items():
        readers = [name for name in members if _room_name(name) == room] or members
        if member in readers:
            assigned += share(inside, readers, member)
    return sorted(assigned, key=_queue_key)


def _room_name(name: str) -> str:
    room, at, _ = name.partition("@")
    return room if at else ""
