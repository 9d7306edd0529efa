"""Index files as versions before wrote them: the keys of a block in the log's order, lite topics by their own names."""

import struct
from pathlib import Path
from zlib import crc32

from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.index import index_block
from ternmq_broker.store.message_store import MessageStore

_MAGIC = 0x58494D54
_HEAD = struct.Struct("<IIQ")
_ROW = struct.Struct("<III")


def make_old(store: MessageStore, folder: Path) -> None:
    """Write the index files of a store that was closed, whose log `store` has open, as versions before did."""
    for path in sorted((folder / "index").glob("0*")):
        data, position, blocks = path.read_bytes(), 0, []
        while position < len(data):
            size = index_block.announced_size(data[position:])
            blocks.append(_old_block(store, data[position : position + size]))
            position += size
        path.write_bytes(b"".join(blocks))


def _old_block(store: MessageStore, block: bytes) -> bytes:
    head, runs = index_block.decode_block(block, file_position=0)
    hashes: list[int] = []
    positions: list[int] = []
    rows = list(_ROW.iter_unpack(block[head.rows_at : head.keys_at]))
    for run in runs:
        for position, _, _ in rows[run.first_row : run.first_row + run.rows]:
            record = store.reader.read_record_at(head.base + position)
            assert record is not None
            keys_there = keys_of(record.system)
            hashes += [index_block.own_key_hash(run.topic, key) for key in keys_there]
            positions += [position for _ in keys_there]
    in_log_order = sorted(range(len(positions)), key=positions.__getitem__)
    keys = [hashes[place] for place in in_log_order] + [positions[place] for place in in_log_order]
    body = block[_HEAD.size : head.keys_at] + struct.pack(f"<{len(keys)}I", *keys)
    checked = (_HEAD.size + len(body)).to_bytes(8, "little") + body
    return struct.pack("<II", _MAGIC, crc32(checked)) + checked
