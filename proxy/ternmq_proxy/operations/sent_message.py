"""The result of a send, in plain values: one `SentMessage` for each message."""

from msgspec import Struct

from ternmq_common.errors import MessagingError


class SentMessage(Struct):
    """What became of one message of a send: it is stored, or `error` says why not.

    `queue_offset` is its place in its queue; of a timed or half message, its place in the commit log. A half message
    has the `transaction_id` by which it is committed, a timed one the `recall_handle` by which it is recalled.
    """

    message_id: str
    queue_offset: int = 0
    transaction_id: str = ""
    recall_handle: str = ""
    error: MessagingError | None = None
