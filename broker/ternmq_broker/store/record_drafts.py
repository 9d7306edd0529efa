"""Records of any kind that are to be stored and have no log offset yet."""

from dataclasses import dataclass
from typing import Final

from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_common.shard.model import NewMessage

NO_MESSAGE: Final = NewMessage(0, b"", b"", ())
"""The empty message of an operation or a tombstone."""


@dataclass(slots=True, init=False)
class RecordDraft:
    """A record that is to be stored; `record` describes kinds, origin and sender. `due_ms` is a timer's.

    It never changes. It is not frozen, and its `__init__` is written out, since what a dataclass generates is not
    compiled.
    """

    kind: RecordKind
    topic: str
    queue_id: int
    message: NewMessage
    due_ms: int
    origin: RecordOrigin | None
    sender: str

    def __init__(
        self,
        kind: RecordKind,
        topic: str,
        queue_id: int,
        message: NewMessage,
        due_ms: int = 0,
        origin: RecordOrigin | None = None,
        sender: str = "",
    ) -> None:
        self.kind = kind
        self.topic = topic
        self.queue_id = queue_id
        self.message = message
        self.due_ms = due_ms
        self.origin = origin
        self.sender = sender
