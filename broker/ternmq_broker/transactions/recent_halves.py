"""The half messages that were stored last, in memory, so that most commits need not read the log."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ternmq_broker.store.record_drafts import RecordDraft

# A commit mostly follows its half message within milliseconds: so much is a second of a busy broker.
_BYTES_MAX: Final = 4 << 20
# A large message costs more to keep than to read.
_MESSAGE_BYTES_MAX: Final = 64 << 10
# What a record takes beside its bytes, about.
_OVERHEAD_BYTES: Final = 1 << 10


class RecentHalves:
    """The latest half messages by the log offsets of their records, up to a number of bytes; the oldest go first."""

    def __init__(self, bytes_max: int = _BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._drafts: dict[int, RecordDraft] = {}
        self._bytes = 0

    def add_half(self, log_offset: int, draft: "RecordDraft") -> None:
        """Add a half message that was just stored, unless it is large."""
        size = _size_of(draft)
        if size > _MESSAGE_BYTES_MAX:
            return
        self._drafts[log_offset] = draft
        self._bytes += size
        while self._bytes > self._bytes_max:
            self.drop_half(next(iter(self._drafts)))

    def find_half(self, log_offset: int) -> "RecordDraft | None":
        """Return the half message of that record; None if it was dropped."""
        return self._drafts.get(log_offset)

    def drop_half(self, log_offset: int) -> None:
        """Drop the half message: its transaction ended."""
        draft = self._drafts.pop(log_offset, None)
        if draft is not None:
            self._bytes -= _size_of(draft)


def _size_of(draft: "RecordDraft") -> int:
    return len(draft.message.system) + len(draft.message.rest) + _OVERHEAD_BYTES
