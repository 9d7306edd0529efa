"""A transaction's id: `message-id@broker@place`, the place being its half message's log offset there, in hex.

So any proxy can end a transaction without having seen it begin (`sending.md, Half messages`), and an id of another
store, or of a message that is no half message, is told from a real one.
"""

from typing import NamedTuple, Self

from ternmq_common.errors import MessagingError
from ternmq_common.ranges import Int64
from ternmq_protos.v2 import definition_pb2

_PLACE_DIGITS_MAX = 16


class TransactionId(NamedTuple):
    """Which half message, on which broker."""

    message_id: str
    broker: str
    log_offset: Int64

    def __str__(self) -> str:
        return f"{self.message_id}@{self.broker}@{self.log_offset:x}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """INVALID_TRANSACTION_ID if it is none."""
        message_id, _, place = text.rpartition("@")
        message_id, _, broker = message_id.rpartition("@")
        try:
            log_offset = int(place, 16)
        except ValueError:
            log_offset = -1
        canonical = cls(message_id, broker, log_offset)
        if not message_id or not broker or len(place) > _PLACE_DIGITS_MAX or str(canonical) != text:
            raise MessagingError(
                definition_pb2.INVALID_TRANSACTION_ID,
                f"{text[:100]!r} is no transaction id of this server"
                if text.strip()
                else "the transaction id is empty",
            )
        return canonical
