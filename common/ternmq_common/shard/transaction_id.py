"""A transaction's id: `message-id@broker@place`, with its half message's log offset at that broker in hex.

So any proxy can end a transaction without having seen it begin (`sending.md, Half messages`), and an id of another
store, or of a message that is no half message, is recognized. Clients get it as a handle, with `@tag` behind it
(`handle_keys`), which covers the topic and the id: a client can't end a transaction without its handle.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.ranges import Int64

if TYPE_CHECKING:
    from ternmq_common.catalog.handle_keys import HandleKeys

_PLACE_DIGITS_MAX: Final = 16
_KIND: Final = b"ternmq halves"


class TransactionId(NamedTuple):
    """A half message on a broker."""

    message_id: str
    broker: str
    log_offset: Int64

    def __str__(self) -> str:
        return format_id(self.message_id, self.broker, self.log_offset)

    @classmethod
    def parse_id(cls, text: str) -> Self:
        """Parse an id; INVALID_TRANSACTION_ID if it is invalid."""
        message_id, _, place = text.rpartition("@")
        message_id, _, broker = message_id.rpartition("@")
        try:
            log_offset = int(place, 16)
        except ValueError:
            log_offset = -1
        is_canonical = format_id(message_id, broker, log_offset) == text
        if not message_id or not broker or len(place) > _PLACE_DIGITS_MAX or not is_canonical:
            raise _transaction_error(text)
        return cls(message_id, broker, log_offset)


def format_id(message_id: str, broker: str, log_offset: int) -> str:
    """The id of the transaction whose half message is at that log offset of the broker."""
    return f"{message_id}@{broker}@{log_offset:x}"


def transaction_handle(transaction_id: str, topic: str, keys: "HandleKeys") -> str:
    """The handle that clients get for a transaction of the topic."""
    return f"{transaction_id}@{keys.sign_handle(_KIND, _signed_content(transaction_id, topic))}"


def transaction_of_handle(handle: str) -> TransactionId:
    """The transaction of the handle, without a check of its tag; INVALID_TRANSACTION_ID if it has none."""
    try:
        return TransactionId.parse_id(handle.rpartition("@")[0])
    except MessagingError:
        raise _transaction_error(handle) from None


def check_handle(handle: str, topic: str, keys: "HandleKeys") -> None:
    """INVALID_TRANSACTION_ID unless a server of this registry gave the handle, for a transaction of the topic."""
    transaction_id, _, tag = handle.rpartition("@")
    if not keys.is_valid_tag(tag, _KIND, _signed_content(transaction_id, topic)):
        raise _transaction_error(handle)


def _signed_content(transaction_id: str, topic: str) -> bytes:
    return f"{topic}\n{transaction_id}".encode()


def _transaction_error(text: str) -> MessagingError:
    return MessagingError(
        ErrorCode.INVALID_TRANSACTION_ID,
        f"{text[:100]!r} is no transaction id of this server, or of another topic"
        if text.strip()
        else "the transaction id is empty",
    )
