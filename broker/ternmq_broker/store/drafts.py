"""What is to be stored: messages, and records of any kind, before they have a place."""

from dataclasses import dataclass

from ternmq_broker.store.log.record import Origin, RecordKind
from ternmq_common.model import NewMessage

NO_MESSAGE = NewMessage(0, b"", b"", ())
"""What an operation or a tombstone holds."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that is to be stored; see `record` for the kinds, the origin and the sender. `due_ms` is a timer's."""

    kind: RecordKind
    topic: str
    queue_id: int
    message: NewMessage
    due_ms: int = 0
    origin: Origin | None = None
    sender: str = ""
