"""Records of any kind that are to be stored and have no log offset yet."""

from dataclasses import dataclass

from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_common.shard.model import NewMessage

NO_MESSAGE = NewMessage(0, b"", b"", ())
"""The empty message of an operation or a tombstone."""


@dataclass(frozen=True, slots=True)
class RecordDraft:
    """A record that is to be stored; `record` describes kinds, origin and sender. `due_ms` is a timer's."""

    kind: RecordKind
    topic: str
    queue_id: int
    message: NewMessage
    due_ms: int = 0
    origin: RecordOrigin | None = None
    sender: str = ""
