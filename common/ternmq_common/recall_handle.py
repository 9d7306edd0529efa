"""The handle by which a timed message can be taken back: base64url of `v1 topic broker due message-id`.

`due` is in milliseconds since the epoch. It is RocketMQ's form (`sending.md, Recall`), without padding; on input
padding is optional. Clients take it as opaque.
"""

import base64
import binascii
from typing import NamedTuple, Self

from ternmq_common.errors import MessagingError
from ternmq_common.ranges import Int64
from ternmq_protos.v2 import definition_pb2

_VERSION = "v1"
_DUE_DIGITS_MAX = 15


class RecallHandle(NamedTuple):
    """Which timed message, and on which broker it waits."""

    topic: str
    broker: str
    due_ms: Int64
    message_id: str

    def encode(self) -> str:
        text = f"{_VERSION} {self.topic} {self.broker} {self.due_ms} {self.message_id}"
        return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """BAD_REQUEST if it is no such handle."""
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            # A message id is any text that is not blank, so it may hold spaces.
            version, topic, broker, due, message_id = data.decode().split(" ", 4)
        except (binascii.Error, ValueError):
            raise _refused("it can't be read") from None
        if version != _VERSION:
            raise _refused(f"its version is {version[:8]!r}, and {_VERSION!r} is known")
        if not (due.isascii() and due.isdigit() and len(due) <= _DUE_DIGITS_MAX and topic and broker and message_id):
            raise _refused("it is not whole")
        return cls(topic, broker, int(due), message_id)


def _refused(why: str) -> MessagingError:
    return MessagingError(definition_pb2.BAD_REQUEST, f"this is no recall handle: {why}")
