"""Consumer groups are moved to other offsets."""

import asyncio
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import QueueRef, Topic
from ternmq_proxy.access.needs import GROUP_UPDATE
from ternmq_proxy.operations.admin.named import find_group, find_topic

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


class Target(enum.Enum):
    """Where a group is to go on in a queue: at its first message, its end, the first message of a time, an offset, so
    many messages away from where it is; or where it is, with one message finished."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"
    SHIFT = "shift"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset:
    """A move of a group in a topic. `number` is a time in milliseconds since the epoch, an offset or a count, as
    `target` says. All queues if `queue_ids` is empty, of all brokers if `broker` is. `dry_run`: nothing is moved."""

    group: str
    topic: str
    target: Target | None
    number: int = 0
    broker: str = ""
    queue_ids: tuple[int, ...] = ()
    dry_run: bool = False

    @property
    def is_everywhere(self) -> bool:
        """Whether it is about all queues."""
        return not self.queue_ids and not self.broker


class OffsetMove(NamedTuple):
    """From where to where a group moves in a queue; -1 if it has no offset there."""

    queue: QueueRef
    before: int
    after: int


async def reset_offsets(reset: OffsetReset, call: "Call", services: "Services") -> list[OffsetMove]:
    """Move a group in all queues of a topic, or in some. A skipped message must be in one queue."""
    services.access.require_change("ResetOffsets", call, (GROUP_UPDATE, reset.group))
    await services.catalog.existing_group(reset.group)
    return await _reset_offsets(reset, services)


async def reset_offsets_to_time(
    group: str, topic: str, time_ms: int | None, call: "Call", services: "Services"
) -> list[OffsetMove]:
    """Move a group to a time, in milliseconds since the epoch, in all queues of a topic."""
    services.access.require_change("ResetGroupOffset", call, (GROUP_UPDATE, group))
    name = (await find_group(group, services)).name
    if time_ms is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names no reset_timestamp")
    return await _reset_offsets(OffsetReset(group=name, topic=topic, target=Target.TIME, number=time_ms), services)


async def _reset_offsets(reset: OffsetReset, services: "Services") -> list[OffsetMove]:
    topic = await find_topic(reset.topic, services)
    if topic.type == MessageType.LITE:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} has lite topics: where a group is in one, its clients say as they subscribe it",
        )
    if reset.target is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names no target: earliest, latest, a time, ...")
    queues = _find_queues(reset, topic, services)
    if reset.target is Target.SKIP:
        return [await _skip_message(reset, queues, services)]
    # All brokers are called before any offset moves, so that the call fails whole if one is away.
    moves = await asyncio.gather(*(_plan_move(reset, queue, services) for queue in queues))
    if not reset.dry_run:
        for move in moves:
            await services.messages.reading.set_committed(reset.group, move.queue, move.after)
        if reset.is_everywhere:
            await services.messages.administering.drop_retries(reset.group, topic.name)
    return moves


def _find_queues(reset: OffsetReset, topic: Topic, services: "Services") -> list[QueueRef]:
    wanted = sorted(set(reset.queue_ids)) or range(topic.queues)
    if not all(0 <= queue_id < topic.queues for queue_id in wanted):
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} has the queues 0 to {topic.queues - 1}, not all of {list(wanted)}",
        )
    route = services.messages.find_route(topic)
    if reset.broker and reset.broker not in route.brokers:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} is not on broker {reset.broker!r}, but on {', '.join(route.brokers)}",
        )
    brokers = [reset.broker] if reset.broker else route.brokers
    return [QueueRef(topic.name, broker, queue_id) for broker in brokers for queue_id in wanted]


async def _skip_message(reset: OffsetReset, queues: list[QueueRef], services: "Services") -> OffsetMove:
    """Finish one message; return up to where everything was finished before and is now."""
    if len(queues) != 1:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"an offset is one of one queue of one broker, and the request names {len(queues)} queues",
        )
    (queue,) = queues
    before = await services.messages.reading.committed(reset.group, queue)
    if not reset.dry_run:
        await services.messages.administering.skip(reset.group, queue, reset.number)
    after = await services.messages.reading.committed(reset.group, queue)
    known, now = (-1 if each is None else each for each in (before, after))
    return OffsetMove(queue, known, now)


async def _plan_move(reset: OffsetReset, queue: QueueRef, services: "Services") -> OffsetMove:
    before = await services.messages.reading.committed(reset.group, queue)
    after = await _find_target(reset, queue, before, services)
    return OffsetMove(queue, -1 if before is None else before, after)


async def _find_target(reset: OffsetReset, queue: QueueRef, before: int | None, services: "Services") -> int:
    """Return where the group is to go on in that queue, within what the queue holds."""
    bounds = await services.messages.reading.bounds(queue)
    if reset.target is Target.EARLIEST:
        return bounds.minimum
    if reset.target is Target.LATEST:
        return bounds.maximum
    if reset.target is Target.TIME:
        return await services.messages.reading.offset_at(queue, reset.number)
    is_offset = reset.target is Target.OFFSET
    wanted = reset.number if is_offset else (bounds.minimum if before is None else before) + reset.number
    return min(max(wanted, bounds.minimum), bounds.maximum)
