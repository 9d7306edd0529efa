"""The record layouts of one commit log: layout 1 below a log offset, today's from there on."""

from dataclasses import dataclass

from ternmq_broker.store.log import record, record_layout_1
from ternmq_broker.store.log.record import BadRecord, Record, RecordHead


@dataclass(frozen=True, slots=True)
class RecordLayouts:
    """Decodes the records of one log. `key` is the log's (`record`); records below log offset `layout_1_below` are of
    layout 1.
    """

    key: int
    layout_1_below: int = 0

    def header_bytes(self, log_offset: int) -> int:
        return record_layout_1.HEADER_BYTES if log_offset < self.layout_1_below else record.HEADER_BYTES

    def magic_bytes(self, log_offset: int) -> bytes:
        """Return the bytes with which a record there begins."""
        return record_layout_1.MAGIC_BYTES if log_offset < self.layout_1_below else record.MAGIC_BYTES

    def decode_head(self, data: bytes, log_offset: int) -> RecordHead:
        """Decode the header with which `data` begins; BadRecord if that is none. A header of layout 1 is not
        checked.
        """
        if log_offset < self.layout_1_below:
            return record_layout_1.decode_head(data)
        return record.decode_head(data, log_offset, self.key)

    def decode_record(self, data: bytes, log_offset: int) -> Record:
        """Decode `data`, exactly one record; BadRecord otherwise."""
        if log_offset < self.layout_1_below:
            found = record_layout_1.decode_record(data)
            if log_offset + len(data) > self.layout_1_below:
                raise BadRecord("goes on where records of layout 1 end")
            return found
        return record.decode_record(data, log_offset, self.key)
