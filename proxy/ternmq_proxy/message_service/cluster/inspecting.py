"""Combined reports of all brokers: see `StorageInspecting`."""

from typing import TYPE_CHECKING

from ternmq_common.names import retry_topic
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.model import FigureHistory, TimerPage, TopicContent, TransactionPage
from ternmq_common.shard.remote_shard import InspectingCalls
from ternmq_proxy.message_service.cluster.broker_pages import page_of_brokers
from ternmq_runtime.observability.history_rings import STEP_MS, combine_histories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import HistoryOf, QueueProgress, StoredMessage, TransactionState
    from ternmq_proxy.message_service.cluster.called_brokers import CalledBrokers


class ClusterInspecting(InspectingCalls):
    """Asks the broker that has something, or puts together what all have."""

    def __init__(self, brokers: "CalledBrokers") -> None:
        super().__init__(brokers.ask_named)
        self._brokers = brokers

    async def transactions(self, state: "TransactionState", *, topic: str, start: str, limit: int) -> TransactionPage:
        """Broker by broker."""

        async def ask(broker: str, place: str) -> tuple[TransactionPage, bool]:
            page = await self._brokers.shard_of(broker).inspecting.transactions(
                state, topic=topic, start=place, limit=limit
            )
            return page, bool(page.transactions)

        page, following = await page_of_brokers(self._brokers.names(), start, ask)
        return TransactionPage(page.transactions if page else [], following)

    async def timers(self, *, topic: str, start: str, limit: int) -> TimerPage:
        """Broker by broker, each one's by their times."""

        async def ask(broker: str, place: str) -> tuple[TimerPage, bool]:
            page = await self._brokers.shard_of(broker).inspecting.timers(topic=topic, start=place, limit=limit)
            return page, bool(page.timers)

        page, following = await page_of_brokers(self._brokers.names(), start, ask)
        return TimerPage(page.timers if page else [], following)

    async def content(self, topic: str) -> TopicContent:
        """Combine the answers of the brokers that can be reached."""
        contents: list[TopicContent] = await self._brokers.ask_reachable(CALLS["content"], (topic,))
        return TopicContent(
            queues=[queue for each in contents for queue in each.queues],
            groups=sorted({group for each in contents for group in each.groups}),
            sent_per_s=sum(each.sent_per_s for each in contents),
            delivered_per_s=sum(each.delivered_per_s for each in contents),
            lite_topics=sum(each.lite_topics for each in contents),
            lite_messages=sum(each.lite_messages for each in contents),
        )

    async def history(self, of: "HistoryOf", name: str) -> FigureHistory:
        """Add up the histories of the brokers that can be reached."""
        history = combine_histories(await self._brokers.ask_reachable(CALLS["history"], (of, name)))
        return FigureHistory(step_ms=STEP_MS, end_ms=0, series={}) if history is None else history

    async def progress(self, group: str, topics: "Sequence[str]" = ()) -> "list[QueueProgress]":
        """Combine the answers of the brokers that can be reached. Topics of the group at one broker count at the others
        too."""
        rows = await self._progress(group, topics)
        known = {row.queue.topic for row in rows} - {retry_topic(group)}
        if known.issubset(topics) or len(self._brokers.names()) == 1:
            return rows
        return await self._progress(group, sorted(known.union(topics)))

    async def _progress(self, group: str, topics: "Sequence[str]") -> "list[QueueProgress]":
        return [
            row for some in await self._brokers.ask_reachable(CALLS["progress"], (group, list(topics))) for row in some
        ]

    async def find_by_key(self, topic: str, key: str, limit: int) -> "list[StoredMessage]":
        """Search the brokers that can be reached."""
        found = await self._brokers.ask_reachable(CALLS["find_by_key"], (topic, key, limit))
        newest_first = sorted((each for some in found for each in some), key=lambda each: each.stored_ms, reverse=True)
        return newest_first[:limit]

    async def lite_clients(self, group: str, topic: str) -> list[str]:
        """Return the clients by any broker that can be reached: all have the same."""
        found = await self._brokers.ask_reachable(CALLS["lite_clients"], (group, topic))
        return sorted({client_id for some in found for client_id in some})
