"""Figures of the last hours."""

from typing import TYPE_CHECKING

from ternmq_common.event_loop.fairness import wait_for_turn
from ternmq_common.shard.model import HistoryOf
from ternmq_proxy.access.needs import CLUSTER_GET, GROUP_GET, TOPIC_GET
from ternmq_proxy.operations.admin.named import find_topic

if TYPE_CHECKING:
    from ternmq_common.shard.model import FigureHistory
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def find_history(of: HistoryOf, name: str, call: "Call", services: "Services") -> "list[FigureHistory]":
    """Return the figures of a topic or a group, by the brokers; or of the brokers together, and of this process."""
    if of is HistoryOf.TOPIC:
        services.access.require_all("GetHistory", call, (TOPIC_GET, name))
        topic = await find_topic(name, services)
        return [await services.messages.inspecting.history(HistoryOf.TOPIC, topic.name)]
    if of is HistoryOf.GROUP:
        services.access.require_all("GetHistory", call, (GROUP_GET, name))
        group = await services.catalog.existing_group(name)
        return [await services.messages.inspecting.history(HistoryOf.GROUP, group.name)]
    services.access.require_all("GetHistory", call, (CLUSTER_GET, "server"))
    of_brokers = await services.messages.inspecting.history(HistoryOf.BROKER, "")
    await wait_for_turn()  # each of the two is some thousands of values
    return [of_brokers, services.history.read_history()]
