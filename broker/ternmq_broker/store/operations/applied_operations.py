"""The effects of the log's operations that are not in the index, and when side files may record them.

Known       In memory at once: epoch marks, deleted topics, low watermarks. A replay finds what no file has yet.
Written     With a checkpoint, since replays then start behind it; and only what is acknowledged, since another leader
            may take back the rest (`unacknowledged_changes`). Epoch marks name their log offsets, which are checked
            when the store
            opens.
Files       `forgotten`, `{topic: log offset where the log ended when it was deleted}`;
            `epochs`, in stores with replicas only: `{"marks": [[epoch, log offset] ...], "deletions": [[log offset,
            version, kind, name] ...]}`; the log has it all too. `deletions` are those that the owner has not yet
            confirmed as noted, each with the log offset where its operation ends.
"""

import contextlib
from typing import TYPE_CHECKING, Any

from ternmq_broker.store.disk.latest_file import LatestFile
from ternmq_broker.store.log.commit_log import NO_LIMIT
from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.store.operations.store_operation import OperationKind, operation_of
from ternmq_broker.store.operations.unacknowledged_changes import UnacknowledgedChanges
from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.disk.side_files import SideFileReader
    from ternmq_broker.store.index.log_index import LogIndex
    from ternmq_broker.store.log.commit_log import CommitLog, PlacedRecord
    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.operations.store_operation import StoreOperation

FORGOTTEN = "forgotten"
EPOCHS = "epochs"
MARKS_MAX = 1000


