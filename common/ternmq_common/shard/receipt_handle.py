"""The receipt handle: the right to settle one delivery. `handle_form` has it as text."""

from msgspec import Struct

from ternmq_common.shard.ranges import Int64, UInt32


class ReceiptHandle(Struct, frozen=True, array_like=True, gc=False):
    """A handle of one delivery of one message.

    `generation` is the broker's count of deliveries in that queue, which tells a replaced handle from the one in
    force; 0 in a handle of the remoting protocol, which has no place for it: there the end tells. `deadline_ms` is when
    the right ends unless it was prolonged, in milliseconds since the epoch.
    """

    broker: str
    queue_id: UInt32
    queue_offset: Int64
    generation: Int64
    deadline_ms: Int64
