"""The operations of a replicated store: records of the log for deletions, purges and epochs.

    topic  queue id  rest
           0         `epoch <n>`                  a leader's part of the log begins here
    T      0         `forgotten <version>`        topic T was deleted: its messages and timers before are gone
    T      q         `purged <below>`             messages of queue q of topic T before, with offsets below, are gone
    G      0         `group forgotten <version>`  group G was deleted

The version is the registry's, 0 for a topic that was deleted with its group. All are records of kind operation without
an origin; those with one are about half messages (`half_index`). Only a leader writes them, before it applies them;
each reader or copier of the log applies it at its place. So all replicas agree at every position of the log.
"""

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion
from ternmq_common.shard.model import NewMessage

if TYPE_CHECKING:
    from ternmq_broker.store.log.record import Record

_REST = re.compile(rb"(epoch|forgotten|purged|group forgotten) (0|[1-9]\d{0,18})")


class OperationKind(enum.Enum):
    """The kinds of operations, by their words in a record's rest."""

    EPOCH = "epoch"
    TOPIC_FORGOTTEN = "forgotten"
    PURGED = "purged"
    GROUP_FORGOTTEN = "group forgotten"


@dataclass(frozen=True, slots=True)
class StoreOperation:
    """One operation. `number` is the epoch, the version, or the queue offset below which messages are gone; `name` is a
    topic's or group's.
    """

    kind: OperationKind
    number: int
    name: str = ""
    queue_id: int = 0

    def to_draft(self) -> RecordDraft:
        """Return the record of the operation."""
        rest = f"{self.kind.value} {self.number}".encode()
        return RecordDraft(RecordKind.OPERATION, self.name, self.queue_id, NewMessage(0, b"", rest, ()))

    @property
    def deletion(self) -> RegistryDeletion | None:
        """The deletion to be noted, if that version of the registry deleted a topic or group."""
        if self.number and self.kind is OperationKind.TOPIC_FORGOTTEN:
            return RegistryDeletion(self.number, DeletedKind.TOPIC, self.name)
        if self.number and self.kind is OperationKind.GROUP_FORGOTTEN:
            return RegistryDeletion(self.number, DeletedKind.GROUP, self.name)
        return None


def operation_of(record: "Record") -> StoreOperation | None:
    """Return the operation that the record is; None if it is none of these."""
    if record.kind is not RecordKind.OPERATION or record.origin is not None:
        return None
    match = _REST.fullmatch(record.rest)
    if match is None:
        return None
    return StoreOperation(OperationKind(match[1].decode()), int(match[2]), record.topic, record.queue_id)
