"""Encodes records of the commit log, as the log does."""

from collections.abc import Sequence

from ternmq_broker.store.log.record import Record, RecordPieces, record_size, to_unplaced


def encode_records(records: Sequence[Record], log_offset: int, durable_to: int, key: int = 0) -> list[bytes]:
    """Return the pieces in which records are written together, the first one at that log offset."""
    pieces = RecordPieces(durable_to, key)
    for unplaced in map(to_unplaced, records):
        pieces.add_record(unplaced, log_offset)
        log_offset += record_size(unplaced)
    return pieces.take_pieces()


def encode_record(record: Record, log_offset: int, durable_to: int, key: int = 0) -> bytes:
    """Return the bytes of one record at that log offset."""
    return b"".join(encode_records([record], log_offset, durable_to, key))
