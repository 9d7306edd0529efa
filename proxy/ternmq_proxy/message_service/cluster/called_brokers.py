"""Chooses the brokers of a call: the broker that an argument names, those of its handles, or all."""

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable, LateAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_common.shard.remote_shard import RemoteShard
    from ternmq_proxy.message_service.cluster.broker_links.calls import ResultCallback
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls

_log = logging.getLogger(__name__)


class CalledBrokers:
    """Finds the brokers of a call, and makes it."""

    def __init__(self, links: "BrokerLinks", repeats: "RepeatedCalls") -> None:
        self._links = links
        self._repeats = repeats

    def shard_of(self, broker: str) -> "RemoteShard":
        """The broker of that name; calls are repeated by the rules of the table."""
        return self._repeats.shard_of(broker)

    def names(self) -> list[str]:
        """All brokers of the cluster."""
        return [broker.name for broker in self._links.list_brokers()]

    async def ask_named(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        """Return the broker that the argument, queue, handle or transaction names."""
        assert call.broker is not None
        named = values[call.broker]
        if isinstance(named, str):
            return await self._repeats.ask_broker(named or self._only_broker(), call, values)
        if isinstance(named, ReceiptHandle | TransactionId):
            self.check_broker(named)
        return await self._repeats.ask_broker(named.broker, call, values)

    def ask_transaction_nowait(
        self, call: "ShardCall", transaction: TransactionId, values: "Values", on_result: "ResultCallback"
    ) -> None:
        """Ask the transaction's broker like `ask_named`, without waiting; `on_result` is called at the end, possibly at
        once."""
        self.check_broker(transaction)
        self._repeats.ask_nowait(transaction.broker, call, values, on_result)

    async def ask_by_handles(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        """One call for each broker that gave some of the handles; an outcome for each handle, in order."""
        group, topic, handles, *others = values
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, handle in enumerate(handles):
            if handle.broker not in places:
                self.check_broker(handle)
            places[handle.broker].append(place)
        if len(places) == 1:
            return await self._repeats.ask_broker(handles[0].broker, call, values)

        def of(name: str) -> "Awaitable[list[Any] | None]":
            some = [handles[place] for place in places[name]]
            return self._repeats.ask_broker(name, call, (group, topic, some, *others))

        outcomes: dict[int, Any] = {}
        for name, result in zip(places, await asyncio.gather(*map(of, places)), strict=True):
            outcomes.update(zip(places[name], result or (), strict=result is not None))
        return [outcomes[place] for place in sorted(outcomes)]

    def check_broker(self, named: "ReceiptHandle | TransactionId") -> None:
        if self._links.find_broker(named.broker) is None:
            code, what = ErrorCode.INVALID_RECEIPT_HANDLE, "the receipt handle"
            if isinstance(named, TransactionId):
                code, what = ErrorCode.INVALID_TRANSACTION_ID, f"transaction {str(named)!r}"
            raise MessagingError(code, f"{what} names broker {named.broker!r}, which this cluster has not")

    async def ask_all(self, call: "ShardCall", values: "Values") -> None:
        await asyncio.gather(
            *(self._repeats.ask_broker(broker.name, call, values) for broker in self._links.list_brokers())
        )

    async def ask_reachable(self, call: "ShardCall", values: "Values") -> list[Any]:
        """Return the answers of all brokers that can be reached; a broker that does not answer is logged."""
        brokers = self._links.connected_brokers()
        results = await asyncio.gather(*(broker.ask_broker(call, values) for broker in brokers), return_exceptions=True)
        answers: list[Any] = []
        for broker, result in zip(brokers, results, strict=True):
            if isinstance(result, BrokerUnavailable | LateAnswer):
                _log.warning("broker %s is left out: %s", broker.name, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                answers.append(result)
        return answers

    def _only_broker(self) -> str:
        names = [broker.name for broker in self._links.list_brokers()]
        if len(names) != 1:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"name the broker, one of {', '.join(names) or 'none'}")
        return names[0]
