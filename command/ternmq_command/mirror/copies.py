"""Decides how a message is copied: what its copy keeps, or why it is not copied; pure.

Kept      body, id, tag, keys, message group, flag, the users' properties, and, by the property of its origin, when and
          where it was born.
Dropped   properties by which a server delayed it, kept it in a transaction, or delivered it: in its topic it is due and
          committed. One that is compressed is sent as it is, and the target inflates it.
Loops     a message that a mirror brought to the source names the clusters it was in; it does not go to one of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ternmq_common.names import RETRY_PREFIX
from ternmq_common.shard.hidden_fields import RETRY_TOPIC
from ternmq_common.shard.mirror_origin import CLUSTERS_MAX, MIRROR_PROPERTY, Origin, encode_origin, parse_origin
from ternmq_common.shard.property_text import read_properties, write_properties
from ternmq_rpc.remoting.message_ids import render_host
from ternmq_rpc.remoting.message_records import BatchPart, MessageRecord

BATCH_MESSAGES, BATCH_BYTES = 256, 1 << 20
COMPRESSION = 0x701
"""The bits of the system flag that say whether and how a body is compressed."""
_TIMER = "TIMER_DELIVER_MS"
_DROPPED = frozenset(
    # A table of names is easier to read without quotes.
    """
    DELAY TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES
    TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL REAL_TOPIC REAL_QID TRAN_MSG PGROUP TRAN_PREPARED_QUEUE_OFFSET
    CHECK_IMMUNITY_TIME_IN_SECONDS MSG_REGION TRACE_ON CLUSTER WAIT MIN_OFFSET MAX_OFFSET CONSUME_START_TIME POP_CK
    POP_CK_OFFSET 1ST_POP_TIME INNER_MULTI_QUEUE_OFFSET INNER_NUM INNER_BASE DUP_INFO __CRC32#
    """.split()  # noqa: SIM905
)


class LoopUnclear(Exception):
    """A message came to the source by a mirror, and the target has no name to tell whether from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """`source` and `target` are names of clusters, the target's may be empty."""

    source: str
    target: str


class Copy(NamedTuple):
    """A message as it is sent; `system_flag` and `reconsume_times` are 0 for those that fit into a batch."""

    queue_offset: int
    stored_ms: int
    part: BatchPart
    system_flag: int
    reconsume_times: int


def copy_message(
    record: MessageRecord, broker: str, ways: Ways, *, delays: bool = False, retried_topic: str = ""
) -> Copy | None:
    """Return the copy of a message of that broker; None if the message was in the target's cluster before. Raises
    LoopUnclear.

    With `delays` the target's topic takes only messages with a time. `retried_topic` is that of retries which do not
    say it themselves, as those of groups that pop.
    """
    pairs = read_properties(record.properties)
    before = parse_origin(pairs.get(MIRROR_PROPERTY, ""))
    clusters = () if before is None else before.clusters
    if before is not None:
        if not ways.target:
            raise LoopUnclear(clusters[0])
        if ways.target in clusters:
            return None
    kept = {name: value for name, value in pairs.items() if name not in _DROPPED}
    origin = Origin(
        stored_ms=max(0, record.stored_ms),
        born_ms=max(0, record.born_ms),
        born_host=render_host(record.born_host),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        broker=broker,
        topic=record.topic,
        clusters=(ways.source, *clusters)[:CLUSTERS_MAX],
    )
    kept[MIRROR_PROPERTY] = encode_origin(origin)
    if delays:
        timer = pairs.get(_TIMER, "")
        kept[_TIMER] = timer if _is_past(timer, record.stored_ms) else str(origin.stored_ms)
    if retried_topic:
        kept.setdefault(RETRY_TOPIC, retried_topic)
    is_retry = record.topic.startswith(RETRY_PREFIX)
    part = BatchPart(record.flag, record.body, write_properties(kept))
    flag = record.system_flag & COMPRESSION if record.system_flag & 1 else 0
    return Copy(record.queue_offset, record.stored_ms, part, flag, record.reconsume_times if is_retry else 0)


def _is_past(text: str, now_ms: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < len(str(2**62)) and int(text) <= now_ms


def split_batches(copies: Sequence[Copy], *, alone: bool = False) -> Iterator[list[Copy]]:
    """Yield what is sent in one request: messages that follow each other in the source, and fit into a batch. With
    `alone` each is for itself."""
    batch: list[Copy] = []
    size = 0
    for copy in copies:
        is_single = alone or copy.system_flag != 0 or copy.reconsume_times != 0
        follows = bool(batch) and copy.queue_offset == batch[-1].queue_offset + 1
        if batch and (is_single or not follows or len(batch) == BATCH_MESSAGES or size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if is_single:
            yield [copy]
            continue
        batch.append(copy)
        size += len(copy.part.body) + len(copy.part.properties)
    if batch:
        yield batch


def without_controls(copy: Copy) -> Copy:
    """Return the message with spaces for control characters in its properties, which the target does not accept."""
    pairs = read_properties(copy.part.properties)
    clean = {_clean_text(name): _clean_text(value) for name, value in pairs.items()}
    return copy._replace(part=copy.part._replace(properties=write_properties(clean)))


def _clean_text(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)
