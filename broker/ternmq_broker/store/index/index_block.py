"""A block of an index file: for a part of the commit log, where each queue's messages are, and the keys.

    at  size  field
    0   u32   magic 0x59494D54 ("TMIY"); blocks of earlier versions have 0x58494D54 ("TMIX")
    4   u32   crc32 of the bytes from 8 to the end
    8   u64   size of the block
    16  u64   first log offset that it covers     24  u64  log offset where it ends
    32  u64   base: positions below are relative to it
    40  u32   number of runs      44  u32  number of rows      48  u32  number of keys      52  u32  length of names
    56        names: topics, UTF-8, each ended by a line feed, padded with zero bytes to a multiple of 8
        24 B  a run: topic u32 (its place in names) | queue id u32 | first queue offset u64 | first row u32 | rows u32
        12 B  a row: position u32 | size u32 | tag hash u32; size 0 means an offset whose record was lost
              the keys, sorted (`key_table`); in blocks of earlier versions in the log's order: hashes of 4 B, then as
              many positions of 4 B

All integers are little-endian. The rows of a run are those of consecutive queue offsets. A key's hash is the crc32 of
topic, line feed and key. For a message of a lite topic the topic is its parent topic; in blocks of earlier versions it
is the lite topic itself. Since hashes collide, a search compares the record itself.
"""

import struct
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ternmq_broker.store.index import key_table
from ternmq_broker.store.index.key_sort import to_little_endian
from ternmq_broker.store.index.key_table import KeysInLogOrder, SortedKeys, do_not_pause
from ternmq_common.binary.checksum import crc32
from ternmq_common.names import LITE_PREFIX, lite_parent

if TYPE_CHECKING:
    from collections.abc import Callable

_MAGIC: Final = 0x59494D54
_MAGIC_LOG_ORDER: Final = 0x58494D54
_HEAD: Final = struct.Struct("<IIQQQQIIII")
_RUN: Final = struct.Struct("<IIQII")
ROW_BYTES: Final = 12
_CHECKED_FROM: Final = 8
HEAD_BYTES: Final = _HEAD.size
assert HEAD_BYTES == 56
assert array("I").itemsize == 4


class BadBlock(Exception):
    """The bytes are no whole index block."""


_LITE_PREFIX: Final = LITE_PREFIX.encode()


def key_hash(topic: str, key: str) -> int:
    return crc32(f"{lite_parent(topic)}\n{key}".encode())


def own_key_hash(topic: str, key: str) -> int:
    """Return the hash of a key in blocks of earlier versions, which use a lite topic's own name."""
    return crc32(f"{topic}\n{key}".encode())


def key_prefix_hash(topic: bytes) -> int:
    """Return where to begin the hash of a topic's keys: `crc32(key, key_prefix_hash(topic))` is the hash of a key."""
    if topic.startswith(_LITE_PREFIX):
        topic = lite_parent(topic.decode()).encode()
    return crc32(topic + b"\n")


class IndexRun(NamedTuple):
    """Consecutive messages of one queue: `rows` of them from `first_offset` on, at `first_row` of the block."""

    topic: str
    queue_id: int
    first_offset: int
    first_row: int
    rows: int


@dataclass(slots=True)
class BlockContent:
    """The content of a block before it is encoded.

    `rows`, `key_hashes` and `key_positions` are arrays of u32, three numbers to a row, keys in the log's order.
    """

    log_from: int
    log_to: int
    base: int
    runs: list[IndexRun]
    rows: "array[int]" = field(default_factory=lambda: array("I"))
    key_hashes: "array[int]" = field(default_factory=lambda: array("I"))
    key_positions: "array[int]" = field(default_factory=lambda: array("I"))


@dataclass(frozen=True, slots=True)
class BlockHead:
    """The part of a block that stays in memory: what it covers, and where in the file its tables are."""

    log_from: int
    log_to: int
    base: int
    rows_at: int
    keys_at: int
    keys: int
    size: int
    key_table: SortedKeys | KeysInLogOrder


