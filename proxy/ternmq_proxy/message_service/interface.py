"""The MessageService: everything that a proxy needs of the brokers behind it, in the field's words.

Any implementation passes `tests/support/message_service_conformance.py`. What it does as each broker does it is in
`Storage`; errors and units are as there.
"""

from typing import TYPE_CHECKING, Protocol

from ternmq_common.shard.shard import Storage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import (
        Acknowledged,
        DeliveredMessage,
        DroppedLite,
        NewMessage,
        OrphanedTransaction,
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
    )
    from ternmq_common.output_room import AnswerRoom
    from ternmq_common.receipt_handle import ReceiptHandle

    AskProducer = Callable[[OrphanedTransaction], Awaitable[bool]]
    """Sends a transaction check to a producer; whether there was one to send it to."""
    AnswerProxies = Callable[[str, str], Awaitable[bytes | None]]
    """Answers a question with its argument; None to one that is not known."""


class MessageService(Storage, Protocol):
    """Storage, as the proxy sees it."""

    def find_route(self, topic: "Topic") -> "TopicRoute":
        """The brokers that have the topic's queues."""

    def append_nowait(self, queue: "QueueRef", messages: "Sequence[NewMessage]", done: "Stored") -> None:
        """As `append`, for who does not wait: `done` is called then, or at once."""

    def acknowledge_nowait(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", done: "Acknowledged"
    ) -> None:
        """As `acknowledge` of one handle or more, for who does not wait: `done` is called then, or at once, unless this
        raises."""

    def watch_orphans(self, ask: "AskProducer") -> None:
        """Have `ask` called for each half message whose producer must be asked, until this service is closed."""

    def watch_lite(self, listener: "Callable[[Sequence[DroppedLite]], None]") -> None:
        """Have `listener` hear of subscriptions of lite topics that clients have no more though they did not say so,
        wherever these clients are."""

    async def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "list[DeliveredMessage]":
        """Claim messages for a consumer, or wait for some; [] when none came in time. A `broker` that is not there, or
        an empty name, stands for any. Nothing is claimed without a place in `room`, and the wait for it is part of
        `poll_s`; when messages were claimed the place is kept, and the caller's to leave."""

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
        """As `Storage.pull`; for `room` see `pop`."""

    async def notify_subscriptions(
        self, news: "Sequence[TopicSubscription]", everything: "Callable[[], Sequence[TopicSubscription]]"
    ) -> None:
        """Have all brokers know what groups subscribe through this proxy: those that know the rest hear the `news`, one
        that came, or came back, hears `everything`. Who can't be reached hears it the next time."""

    def announce_members(self, members: "Sequence[PullingMember]") -> None:
        """These members of groups pull, and are connected here; replaces what was said before."""

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        """The client ids of the group's members that pull the topic, wherever they are connected; `here` are those of
        this proxy."""

    async def ask_proxies(self, question: str, argument: str) -> "list[ProxyAnswer]":
        """What all other processes say that serve clients of the same brokers. HA_NOT_AVAILABLE if none of the brokers
        can be reached, by which they are asked."""

    def answer_proxies(self, answer: "AnswerProxies") -> None:
        """Answer so what they ask here."""

    def end_polls(self) -> None:
        """Answer the waiting polls, since the process ends."""

    @property
    def outage_reason(self) -> str | None:
        """Why no message can be stored or received now, None while it can."""
