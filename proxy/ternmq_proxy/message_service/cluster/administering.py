"""Changes of operators on brokers: see `StorageAdministering`."""

from typing import TYPE_CHECKING, Any

from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.remote_shard import AdministeringCalls

if TYPE_CHECKING:
    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_proxy.message_service.cluster.broker_choice import BrokerChoice
    from ternmq_proxy.message_service.cluster.called_brokers import CalledBrokers
    from ternmq_proxy.message_service.cluster.receives.polls import BrokerPolls


class ClusterAdministering(AdministeringCalls):
    """Tells the broker of a queue, or all brokers."""

    def __init__(self, brokers: "CalledBrokers", choice: "BrokerChoice", polls: "BrokerPolls") -> None:
        super().__init__(self._choose)
        self._brokers = brokers
        self._choice = choice
        self._polls = polls

    async def _choose(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        match call.name:
            case "retry":
                return await self._choice.anywhere(call, values)
            case "drop_retries":
                return await self._brokers.ask_all(call, values)
            case _:
                return await self._brokers.ask_named(call, values)

    async def forget_topic(self, topic: str, *, version: int) -> None:
        self._polls.forget_deleted(topic=topic)
        await self._brokers.ask_reachable(CALLS["forget_topic"], (topic, version))

    async def forget_group(self, group: str, *, version: int) -> None:
        self._polls.forget_deleted(group=group)
        await self._brokers.ask_reachable(CALLS["forget_group"], (group, version))
