"""The MessageService: everything that a proxy needs of the brokers behind it.

Any implementation passes `tests/support/message_service_conformance.py`. Methods that do the same as each broker are in
`Storage`; errors and units are as there.
"""

from typing import TYPE_CHECKING, Protocol

from ternmq_common.shard.shard import MessageConsuming, MessageSending, QueueReading, Storage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.shard.model import (
        Acknowledged,
        DeliveredMessage,
        DroppedLite,
        HalfMessage,
        NewMessage,
        OrphanedTransaction,
        Placed,
        PopOrder,
        ProxyAnswer,
        PulledMessages,
        PullingMember,
        QueueReaderId,
        QueueRef,
        Stored,
        Topic,
        TopicRoute,
        TopicSubscription,
        TransactionEnded,
        TransactionResolution,
    )
    from ternmq_common.shard.receipt_handle import ReceiptHandle
    from ternmq_common.shard.transaction_id import TransactionId

    AskProducer = Callable[[OrphanedTransaction], Awaitable[bool]]
    """A function that sends a transaction check to a producer, and returns whether there was one."""
    AnswerProxies = Callable[[str, str], Awaitable[bytes | None]]
    """A function that answers a question with its argument; None for an unknown question."""


class ServiceSending(MessageSending, Protocol):
    """`MessageSending`, as the proxy sees it."""

    def append_nowait(self, queue: "QueueRef", messages: "Sequence[NewMessage]", done: "Stored") -> None:
        """Append like `append`, without waiting; `done` is called at the end, possibly at once."""

    def append_one_nowait(self, queue: "QueueRef", message: "NewMessage", done: "Placed") -> None:
        """Append one message like `append_nowait`; `done` gets to know where in the broker's log it is."""

    def begin_transaction_nowait(self, queue: "QueueRef", half: "HalfMessage", done: "Placed") -> bool:
        """Store a half message like `begin_transaction`, without waiting; `done` is called at the end, or at once
        unless this raises. Return False, with nothing done, if it has to wait for more than the log."""

    def end_transaction_nowait(
        self, topic: str, transaction: "TransactionId", resolution: "TransactionResolution", done: "TransactionEnded"
    ) -> bool:
        """End a transaction like `end_transaction`, without waiting; see `begin_transaction_nowait`."""


class ServiceConsuming(MessageConsuming, Protocol):
    """`MessageConsuming`, as the proxy sees it."""

    def acknowledge_nowait(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", done: "Acknowledged"
    ) -> None:
        """Acknowledge one handle or more like `acknowledge`, without waiting; `done` is called at the end, possibly at
        once, unless this raises."""

    async def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "list[DeliveredMessage]":
        """Claim messages for a consumer, or wait for some; return [] when none came in time. An unknown or empty
        `broker` means any. Nothing is claimed without a place in `room`, and the wait for the place is part of
        `poll_s`; with messages the place is kept, and the caller leaves it."""


class ServiceReading(QueueReading, Protocol):
    """`QueueReading`, as the proxy sees it."""

    def pull(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> "Awaitable[PulledMessages]":
        """Pull like `QueueReading.pull`; for `room` see `pop`."""


class MessageService(Storage, Protocol):
    """Storage, as the proxy sees it."""

    @property
    def sending(self) -> ServiceSending: ...

    @property
    def consuming(self) -> ServiceConsuming: ...

    @property
    def reading(self) -> ServiceReading: ...

    def find_route(self, topic: "Topic") -> "TopicRoute":
        """The brokers that have the topic's queues."""

    def watch_orphans(self, ask: "AskProducer") -> None:
        """Have `ask` called for each half message that needs a transaction check, until this service is closed."""

    def watch_lite(self, listener: "Callable[[Sequence[DroppedLite]], None]") -> None:
        """Have `listener` hear of subscriptions of lite topics that clients have no more though they did not say so,
        wherever these clients are."""

    async def notify_subscriptions(
        self, news: "Sequence[TopicSubscription]", everything: "Callable[[], Sequence[TopicSubscription]]"
    ) -> None:
        """Tell all brokers what groups subscribe to through this proxy. Brokers that know the rest get the `news`, new
        or reconnected ones `everything`. Unreachable brokers get it the next time."""

    def announce_members(
        self,
        joined: "Sequence[PullingMember]",
        left: "Sequence[PullingMember]",
        everyone: "Callable[[], Sequence[PullingMember]]",
    ) -> None:
        """Note that members of groups that pull have joined here or left; `everyone` returns all that are here now."""

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        """Return the client ids of the group's members that pull the topic, wherever they are connected; `here` are
        those of this proxy."""

    async def ask_proxies(self, question: str, argument: str) -> "list[ProxyAnswer]":
        """Return the answers of all other processes that serve clients of the same brokers. Raises HA_NOT_AVAILABLE if
        no broker can be reached to forward the question."""

    def answer_proxies(self, answer: "AnswerProxies") -> None:
        """Set the function that answers other processes' questions."""

    def end_polls(self) -> None:
        """Answer the waiting polls, since the process stops."""

    @property
    def outage_reason(self) -> str | None:
        """Why no message can be stored or received now, None while it can."""
