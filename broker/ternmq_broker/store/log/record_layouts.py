"""Which layout the records of one commit log have: below a log offset the first one, from there on today's."""

from dataclasses import dataclass

from ternmq_broker.store.log import record, record_layout_1
from ternmq_broker.store.log.record import BadRecord, Head, Record


@dataclass(frozen=True, slots=True)
class RecordLayouts:
    """`key` is the log's (`record`); records below log offset `layout_1_below` are of the first layout."""

    key: int
    layout_1_below: int = 0

    def header_bytes(self, log_offset: int) -> int:
        return record_layout_1.HEADER_BYTES if log_offset < self.layout_1_below else record.HEADER_BYTES

    def magic_bytes(self, log_offset: int) -> bytes:
        """What a record there begins with."""
        return record_layout_1.MAGIC_BYTES if log_offset < self.layout_1_below else record.MAGIC_BYTES

    def decode_head(self, data: bytes, log_offset: int) -> Head:
        """The header with which `data` begins; BadRecord if that is none. Of the first layout it is not checked."""
        if log_offset < self.layout_1_below:
            return record_layout_1.decode_head(data)
        return record.decode_head(data, log_offset, self.key)

    def decode(self, data: bytes, log_offset: int) -> Record:
        """The record that `data` is, no byte more or less; BadRecord otherwise."""
        if log_offset < self.layout_1_below:
            found = record_layout_1.decode(data)
            if log_offset + len(data) > self.layout_1_below:
                raise BadRecord("goes on where records of layout 1 end")
            return found
        return record.decode(data, log_offset, self.key)
