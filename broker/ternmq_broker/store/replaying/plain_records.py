"""The fast path through the log for an index that is rebuilt: plain messages, many at a time.

A plain record is a message of today's layout with no flags, whole, and the next one of its queue. Nearly all are; the
first that is not ends the run, and the caller processes it. The work for each record is that of `record.decode` and
`DerivedIndexes.replay_record`, without an object for it: that makes a start after the index was lost five times faster.
"""

import struct
from typing import TYPE_CHECKING, Final, Protocol

from ternmq_broker.store.index.index_block import key_prefix_hash
from ternmq_broker.store.log.record import HEADER_BYTES, MAGIC, VERSION, RecordKind
from ternmq_common.binary.checksum import crc32
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from array import array

    from ternmq_broker.store.index.queue_index import QueueIndex

_HEAD: Final = struct.Struct("<IIQQQQIIHHIII")
_CHECKED_BYTES: Final = HEADER_BYTES - 4
# The first bytes of the fields of SystemProperties, up to the message id's; lengths above need more than a byte.
_TAG: Final = 0x0A
_KEY: Final = 0x12
_MESSAGE_ID: Final = 0x1A
_BEGINNING: Final = frozenset({_TAG, _KEY, _MESSAGE_ID})
_SHORT_MAX: Final = 127
_PLAIN: Final = MAGIC | VERSION << 16 | RecordKind.MESSAGE << 24
assert _HEAD.size == HEADER_BYTES


class PlainRecordIndex(Protocol):
    """An index to which plain records are added; see `LogIndex`."""

    @property
    def covered_offset(self) -> int: ...
    def known_queue(self, topic: str, queue_id: int, queue_offset: int) -> "QueueIndex | None": ...
    def keys_to_extend(self) -> "tuple[array[int], array[int]]": ...
    def count_added(self, count: int) -> None: ...


class _CachedQueue:
    """The append functions and the state of one queue of the index."""

    __slots__ = ("add_position", "add_size", "add_tag", "key_prefix", "next_offset")

    def __init__(self, queue: "QueueIndex", topic: bytes) -> None:
        self.next_offset = queue.end
        self.add_position, self.add_size, self.add_tag = queue.append_functions()
        self.key_prefix = key_prefix_hash(topic)


class PlainRecords:
    """Adds plain records to an index; `key` is the log's, `stored_ms` when the last one was stored."""

    def __init__(self, index: PlainRecordIndex, key: int) -> None:
        self._index = index
        self._key = key
        self._queues: dict[tuple[bytes, int], _CachedQueue] = {}
        self.stored_ms = 0

    def forget_queues(self) -> None:
        """Drop the cached queues, after other code has changed the index."""
        self._queues.clear()

    def add_plain(self, window: bytes, at: int, log_offset: int) -> tuple[int, int]:
        """Add the plain records from `at` on in a window of the log, which has `log_offset` there.

        Returns where they end in the window, and how many there were.
        """
        unpack, key, queues, covered = _HEAD.unpack_from, self._key, self._queues, self._index.covered_offset
        hashes, positions = self._index.keys_to_extend()
        view, last = memoryview(window), len(window) - HEADER_BYTES
        added = skipped = 0
        while at <= last:
            (
                what, size, place, _, queue_offset, stored_ms, queue_id, tag, topic_bytes, flags, system_bytes,
                content_check, head_check,
            ) = unpack(window, at)  # fmt: skip
            content, end = at + HEADER_BYTES, at + size
            if (
                what != _PLAIN
                or flags
                or place != log_offset
                or crc32(view[at : at + _CHECKED_BYTES]) ^ key != head_check
                or end - HEADER_BYTES > last
                or crc32(view[content:end]) != content_check
            ):
                break
            if place >= covered:
                system = content + topic_bytes
                topic = window[content:system]
                queue = queues.get((topic, queue_id))
                if queue is None or queue.next_offset != queue_offset:
                    queue = self._cache_queue(topic, queue_id, queue_offset)  # other code adds to it too
                    if queue is None or queue.next_offset != queue_offset:
                        break
                queue.next_offset = queue_offset + 1
                queue.add_position(log_offset)
                queue.add_size(size)
                queue.add_tag(tag)
                for each in _parse_keys(window, system, system + system_bytes):
                    hashes.append(crc32(each, queue.key_prefix))
                    positions.append(log_offset)
                added += 1
            else:
                skipped += 1
            self.stored_ms = stored_ms
            at, log_offset = end, log_offset + size
        self._index.count_added(added)
        return at, added + skipped

    def _cache_queue(self, topic: bytes, queue_id: int, queue_offset: int) -> _CachedQueue | None:
        """Cache the queue; return None if the index does not know it yet."""
        known = self._index.known_queue(topic.decode(), queue_id, queue_offset)
        if known is None:
            return None
        queue = self._queues[topic, queue_id] = _CachedQueue(known, topic)
        return queue


def _parse_keys(window: bytes, at: int, end: int) -> list[bytes]:
    """Return message id and keys from serialized SystemProperties.

    Fields come in the order of their numbers, so these are at the beginning, behind the tag. Protobuf parses longer
    fields than usual.
    """
    keys: list[bytes] = []
    begin = at
    while at < end:
        field = window[at]
        length = window[at + 1]
        if length > _SHORT_MAX or field not in _BEGINNING:
            break
        following = at + 2 + length
        if field == _MESSAGE_ID:
            return [window[at + 2 : following], *keys]
        if field == _KEY:
            keys.append(window[at + 2 : following])
        at = following
    properties = definition_pb2.SystemProperties.FromString(window[begin:end])
    return [properties.message_id.encode(), *(key.encode() for key in properties.keys)]
