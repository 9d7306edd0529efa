"""Receives and settlements: see `ServiceConsuming`."""

from typing import TYPE_CHECKING, Any

from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.remote_shard import ConsumingCalls
from ternmq_proxy.message_service.cluster.background_calls import BackgroundCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_common.shard.model import Acknowledged, DeliveredMessage, LiteSync, PopOrder, SettleOutcome
    from ternmq_common.shard.receipt_handle import ReceiptHandle
    from ternmq_proxy.message_service.cluster.called_brokers import CalledBrokers
    from ternmq_proxy.message_service.cluster.gathered_acknowledgements import GatheredAcknowledgements
    from ternmq_proxy.message_service.cluster.lite_subscriptions import LocalLiteSubscriptions
    from ternmq_proxy.message_service.cluster.receives.receiving import ClusterReceiving

_BY_HANDLES = frozenset({"acknowledge", "prolong", "release"})


class ClusterConsuming(ConsumingCalls):
    """Receives from all brokers, and settles with those that gave the handles."""

    def __init__(
        self,
        brokers: "CalledBrokers",
        receiving: "ClusterReceiving",
        gathered: "GatheredAcknowledgements",
        lite: "LocalLiteSubscriptions",
    ) -> None:
        super().__init__(self._choose)
        self._brokers = brokers
        self._receiving = receiving
        self._gathered = gathered
        self._lite = lite
        self._background_calls = BackgroundCalls()

    async def _choose(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        ask = self._brokers.ask_by_handles if call.name in _BY_HANDLES else self._brokers.ask_named
        return await ask(call, values)

    async def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "list[DeliveredMessage]":
        """See `ServiceConsuming.pop`."""
        return await self._receiving.pop(order, broker=broker, poll_s=poll_s, room=room)

    def acknowledge_nowait(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", done: "Acknowledged"
    ) -> None:
        name = handles[0].broker
        if all(handle.broker == name for handle in handles):
            self._brokers.check_broker(handles[0])
            self._gathered.acknowledge_nowait(name, group, topic, handles, done)
        else:
            self._background_calls.start(self._acknowledged(group, topic, handles), done)

    async def _acknowledged(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]") -> "list[SettleOutcome]":
        return await self.acknowledge(group, topic, handles)

    async def sync_lite(self, sync: "LiteSync") -> None:
        """Have the brokers of its topic know it; see `LiteSubscriptionsHere`."""
        await self._lite.sync(sync)

    async def leave(self, group: str, client_id: str) -> None:
        self._lite.forget_client(group, client_id)
        await self._brokers.ask_reachable(CALLS["leave"], (group, client_id))
