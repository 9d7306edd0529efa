"""Lite topics of one broker: their subscribers, which clients are woken, and when unused ones are dropped.

See `consuming.md, Lite topics`.

Queue     a lite topic is a topic of the store with one queue, created by its first message (`names.lite_queue_topic`)
Progress  a group's progress in it is that of a FIFO group in a queue with one message group; without messages in
          flight it is reduced to an offset (`delivery/resting.py`)
Unused    a lite topic without a send for the time that its topic sets is dropped with the groups' offsets, unless
          messages of it are in flight; its subscribers are notified. A lite topic that retention has emptied is removed
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.event_loop.done_result import DoneResult
from ternmq_common.limits import LITE_TOPICS_MAX
from ternmq_common.names import lite_name, lite_parent, lite_queue_topic, lite_wait_key
from ternmq_common.shard.model import DroppedLite, LiteAction, LiteOffset

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_common.catalog.lite_group import LiteGroup
    from ternmq_common.clock import SystemClock
    from ternmq_common.receiving.poll_queues import PollQueues
    from ternmq_common.shard.model import LiteSync

    DroppedListener = Callable[[Sequence[DroppedLite]], None]
    """Called with subscriptions that were dropped; must not raise."""

_log = logging.getLogger(__name__)
_LOOK_S = 1.0
# Clients send their subscriptions every 30 s.
EXPIRY_S = 180.0
EXPIRY_CHECK_S = 30.0
UNUSED_CHECK_S = 120.0
# So many are examined, or dropped, in a millisecond.
_A_TURN = 2000
_WOKEN_A_LOOK = 256


class LiteTopics(BackgroundLoop):
    """The lite topics of one broker; runs on the event loop. `forget` drops the groups' progress in lite topics."""

    def __init__(
        self,
        store: "MessageStore",
        consumption: "Consumption",
        pollers: "PollQueues",
        clock: "SystemClock",
        forget: "Callable[[Sequence[str]], Awaitable[None]]",
    ) -> None:
        super().__init__(self._look_after, name="lite topics", what="lite topics are not looked after", every_s=_LOOK_S)
        self._store = store
        self._consumption = consumption
        self._subscriptions = consumption.lite
        self._pollers = pollers
        self._clock = clock
        self._forget = forget
        self._listeners: list[DroppedListener] = []
        self.ttl_of: Callable[[str], int] = _never_expires
        """After how many milliseconds without a send a lite topic of that topic is dropped; 0: never."""
        pollers.on_lite_messages = self._mark_arrival
        self._next_expiry_s = self._next_unused_s = 0.0
        clock.on_jump(self._clock_jumped)

    def _clock_jumped(self) -> None:
        self._next_unused_s = 0.0

    def start(self) -> None:
        self._next_expiry_s = asyncio.get_running_loop().time() + EXPIRY_CHECK_S
        super().start()

    def add_listener(self, listener: "DroppedListener") -> None:
        """Add a listener for subscriptions that are dropped."""
        self._listeners.append(listener)

    # --- what is ready

    def _mark_arrival(self, topic: str, group: str) -> None:
        """Mark the lite topic as ready for one group, or for all if `group` is empty."""
        for each in (group,) if group else self._subscriptions.groups_of(topic):
            self._mark_if_waiting(each, topic)

    def _mark_if_waiting(self, group: str, topic: str) -> None:
        if self._consumption.may_have_lite_messages(group, topic):
            client = self._subscriptions.mark_ready(group, topic)
            if client is not None:
                self._wake_client(client.group, client.topic, client.client_id)

    def _wake_client(self, group: str, topic: str, client_id: str) -> None:
        self._pollers.wake_group(group, lite_wait_key(topic, client_id), 1)

    def mark_all(self) -> None:
        """Mark all lite topics with messages: messages became readable."""
        for group, topic in list(self._subscriptions.subscribed_topics()):
            self._mark_if_waiting(group, topic)
        for group, topic in self._subscriptions.wildcard_groups():
            for lite_topic in self._lite_topics_of(topic):
                self._mark_if_waiting(group, lite_topic)

    def _lite_topics_of(self, topic: str) -> list[str]:
        return [each for each in self._store.indexes.queues.lite_topics() if lite_parent(each) == topic]

    def check_new_topic(self, topic: str) -> MessagingError | None:
        """LITE_TOPIC_QUOTA_EXCEEDED for a new lite topic that would be one too many; else None."""
        if self._store.indexes.queues.lite_queues < LITE_TOPICS_MAX or self._store.indexes.queues.queue_ids(topic):
            return None
        return MessagingError(
            ErrorCode.LITE_TOPIC_QUOTA_EXCEEDED, f"this broker has {LITE_TOPICS_MAX} lite topics already"
        )

    # --- subscriptions

    async def sync_subscriptions(self, sync: "LiteSync") -> None:
        """See `MessageConsuming.sync_lite`."""
        rules = self._rules_of(sync)
        topics = [lite_queue_topic(sync.topic, name) for name in sync.names]
        now_s = asyncio.get_running_loop().time()
        is_new = rules.wildcard and sync.client_id not in self._subscriptions.clients_of(sync.group)
        changes = self._subscriptions.sync_client(sync.group, rules, sync.client_id, sync.action, topics, now_s)
        self._notify_dropped(
            [DroppedLite(sync.group, client_id, lite_name(topic)) for client_id, topic in changes.taken]
        )
        if rules.resets_when_taken:
            await self._reset_begin(sync.group, [topic for client, topic in changes.taken if client != sync.client_id])
        if rules.resets_when_unsubscribed and sync.action is LiteAction.PARTIAL_REMOVE:
            await self._reset_begin(sync.group, changes.removed)
        if sync.action is LiteAction.PARTIAL_ADD and sync.begin is not None:
            for topic in topics:
                offset = await self._resolve_offset(topic, sync.begin, sync.number)
                self._consumption.set_committed(sync.group, topic, 0, offset)
        else:
            await self._set_begin(sync.group, changes.added)
        for topic in topics if sync.begin is not None else changes.added:
            self._mark_if_waiting(sync.group, topic)
        if is_new:
            await self._mark_all_of(sync.group, rules.bind)

    def subscribed_clients(self, group: str, topic: str) -> DoneResult[list[str]]:
        """See `StorageInspecting.lite_clients`."""
        return DoneResult(self._subscriptions.clients_of(group, topic))

    def _rules_of(self, sync: "LiteSync") -> "LiteGroup":
        rules = self._consumption.rules(sync.group).lite
        if rules is None or rules.bind != sync.topic:
            bound = f"is bound to topic {rules.bind!r}" if rules is not None else "is no lite group"
            raise MessagingError(
                ErrorCode.ILLEGAL_TOPIC,
                f"group {sync.group!r} {bound}: it has no subscriptions of lite topics of {sync.topic!r}",
            )
        return rules

    async def _set_begin(self, group: str, topics: "Sequence[str]") -> None:
        """Set the group's offset in lite topics that are new to it, unless it begins with their first message anyhow.

        So messages sent from now on are for the group.
        """
        consume_from = self._consumption.rules(group).consume_from
        if consume_from in ("earliest", "auto"):
            return
        for topic in topics:
            if self._consumption.committed_offset(group, topic, 0) is None:
                self._consumption.begin_lite(group, topic, await self._begin_offset(topic, consume_from))

    async def _reset_begin(self, group: str, topics: "Sequence[str]") -> None:
        consume_from = self._consumption.rules(group).consume_from
        for topic in topics:
            self._consumption.set_committed(group, topic, 0, await self._begin_offset(topic, consume_from))

    async def _begin_offset(self, topic: str, consume_from: str) -> int:
        if consume_from.isdigit():
            return await asyncio.to_thread(self._store.reader.find_offset_at, topic, 0, int(consume_from))
        first, end = self._store.indexes.queues.queue_bounds(topic, 0)
        return end if consume_from == "latest" else first

    async def _resolve_offset(self, topic: str, begin: LiteOffset, number: int) -> int:
        first, end = self._store.indexes.queues.queue_bounds(topic, 0)
        match begin:
            case LiteOffset.FIRST:
                return first
            case LiteOffset.END:
                return end
            case LiteOffset.OFFSET:
                # A lite topic that was created again begins far above 0; a small number is counted from there.
                origin = self._store.indexes.queues.queue_origin(topic, 0)
                return min(max(first, number if number >= origin else origin + number), end)
            case LiteOffset.TAIL:
                return min(max(first, end - number), end)
            case LiteOffset.TIME:
                return await asyncio.to_thread(self._store.reader.find_offset_at, topic, 0, number)

    async def _mark_all_of(self, group: str, topic: str) -> None:
        """Mark all lite topics of the topic for a group: a client subscribes all of them."""
        for number, lite_topic in enumerate(self._lite_topics_of(topic), start=1):
            self._mark_if_waiting(group, lite_topic)
            if number % _A_TURN == 0:
                await asyncio.sleep(0)

    def _notify_dropped(self, dropped: "list[DroppedLite]") -> None:
        for listener in self._listeners if dropped else ():
            listener(dropped)

    # --- unused lite topics

    async def _look_after(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for client in self._subscriptions.clients_to_wake(_WOKEN_A_LOOK):
            self._wake_client(*client)
        if now_s >= self._next_expiry_s:
            self._next_expiry_s = now_s + EXPIRY_CHECK_S
            silent = self._subscriptions.expire_clients(now_s - EXPIRY_S)
            if silent:
                _log.info("%d clients of lite groups were silent for %d s: they are forgotten", silent, EXPIRY_S)
        if now_s >= self._next_unused_s:
            self._next_unused_s = now_s + UNUSED_CHECK_S
            await self.drop_unused()

    async def drop_unused(self) -> None:
        """Drop the lite topics without a send for too long; none while the clock can't be relied on."""
        if self._clock.find_problem() is not None:
            return
        now_ms = self._clock.now_ms()
        topics = self._store.indexes.queues.lite_topics()
        ttls: dict[str, int] = {}
        for start in range(0, len(topics), _A_TURN):
            await asyncio.sleep(0)
            old: list[str] = []
            for topic in topics[start : start + _A_TURN]:
                parent = lite_parent(topic)
                ttl_ms = ttls.get(parent)
                if ttl_ms is None:
                    ttl_ms = ttls[parent] = self.ttl_of(parent)
                if ttl_ms and self._store.reader.lite_sent_ms(topic) < now_ms - ttl_ms:
                    old.append(topic)
            if old:
                await self._drop_old(old, now_ms, ttls)

    async def _drop_old(self, topics: list[str], now_ms: int, ttls: dict[str, int]) -> None:
        """Drop those of the topics that are unused; after a restart their last sends must be read first."""
        await asyncio.to_thread(self._store.reader.read_lite_sent_ms, topics)
        held = {topic for _, topic in self._consumption.group_topic_pairs()}
        unused = [
            topic
            for topic in topics
            if topic not in held and self._store.reader.lite_sent_ms(topic) < now_ms - ttls[lite_parent(topic)]
        ]
        if unused:
            await self.drop_topics(unused)
            _log.info("%d lite topics without a recent send are dropped, for example %s", len(unused), unused[0])

    async def forget_topic(self, topic: str) -> None:
        """Drop all lite topics of a deleted LITE topic."""
        lite_topics = self._lite_topics_of(topic) if self._store.indexes.queues.lite_queues else []
        if lite_topics:
            await self.drop_topics(lite_topics)

    async def drop_topics(self, topics: list[str]) -> None:
        """Drop these lite topics, and notify their subscribers."""
        dropped: list[DroppedLite] = []
        for topic in topics:
            self._store.indexes.queues.drop_lite_topic(topic)
            dropped += [
                DroppedLite(each.group, each.client_id, lite_name(topic))
                for each in self._subscriptions.drop_topic(topic)
            ]
        self._notify_dropped(dropped)
        await self._forget(topics)


def _never_expires(_topic: str) -> int:
    return 0