class AppliedOperations:
    """The applied operations of one store.

    `epoch_marks` has the newest `MARKS_MAX` epochs and the log offsets where their marks begin, in the log's order.
    `forgotten` says where the log ended when a topic was deleted.
    """

    def __init__(self, root: "Folder", files: "SideFileReader") -> None:
        """Read the side files. DamagedFile if `forgotten` is damaged."""
        forgotten = files.read_needed(root, FORGOTTEN)
        self.forgotten: dict[str, int] = forgotten if isinstance(forgotten, dict) else {}
        self._forgotten_before: UnacknowledgedChanges[str, tuple[int]] = UnacknowledgedChanges()
        found: Any = files.read_derived(root, EPOCHS)
        self.is_lost = not isinstance(found, dict)
        """Whether there is no readable file `epochs`."""
        self.is_damaged = self.is_lost and root.content(EPOCHS) is not None
        known: dict[str, Any] = found if isinstance(found, dict) else {}
        self.epoch_marks: list[tuple[int, int]] = [(epoch, log_offset) for epoch, log_offset in known.get("marks", ())]
        self._unnoted = {
            end: RegistryDeletion(version, DeletedKind(kind), name)
            for end, version, kind, name in known.get("deletions", ())
        }
        self._returned_deletions: list[int] = []
        self._forgotten_file = LatestFile(root, FORGOTTEN)
        self._epochs_file = LatestFile(root, EPOCHS)
        self._unwritten: list[int] = []  # where operations end that no side file has yet
        self._written_to = 0

    # --- operations, in the log's order

    def replay_record(self, placed: "PlacedRecord", index: "LogIndex") -> None:
        """Apply a record that was found in the log, or came from the leader, if it is an operation."""
        operation = operation_of(placed.record)
        if operation is not None:
            end = placed.log_offset + placed.size
            self.apply_operation(operation, placed.log_offset, end, index)
            if operation.deletion is not None:
                self._unnoted[end] = operation.deletion

    def apply_operation(self, operation: "StoreOperation", log_offset: int, end: int, index: "LogIndex") -> None:
        """Apply an operation whose record is in the log from `log_offset` up to `end`."""
        match operation.kind:
            case OperationKind.EPOCH:
                self._add_epoch_mark(operation.number, log_offset)
            case OperationKind.TOPIC_FORGOTTEN:
                before = self.forgotten.get(operation.name, 0)
                if before < end:
                    self._forgotten_before.add_change(operation.name, end, (before,))
                    self.forgotten[operation.name] = end
                index.forget_topic_at(operation.name, log_offset, end)
            case OperationKind.PURGED:
                index.purge_at(operation.name, operation.queue_id, operation.number, log_offset, end)
        self._unwritten.append(end)

    def _add_epoch_mark(self, epoch: int, log_offset: int) -> None:
        while self.epoch_marks and self.epoch_marks[-1][1] >= log_offset:
            self.epoch_marks.pop()  # this mark is replayed again, and those behind it will be too
        if not self.epoch_marks or self.epoch_marks[-1][0] < epoch:
            self.epoch_marks = [*self.epoch_marks, (epoch, log_offset)][-MARKS_MAX:]

    def find_contradiction(self, record: "Record") -> str | None:
        """Return why a record that came from the leader can't come next; None if it can."""
        operation = operation_of(record)
        if operation is None or operation.kind is not OperationKind.EPOCH:
            return None
        last = self.epoch_marks[-1][0] if self.epoch_marks else -1
        return f"begins epoch {operation.number} after epoch {last}" if operation.number <= last else None

    def drop_missing_marks(self, log: "CommitLog") -> None:
        """Drop marks that are not in the recovered log: they were cut off, and other records may be there."""
        self._unnoted = {end: deletion for end, deletion in self._unnoted.items() if end <= log.log_end}
        self.epoch_marks = [mark for mark in self.epoch_marks if mark[1] < log.log_start or _is_mark_in_log(log, *mark)]

    def forget_topic(self, topic: str, log_start: int, log_end: int) -> "Callable[[], None]":
        """Delete a topic in a store without replicas, and return a function that makes that durable, for a thread."""
        self.forgotten = {name: end for name, end in self.forgotten.items() if end > log_start}
        self.forgotten[topic] = log_end
        return self._forgotten_file.prepare_write(dict(self.forgotten))

    # --- deletions, for the owner to note

    def take_unnoted_deletions(self, acknowledged: int = NO_LIMIT) -> list[RegistryDeletion]:
        """Return the deletions that are not noted yet and whose operations end at or below that log offset;
        `confirm_noted` must follow.
        """
        self._returned_deletions = sorted(end for end in self._unnoted if end <= acknowledged)
        return [self._unnoted[end] for end in self._returned_deletions]

    def confirm_noted(self) -> None:
        """Confirm that the deletions returned last are durably noted."""
        for end in self._returned_deletions:
            self._unnoted.pop(end, None)
        self._returned_deletions = []

    # --- side files

    def require_files(self, log_offset: int) -> None:
        """Have the side files written again as soon as the log is acknowledged up to there."""
        self._unwritten.append(max(1, log_offset))

    def acknowledged_forgotten(self, acknowledged: int) -> dict[str, int]:
        """Return `forgotten` without what another leader may take back."""
        self._forgotten_before.acknowledge_below(acknowledged)
        decided = {
            name: self._forgotten_before.acknowledged_value(name, (end,))[0] for name, end in self.forgotten.items()
        }
        return {name: end for name, end in decided.items() if end}

    def prepare_files(self, index: "LogIndex", acknowledged: int) -> "Callable[[], None] | None":
        """Return a function that writes all operations that end at or below that log offset to the side files, for a
        thread; None if they are there.
        """
        self._unwritten = [end for end in self._unwritten if end > self._written_to]
        upto = max((end for end in self._unwritten if end <= acknowledged), default=0)
        if not upto:
            return None
        writes = (
            self._forgotten_file.prepare_write(self.acknowledged_forgotten(acknowledged)),
            index.save_low_watermarks(acknowledged),
            self.prepare_epochs(),
        )

        def write() -> None:
            for each in writes:
                each()
            self._written_to = max(self._written_to, upto)

        return write

    def prepare_epochs(self) -> "Callable[[], None]":
        """Return a function that makes the epoch marks durable, for a thread."""
        deletions = [(end, each.version, each.kind.value, each.name) for end, each in self._unnoted.items()]
        return self._epochs_file.prepare_write({"marks": list(self.epoch_marks), "deletions": deletions})


def _is_mark_in_log(log: "CommitLog", epoch: int, log_offset: int) -> bool:
    if log_offset >= log.log_end:
        return False
    with contextlib.suppress(BadRecord):  # damage that was accepted: what the file says is all there is
        operation = operation_of(log.record_at(log_offset))
        return operation is not None and (operation.kind, operation.number) == (OperationKind.EPOCH, epoch)
    return True
