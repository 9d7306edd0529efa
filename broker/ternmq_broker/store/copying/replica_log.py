"""The log of one store as one of several replicas: a leader's gives its bytes, a follower's takes them.

Epochs      A leader begins its epoch with a mark; what it appends behind the mark is its own.
Copy        A follower's log has the same bytes at the same log offsets (`log_copy`). Another leader may take back what
            is not acknowledged (`log_truncation`): files beside the log say nothing of the log above
            `DerivedIndexes.spill_limit`.
Joining     A copy that begins where its leader's log begins applies what its leader knew then as soon as it has
            reached the leader's end of that moment (`copy_start`).
"""

from typing import TYPE_CHECKING, Any

from ternmq_broker.store.copying.copy_start import JoinState
from ternmq_broker.store.copying.log_copy import AcceptedRanges, CopyResult, LogCopy, count_whole_bytes
from ternmq_broker.store.log.commit_log import NO_LIMIT
from ternmq_broker.store.operations.store_operation import OperationKind, StoreOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.copying.catch_up_state import CatchUpState
    from ternmq_broker.store.derived_indexes import DerivedIndexes
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.operations.applied_operations import AppliedOperations
    from ternmq_broker.store.record_writer import RecordWriter
    from ternmq_broker.store.repairing.damage import LogDamage
    from ternmq_common.catalog.cluster import RegistryDeletion


class ReplicaLog:
    """The parts of one store's log that replicas exchange, and their notes about it."""

    def __init__(
        self,
        writer: "RecordWriter",
        log: "CommitLog",
        indexes: "DerivedIndexes",
        operations: "AppliedOperations",
        catching_up: "CatchUpState",
        damage: "LogDamage",
        accepted: AcceptedRanges,
        skipped_bytes: int,
        join_state: dict[str, Any],
    ) -> None:
        """`join_state` is what the leader knew when this copy began, until it is applied; `skipped_bytes` what recovery
        stepped over.
        """
        self._writer = writer
        self._log = log
        self._indexes = indexes
        self._operations = operations
        self._catching_up = catching_up
        self._damage = damage
        self._accepted = accepted
        self._skipped_bytes = skipped_bytes
        self._join_state = join_state
        self._copy_taking: LogCopy | None = None
        self._apply_join_state(log.log_end)

    @property
    def epoch_marks(self) -> list[tuple[int, int]]:
        """The epochs and the log offsets where their marks begin; the newest thousand, in the log's order."""
        return list(self._operations.epoch_marks)

    def begin_epoch(self, epoch: int) -> "Callable[[], None]":
        """Begin this replica's leadership: what is appended behind the epoch mark is its own.

        Returns a function that makes the mark and all that was copied durable, for a thread. The caller has noted all
        deletions of the log before (`pending_deletions`). OSError.
        """
        assert not self._operations.epoch_marks or self._operations.epoch_marks[-1][0] < epoch
        self._apply_join_state(NO_LIMIT)
        self._writer.write_operation(StoreOperation(OperationKind.EPOCH, epoch))
        self._operations.confirm_noted()
        write_marks = self._operations.prepare_epochs()
        believe = self._catching_up.end_catching_up() if self._catching_up.is_under_way else None

        def finish() -> None:
            self._log.sync_segments()
            write_marks()
            if believe is not None:
                believe()

        return finish

    def pending_deletions(self) -> "list[RegistryDeletion]":
        """Return all deletions in the log, acknowledged or not, that are not known to be noted."""
        return self._operations.take_unnoted_deletions()

    def join_state(self) -> JoinState:
        """Return what another store must know to begin as a copy of this one."""
        return JoinState(
            key=self._log.layouts.key,
            layout_1_below=self._log.layouts.layout_1_below,
            log_start=self._log.log_start,
            log_end=self._log.log_end,
            low_watermarks=self._indexes.queues.low_watermarks(self._indexes.spill_limit),
            forgotten=self._operations.acknowledged_forgotten(self._indexes.spill_limit),
            accepted=self._accepted.sorted_ranges(),
            epochs=self.epoch_marks,
        )

    def _apply_join_state(self, log_end: int) -> None:
        """Apply what the leader knew when this copy began, as soon as the log has reached that point."""
        if self._join_state and self._join_state["end"] <= log_end:
            # JSON has lists where there were tuples.
            floors = [(topic, queue_id, first, origin) for topic, queue_id, first, origin in self._join_state["floors"]]
            self._indexes.queues.raise_low_watermarks(floors)
            for topic, end in self._operations.forgotten.items():
                if end > self._log.log_start:  # for queues that only the watermarks mention
                    self._indexes.queues.forget_topic_at(topic, end, end)
            self._join_state = {}
            self._operations.require_files(min(self._log.log_end, self._indexes.spill_limit))

    def log_bytes(self, log_offset: int, size_max: int, *, may_block: bool) -> tuple[int, bytes]:
        """Return, for a follower, where the segment with that log offset begins, and up to `size_max` bytes from the
        offset on.

        The bytes end at the segment's end at most; none at the log's end. BadRecord if retention has removed them.
        WouldBlock.
        """
        try:
            return self._log.bytes_at(log_offset, size_max, may_block=may_block)
        except OSError:
            self._damage.report_damage(log_offset, 0)
            raise

    def whole_bytes(self, data: bytes) -> int:
        """Return how many of these bytes, which continue the log at its end, are whole records; keep the rest until
        more arrive. BadRecord: they are no records.
        """
        return count_whole_bytes(data, self._log.log_end, self._log.layouts, self._accepted)

    def append_copied(self, base: int, data: bytes) -> CopyResult:
        """Append whole records of the leader's log, which continue this log at its end. `base` is where their segment
        begins there.

        OSError: nothing was appended. BadCopy: they can't be right; the log is unchanged, and the store must be
        reopened.
        """
        taking = self._copy_taking
        if taking is None:
            taking = LogCopy(self._log, self._indexes, self._operations, self._accepted, self._skipped_bytes)
            self._copy_taking = taking
        self._operations.confirm_noted()
        count = taking.append_copied(base, data)
        self._writer.last_stored_ms = max(self._writer.last_stored_ms, taking.stored_ms)
        self._apply_join_state(self._log.log_end)
        return CopyResult(self._log.log_end, count, self._operations.take_unnoted_deletions(self._indexes.spill_limit))

    def begin_catching_up(self) -> "Callable[[], None]":
        """Note that the leader does not count this replica in sync, and return a function that makes that durable; a
        thread calls it before any bytes are taken.

        Records from the log's end on say nothing about what is durable here.
        """
        return self._catching_up.begin_catching_up(self._log.log_end)

    def end_catching_up(self) -> "Callable[[], None]":
        """End the catching up, and return a function that makes that durable, for a thread.

        The caller knows that all earlier bytes are durable here, and that later ones were written while this replica
        was in sync.
        """
        return self._catching_up.end_catching_up()

    @property
    def is_catching_up(self) -> bool:
        return self._catching_up.is_under_way

    def count_removable(self, log_start: int) -> int:
        """Return, for a follower, how many of the oldest segments lie below the leader's log start and can be removed
        now (`prepare_removal`, after a spill of everything).
        """
        limit = min(log_start, self._log.synced, self._indexes.spill_limit)
        return sum(following <= limit for following in self._log.segment_bases[1:])
