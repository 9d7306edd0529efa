"""Sends: see `ServiceSending`."""

from typing import TYPE_CHECKING, Any, Final

from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.remote_shard import SendingCalls
from ternmq_proxy.message_service.cluster.gathered_sends import GatheredSends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_common.shard.model import (
        HalfMessage,
        NewMessage,
        Placed,
        QueueRef,
        Stored,
        TransactionEnded,
        TransactionResolution,
    )
    from ternmq_common.shard.transaction_id import TransactionId
    from ternmq_proxy.message_service.cluster.broker_choice import BrokerChoice
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_proxy.message_service.cluster.called_brokers import CalledBrokers
    from ternmq_proxy.message_service.cluster.routes import TopicRoutes

_TO_QUEUE: Final = frozenset({"append", "schedule", "begin_transaction"})
_BEGIN: Final = CALLS["begin_transaction"]
_END: Final = CALLS["end_transaction"]


class ClusterSending(SendingCalls):
    """Sends to the chosen queue's broker, or another one; decides about hidden messages where they are."""

    def __init__(
        self, brokers: "CalledBrokers", choice: "BrokerChoice", links: "BrokerLinks", routes: "TopicRoutes"
    ) -> None:
        super().__init__(self._choose)
        self._brokers = brokers
        self._choice = choice
        self._gathered = GatheredSends(links, routes, self.append)

    async def _choose(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        ask = self._choice.to_queue if call.name in _TO_QUEUE else self._brokers.ask_named
        return await ask(call, values)

    def append_nowait(self, queue: "QueueRef", messages: "Sequence[NewMessage]", done: "Stored") -> None:
        """See `ServiceSending.append_nowait`."""
        self._gathered.append_nowait(queue, messages, done)

    def append_one_nowait(self, queue: "QueueRef", message: "NewMessage", done: "Placed") -> None:
        """See `ServiceSending.append_one_nowait`."""
        self._gathered.append_one_nowait(queue, message, done)

    def begin_transaction_nowait(self, queue: "QueueRef", half: "HalfMessage", done: "Placed") -> bool:
        """See `ServiceSending.begin_transaction_nowait`."""
        self._choice.to_queue_nowait(_BEGIN, (queue, half), done)
        return True

    def end_transaction_nowait(
        self, topic: str, transaction: "TransactionId", resolution: "TransactionResolution", done: "TransactionEnded"
    ) -> bool:
        """See `ServiceSending.end_transaction_nowait`."""
        by_operator = False
        self._brokers.ask_transaction_nowait(
            _END, transaction, (topic, transaction, resolution, by_operator), lambda _, error: done(error)
        )
        return True