def encode_block(content: BlockContent, pause: "Callable[[], None]" = do_not_pause) -> bytes:
    """Return the bytes of the block; `pause` is called between steps of about a millisecond at most."""
    topics = sorted({run.topic for run in content.runs})
    place = {topic: number for number, topic in enumerate(topics)}
    names = "".join(f"{topic}\n" for topic in topics).encode()
    names += bytes(-len(names) % 8)
    body = b"".join(
        (
            names,
            *(
                _RUN.pack(place[run.topic], run.queue_id, run.first_offset, run.first_row, run.rows)
                for run in content.runs
            ),
            to_little_endian(content.rows),
            *key_table.encode_sorted(content.key_hashes, content.key_positions, pause),
        )
    )
    head = _HEAD.pack(
        _MAGIC,
        0,
        HEAD_BYTES + len(body),
        content.log_from,
        content.log_to,
        content.base,
        len(content.runs),
        len(content.rows) * 4 // ROW_BYTES,
        len(content.key_hashes),
        len(names),
    )
    check = crc32(body, crc32(head[_CHECKED_FROM:]))
    return head[:4] + check.to_bytes(4, "little") + head[_CHECKED_FROM:] + body


def announced_size(head: bytes) -> int:
    """Return the size of the block that begins with `head`; BadBlock if none can."""
    if len(head) < HEAD_BYTES:
        raise BadBlock("cut off")
    magic, _, size, *_ = _HEAD.unpack_from(head)
    if magic not in (_MAGIC, _MAGIC_LOG_ORDER) or size < HEAD_BYTES:
        raise BadBlock("not the beginning of a block")
    assert isinstance(size, int)
    return size


def make_head(content: BlockContent, data: bytes, *, file_position: int) -> BlockHead:
    """Return the head of the block `data`, which was encoded from `content` and is at `file_position` of its
    file.
    """
    keys = len(content.key_hashes)
    keys_at = len(data) - key_table.sorted_table_bytes(keys)
    rows_at = file_position + keys_at - 4 * len(content.rows)
    table = SortedKeys(file_position + keys_at, keys, data[keys_at:])
    return BlockHead(
        content.log_from, content.log_to, content.base, rows_at, file_position + keys_at, keys, len(data), table
    )


def decode_block(data: bytes, *, file_position: int) -> tuple[BlockHead, list[IndexRun]]:
    """Check a whole block that is at `file_position` of its file, and return its head and runs."""
    if announced_size(data) != len(data):
        raise BadBlock("cut off")
    magic, check, size, log_from, log_to, base, run_count, row_count, key_count, names_bytes = _HEAD.unpack_from(data)
    if check != crc32(memoryview(data)[_CHECKED_FROM:]):
        raise BadBlock("the check sum does not fit")
    topics = data[HEAD_BYTES : HEAD_BYTES + names_bytes].rstrip(b"\0").decode().split("\n")
    runs_at = HEAD_BYTES + names_bytes
    rows_at = runs_at + run_count * _RUN.size
    runs = [IndexRun(topics[number], *rest) for number, *rest in _RUN.iter_unpack(data[runs_at:rows_at])]
    keys_at = rows_at + row_count * ROW_BYTES
    table: SortedKeys | KeysInLogOrder
    if magic == _MAGIC:
        table = SortedKeys(file_position + keys_at, key_count, data[keys_at:])
    else:
        table = KeysInLogOrder(file_position + keys_at, key_count, crc32(memoryview(data)[keys_at:]))
    head = BlockHead(log_from, log_to, base, file_position + rows_at, file_position + keys_at, key_count, size, table)
    return head, runs


def decode_keys(data: bytes, head: BlockHead, *, file_position: int) -> "tuple[array[int], array[int]]":
    """Return hashes and positions of the keys of the whole block `data`, in the order of the block."""
    table = data[head.keys_at - file_position :]
    if isinstance(head.key_table, SortedKeys):
        return key_table.decode_sorted(table, head.keys)
    return key_table.decode_in_log_order(table, head.keys)
