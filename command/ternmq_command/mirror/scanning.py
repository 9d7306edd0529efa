"""Reads copies in the target: what a mirror before this one stored, and what became of a send without an answer."""

from typing import TYPE_CHECKING

from ternmq_command.mirror.positions import Queue, TargetQueue, TopicPositions
from ternmq_common.shard.mirror_origin import MIRROR_PROPERTY, Origin, parse_origin
from ternmq_common.shard.property_text import read_properties

if TYPE_CHECKING:
    from ternmq_command.mirror.target import Target
    from ternmq_rpc.remoting.message_records import MessageRecord


async def scan_topic(
    target: "Target", queues: list[Queue], source: str, known: TopicPositions | None
) -> TopicPositions:
    """Return the positions of a topic with these queues in the target. `known` comes from a file: if it agrees with the
    target, earlier messages need not be read."""
    if known is None or not await _agrees(target, queues, source, known):
        known = TopicPositions()
    for queue in queues:
        known.queues.setdefault(queue, TargetQueue())
        await scan_queue(target, queue, source, known)
    return known


async def scan_queue(target: "Target", queue: Queue, source: str, positions: TopicPositions) -> None:
    """Read the queue behind the last known copy, and note each copy in it."""
    offset = max(positions.queues[queue].end, await target.find_minimum(queue))
    while True:
        pulled = await target.pull(queue, offset)
        for record in pulled.records:
            if (origin := origin_of(record, source)) is not None:
                place = Queue(origin.broker, origin.topic, origin.queue_id)
                positions.note_copied(queue, record.queue_offset, place, origin.queue_offset, [origin.stored_ms])
        if pulled.next_offset <= offset:
            return
        offset = pulled.next_offset


def origin_of(record: "MessageRecord", source: str) -> Origin | None:
    """Return where a message came from, if it was copied from that cluster."""
    text = read_properties(record.properties).get(MIRROR_PROPERTY)
    origin = None if text is None else parse_origin(text)
    return origin if origin is not None and origin.clusters[0] == source else None


async def _agrees(target: "Target", queues: list[Queue], source: str, known: TopicPositions) -> bool:
    """Return whether the last message of each queue in `known` is in the target at the same place."""
    if not set(known.queues) <= set(queues):
        return False
    for queue, its in known.queues.items():
        if not its.runs:
            continue
        last = its.runs[-1]
        pulled = await target.pull(queue, last.end - 1)
        if pulled.is_moved and pulled.minimum >= last.end:
            continue  # retention removed it
        if not pulled.records or pulled.records[0].queue_offset != last.end - 1:
            return False
        origin = origin_of(pulled.records[0], source)
        place = None if origin is None else Queue(origin.broker, origin.topic, origin.queue_id)
        if origin is None or place != last.source or origin.queue_offset != last.source_end - 1:
            return False
    return True
