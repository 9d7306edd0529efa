"""Records of any kind that are to be stored and have no log offset yet."""

from dataclasses import dataclass

from ternmq_broker.store.log.record import Origin, RecordKind
from ternmq_common.model import NewMessage

NO_MESSAGE = NewMessage(0, b"", b"", ())
"""The empty message of an operation or a tombstone."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that is to be stored; `record` describes kinds, origin and sender. `due_ms` is a timer's."""

    kind: RecordKind
    topic: str
    queue_id: int
    message: NewMessage
    due_ms: int = 0
    origin: Origin | None = None
    sender: str = ""
