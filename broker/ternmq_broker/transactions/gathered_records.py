"""Half messages, commits and rollbacks that are stored at the end of this turn of the event loop."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_broker.store.index.half_index import WaitingHalf
    from ternmq_broker.store.index.queue_index import MessageLocation
    from ternmq_broker.store.record_drafts import RecordDraft
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_common.shard.model import Placed, TransactionEnded, TransactionState


class GatheredRecord(ABC):
    """A record, and the call that waits for it."""

    def __init__(self, draft: "RecordDraft") -> None:
        self.draft = draft

    @abstractmethod
    def note_stored(self, location: "MessageLocation", log_end: int) -> None:
        """Note that the record is in the log, which then ended at `log_end`."""

    @abstractmethod
    def answer_call(self, error: Exception | None) -> None:
        """Answer the call: the record may be acknowledged, or never will be."""


class BegunHalf(GatheredRecord):
    """A half message."""

    def __init__(self, draft: "RecordDraft", recovery_ms: int | None, owner: "Transactions", done: "Placed") -> None:
        super().__init__(draft)
        self._recovery_ms = recovery_ms
        self._owner = owner
        self._done = done
        self._waiting: WaitingHalf | None = None

    def note_stored(self, location: "MessageLocation", log_end: int) -> None:
        self._waiting = self._owner.note_begun(self.draft, self._recovery_ms, location)

    def answer_call(self, error: Exception | None) -> None:
        if error is None:
            assert self._waiting is not None
            self._done(self._owner.describe_begun(self._waiting), None)
        else:
            self._done(None, error)


class EndedHalf(GatheredRecord):
    """The commit or rollback of a half message."""

    def __init__(
        self,
        draft: "RecordDraft",
        half: "WaitingHalf",
        state: "TransactionState",
        owner: "Transactions",
        done: "TransactionEnded",
    ) -> None:
        super().__init__(draft)
        self._half = half
        self._state = state
        self._owner = owner
        self._done = done

    def note_stored(self, location: "MessageLocation", log_end: int) -> None:
        self._owner.note_settled(self._half, self._state, log_end)

    def answer_call(self, error: Exception | None) -> None:
        self._done(error)
