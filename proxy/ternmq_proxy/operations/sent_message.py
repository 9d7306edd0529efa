"""The result of a send, in plain values: one `SentMessage` for each message."""

from msgspec import Struct

from ternmq_common.errors import MessagingError


class SentMessage(Struct):
    """The outcome of one message of a send: it is stored, or `error` says why not.

    `queue_offset` is its offset in its queue, for a DELAY or half message its offset in the commit log. A half message
    has the `transaction_id` that commits it, a DELAY message the `recall_handle` that recalls it.
    """

    message_id: str
    queue_offset: int = 0
    transaction_id: str = ""
    recall_handle: str = ""
    error: MessagingError | None = None
