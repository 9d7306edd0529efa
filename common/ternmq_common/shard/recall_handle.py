"""The handle by which a timed message can be recalled: base64url of `v2 topic broker due message-id tag`.

`due` is in milliseconds since the epoch, `sign_handle` as in `handle_keys`, of all that precedes it. But for the
tag it is RocketMQ's form (`sending.md, Recall`), without padding; on input padding is optional. Clients take it as
opaque.
"""

import base64
import binascii
from typing import TYPE_CHECKING, NamedTuple, Self

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.ranges import Int64

if TYPE_CHECKING:
    from ternmq_common.catalog.handle_keys import HandleKeys

_VERSION = "v2"
_KIND = b"ternmq recall"


class RecallHandle(NamedTuple):
    """A timed message, and the broker where it waits."""

    topic: str
    broker: str
    due_ms: Int64
    message_id: str

    def encode_handle(self, keys: "HandleKeys") -> str:
        bound = f"{_VERSION} {self.topic} {self.broker} {self.due_ms} {self.message_id}".encode()
        return _encode_base64(bound + b" " + keys.sign_handle(_KIND, bound).encode())

    @classmethod
    def decode_handle(cls, text: str, keys: "HandleKeys") -> Self:
        """Decode a handle; BAD_REQUEST if no server of this registry gave it."""
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            bound, _, tag = data.rpartition(b" ")
            version, *fields = bound.decode().split(" ", 4)
            given = tag.decode()
        except (binascii.Error, ValueError):
            raise _recall_error("it can't be read") from None
        if version != _VERSION:
            raise _recall_error(f"its version is {version[:8]!r}, and {_VERSION!r} is known")
        if not keys.is_valid_tag(given, _KIND, bound) or _encode_base64(data) != text.rstrip("="):
            raise _recall_error("it was not given by this server, or its key is not accepted any more")
        # A signed text is whole. A message id is any text that is not blank, so it may hold spaces.
        topic, broker, due, message_id = fields
        return cls(topic, broker, int(due), message_id)


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _recall_error(why: str) -> MessagingError:
    return MessagingError(ErrorCode.BAD_REQUEST, f"this is no recall handle: {why}")
