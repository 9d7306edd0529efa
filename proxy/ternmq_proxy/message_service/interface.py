"""The MessageService: everything that a proxy needs of the brokers behind it, in the field's words.

Any implementation passes `tests/support/message_service_conformance.py`. Errors are `MessagingError`s; a call that
raises has changed nothing, except where a lost answer is said to be possible.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_common.cluster import Remaining
    from ternmq_common.errors import MessagingError
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import (
        Appended,
        Delivery,
        HalfMessage,
        NewMessage,
        OrphanedTransaction,
        PopOrder,
        Pulled,
        PullingMember,
        QueueBounds,
        QueueProgress,
        QueueReaderId,
        QueueRef,
        Resolution,
        Route,
        Settled,
        StoredMessage,
        TimedMessage,
        Topic,
        Transaction,
        TransactionPage,
        TransactionState,
    )
    from ternmq_common.output_room import AnswerRoom
    from ternmq_common.recall_handle import RecallHandle
    from ternmq_common.receipt_handle import ReceiptHandle
    from ternmq_common.transaction_id import TransactionId

    Stored = Callable[[int, MessagingError | None], None]
    """Called with the queue offset of the first message when all may be acknowledged, else with the error."""
    AskProducer = Callable[[OrphanedTransaction], Awaitable[bool]]
    """Asks a producer what is to become of a transaction; whether there was one to ask."""


class MessageService(Protocol):
    """Storage, as the proxy sees it. Times are milliseconds, waits are seconds."""

    def route(self, topic: "Topic") -> "Route":
        """The brokers that have the topic's queues."""

    async def append(self, queue: "QueueRef", messages: "Sequence[NewMessage]") -> "list[Appended]":
        """Store the messages in order and return when that may be acknowledged, by the broker's flush mode."""

    def append_soon(self, queue: "QueueRef", messages: "Sequence[NewMessage]", done: "Stored") -> None:
        """As `append`, for who does not wait: `done` is called then, or at once."""

    async def schedule(self, queue: "QueueRef", messages: "Sequence[TimedMessage]") -> "list[Appended]":
        """Store messages that are to be in the queue at their times; returns as `append` does. One whose time has come
        is there at once."""

    async def recall(self, handle: "RecallHandle") -> None:
        """Take back a timed message, so that it never appears; BAD_REQUEST when its time has come. A handle of which
        nothing is known, which may have been used before, is fine."""

    async def begin_transaction(self, queue: "QueueRef", half: "HalfMessage") -> "Appended":
        """Store a half message, which nobody sees before its transaction is committed; `transaction_id` names it. The
        queue is the one where it will be then. TOO_MANY_REQUESTS when too many transactions are open."""

    async def end_transaction(
        self, topic: str, transaction: "TransactionId", resolution: "Resolution", *, by_operator: bool = False
    ) -> None:
        """Publish the half message, or drop it; returns when that may be acknowledged. The same end again is fine;
        INVALID_TRANSACTION_ID for one that contradicts, for an unknown transaction or one of another topic, and, for
        all but an operator, for a discarded one."""

    async def transactions(self, state: "TransactionState", *, topic: str, start: str, limit: int) -> "TransactionPage":
        """Pending or discarded transactions, each broker's oldest first, of that topic or, if it is empty, of all.
        `start` is what `following` of the page before was, or empty; BAD_REQUEST if it is anything else."""

    async def transaction(self, transaction: "TransactionId") -> "tuple[Transaction, StoredMessage]":
        """What became of a transaction, and its half message; INVALID_TRANSACTION_ID if there is none."""

    def watch_orphans(self, ask: "AskProducer") -> None:
        """Have `ask` called for each half message whose producer must be asked, until this service is closed."""

    async def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "list[Delivery]":
        """Claim messages for a consumer, or wait for some; [] when none came in time. A `broker` that is not there, or
        an empty name, stands for any. Nothing is claimed without a place in `room`, and the wait for it is part of
        `poll_s`; when messages were claimed the place is kept, and the caller's to leave."""

    async def acknowledge(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]") -> "list[Settled]":
        """Finish messages; an outcome for each handle, in order."""

    async def change_invisible(
        self, group: str, topic: str, handle: "ReceiptHandle", invisible_ms: int, *, counts: bool
    ) -> "ReceiptHandle":
        """Hide a message until then (0: show it at once) and replace its handle; INVALID_RECEIPT_HANDLE if the handle
        is not in force. With `counts` false the attempt so far is not counted."""

    async def prolong(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", invisible_ms: int
    ) -> list[bool]:
        """Hide messages for longer and keep their handles; False for each handle that is not in force."""

    async def release(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", *, counts: bool) -> None:
        """Show messages at once; their handles settle them until another consumer has them. With `counts` false the
        messages never reached their consumer."""

    async def dead_letter(self, group: str, topic: str, handle: "ReceiptHandle", *, attempts: int = 0) -> "Settled":
        """Put a copy among the group's dead letters, then finish the message, even if the handle's time has passed.
        STALE when it is finished already; EXPIRED when another consumer has it, or will. `attempts` is how often its
        consumer says to have tried, which may be more often than it was delivered."""

    async def pull(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> "Pulled":
        """Read from `offset` on without a claim; waits at the end of the queue for something to pass the filter. For
        `room` see `pop`."""

    async def bounds(self, queue: "QueueRef") -> "QueueBounds":
        """The offsets that the queue holds."""

    async def offset_at(self, queue: "QueueRef", time_ms: int) -> int:
        """The first offset stored at or after that time; the end of the queue if there is none."""

    async def committed(self, group: str, queue: "QueueRef") -> int | None:
        """Below which offset the group has finished everything; None if it never was in the queue."""

    async def set_committed(
        self, group: str, queue: "QueueRef", offset: int, *, reader: "QueueReaderId | None" = None
    ) -> None:
        """Let the group go on there; claims under way in that queue end. FORBIDDEN if another member has the queue for
        itself; without `reader` an operator says so, and nobody has it any more."""

    async def skip(self, group: str, queue: "QueueRef", offset: int) -> None:
        """Finish the message at that offset, whoever has it; BAD_REQUEST if the group has not come there yet."""

    async def leave(self, group: str, client_id: str) -> None:
        """A member of the group is gone: the queues that it had for itself are free."""

    async def drop_retries(self, group: str, topic: str) -> None:
        """Finish all messages of the topic that wait in the group's retry topic."""

    async def progress(self, group: str) -> "list[QueueProgress]":
        """How far the group is in every queue that it has touched, its retry topic's included."""

    async def find_by_key(self, topic: str, key: str, limit: int) -> "list[StoredMessage]":
        """The newest messages of the topic with that key or message id."""

    async def dead_letters(self, group: str, broker: str, offsets: "Sequence[int]") -> "dict[int, StoredMessage]":
        """Those of the group's dead letters that are on that broker, by their offsets; an empty name is fine where
        there is one broker."""

    async def retry(self, group: str, topic: str, messages: "Sequence[NewMessage]") -> None:
        """Deliver messages of the topic to that group alone, with all their attempts; not for a FIFO group."""

    async def forget_topic(self, topic: str, *, version: int) -> None:
        """The topic was deleted, which gave the registry that version: none of its messages is found any more. A broker
        that can't be reached does so before it comes back."""

    async def forget_group(self, group: str, *, version: int) -> None:
        """The group was deleted, as `forget_topic`: drop its progress, its retries and its dead letters."""

    async def remaining(self, broker: str) -> "Remaining":
        """What keeps a broker from being removed without a loss."""

    def announce(self, members: "Sequence[PullingMember]") -> None:
        """These members of groups pull, and are connected here; replaces what was said before."""

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        """The client ids of the group's members that pull the topic, wherever they are connected; `here` are those of
        this proxy."""

    def end_polls(self) -> None:
        """Answer the waiting polls, since the process ends."""

    @property
    def problem(self) -> str | None:
        """Why no message can be stored or received now, None while it can."""
