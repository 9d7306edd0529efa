"""Lite topics of one broker, on the event loop: who subscribes them, who is woken, and which ones nobody uses any more
(`consuming.md, Lite topics`).

Queue       a lite topic is a topic of the store with one queue, made by its first message (`names.lite_queue_topic`)
Progress    of a group in it is that of a FIFO group in a queue with one message group; what holds nothing rests
            (`delivery/resting.py`)
Unused      is one to which nothing was sent for the time that its topic says: it is dropped, unless somebody holds
            something of it, with where groups were, and its subscribers are notified. What retention has emptied goes
            by itself
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_broker.background_loop import BackgroundLoop
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import LITE_TOPICS_MAX
from ternmq_common.model import DroppedLite, LiteAction, LiteOffset
from ternmq_common.names import lite_name, lite_parent, lite_queue_topic, lite_wait_key
from ternmq_common.shard.shard import Done

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_common.clock import Clock
    from ternmq_common.lite_group import LiteGroup
    from ternmq_common.model import LiteSync
    from ternmq_common.pollers import Pollers

    DroppedListener = Callable[[Sequence[DroppedLite]], None]
    """Is told of subscriptions that were dropped; must not raise."""

_log = logging.getLogger(__name__)
_LOOK_S = 1.0
# Clients say every 30 s what they subscribe.
EXPIRY_S = 180.0
EXPIRY_CHECK_S = 30.0
UNUSED_CHECK_S = 120.0
# So many are looked at in a millisecond, or dropped.
_A_TURN = 2000
_WOKEN_A_LOOK = 256


class LiteTopics:
    """`forget` has groups be nowhere in lite topics, for good."""

    def __init__(
        self,
        store: "MessageStore",
        consumption: "Consumption",
        pollers: "Pollers",
        clock: "Clock",
        forget: "Callable[[Sequence[str]], Awaitable[None]]",
    ) -> None:
        self._store = store
        self._consumption = consumption
        self._subscriptions = consumption.lite
        self._pollers = pollers
        self._clock = clock
        self._forget = forget
        self._listeners: list[DroppedListener] = []
        self.ttl_of: Callable[[str], int] = _never
        """For how many milliseconds nothing may be sent to a lite topic of that topic, 0: for ever."""
        pollers.of_lite = self._something_came
        self._loop = BackgroundLoop(
            self._look, name="lite topics", what="lite topics are not looked after", every_s=_LOOK_S
        )
        self._next_expiry_s = self._next_unused_s = 0.0
        clock.on_jump(self._clock_jumped)

    def _clock_jumped(self) -> None:
        self._next_unused_s = 0.0

    def start(self) -> None:
        self._next_expiry_s = asyncio.get_running_loop().time() + EXPIRY_CHECK_S
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    def watch(self, listener: "DroppedListener") -> None:
        """Tell of subscriptions that are dropped."""
        self._listeners.append(listener)

    # --- what is ready

    def _something_came(self, topic: str, group: str) -> None:
        """For one group, or for all if it is empty."""
        for each in (group,) if group else self._subscriptions.groups_of(topic):
            self._mark(each, topic)

    def _mark(self, group: str, topic: str) -> None:
        if self._consumption.lite_waits(group, topic):
            client = self._subscriptions.mark(group, topic)
            if client is not None:
                self._wake(client.group, client.topic, client.client_id)

    def _wake(self, group: str, topic: str, client_id: str) -> None:
        self._pollers.wake_group(group, lite_wait_key(topic, client_id), 1)

    def look_at_all(self) -> None:
        """Messages can be read that could not be read before."""
        for group, topic in list(self._subscriptions.subscribed()):
            self._mark(group, topic)
        for group, topic in self._subscriptions.wildcards():
            for lite_topic in self._of(topic):
                self._mark(group, lite_topic)

    def _of(self, topic: str) -> list[str]:
        return [each for each in self._store.lite_topics() if lite_parent(each) == topic]

    def refusal(self, topic: str) -> MessagingError | None:
        """LITE_TOPIC_QUOTA_EXCEEDED for a lite topic that would be one too many."""
        if self._store.lite_count < LITE_TOPICS_MAX or self._store.queue_ids(topic):
            return None
        return MessagingError(
            ErrorCode.LITE_TOPIC_QUOTA_EXCEEDED, f"this broker has {LITE_TOPICS_MAX} lite topics already"
        )

    # --- what clients say

    async def sync(self, sync: "LiteSync") -> None:
        """See `Shard.sync_lite`."""
        rules = self._rules(sync)
        topics = [lite_queue_topic(sync.topic, name) for name in sync.names]
        now_s = asyncio.get_running_loop().time()
        is_new = rules.wildcard and sync.client_id not in self._subscriptions.clients_of(sync.group)
        changes = self._subscriptions.sync(sync.group, rules, sync.client_id, sync.action, topics, now_s)
        self._tell([DroppedLite(sync.group, client_id, lite_name(topic)) for client_id, topic in changes.taken])
        if rules.resets_when_taken:
            await self._begin_again(sync.group, [topic for client, topic in changes.taken if client != sync.client_id])
        if rules.resets_when_unsubscribed and sync.action is LiteAction.PARTIAL_REMOVE:
            await self._begin_again(sync.group, changes.removed)
        if sync.action is LiteAction.PARTIAL_ADD and sync.begin is not None:
            for topic in topics:
                offset = await self._offset(topic, sync.begin, sync.number)
                self._consumption.set_committed(sync.group, topic, 0, offset)
        else:
            await self._begin(sync.group, changes.added)
        for topic in topics if sync.begin is not None else changes.added:
            self._mark(sync.group, topic)
        if is_new:
            await self._offer_all(sync.group, rules.bind)

    def clients(self, group: str, topic: str) -> Done[list[str]]:
        """See `Shard.lite_clients`."""
        return Done(self._subscriptions.clients_of(group, topic))

    def _rules(self, sync: "LiteSync") -> "LiteGroup":
        rules = self._consumption.rules(sync.group).lite
        if rules is None or rules.bind != sync.topic:
            bound = f"is bound to topic {rules.bind!r}" if rules is not None else "is no lite group"
            raise MessagingError(
                ErrorCode.ILLEGAL_TOPIC,
                f"group {sync.group!r} {bound}: it has no subscriptions of lite topics of {sync.topic!r}",
            )
        return rules

    async def _begin(self, group: str, topics: "Sequence[str]") -> None:
        """Have the group be somewhere in lite topics in which it never was, unless it begins with their first message
        anyhow: what is sent from now on is for it."""
        consume_from = self._consumption.rules(group).consume_from
        if consume_from in ("earliest", "auto"):
            return
        for topic in topics:
            if self._consumption.committed(group, topic, 0) is None:
                self._consumption.begin_lite(group, topic, await self._beginning(topic, consume_from))

    async def _begin_again(self, group: str, topics: "Sequence[str]") -> None:
        consume_from = self._consumption.rules(group).consume_from
        for topic in topics:
            self._consumption.set_committed(group, topic, 0, await self._beginning(topic, consume_from))

    async def _beginning(self, topic: str, consume_from: str) -> int:
        if consume_from.isdigit():
            return await asyncio.to_thread(self._store.offset_at, topic, 0, int(consume_from))
        first, end = self._store.bounds(topic, 0)
        return end if consume_from == "latest" else first

    async def _offset(self, topic: str, begin: LiteOffset, number: int) -> int:
        first, end = self._store.bounds(topic, 0)
        match begin:
            case LiteOffset.FIRST:
                return first
            case LiteOffset.END:
                return end
            case LiteOffset.OFFSET:
                # One that came again begins far above 0, and a small number is the count from there.
                origin = self._store.lite_origin(topic)
                return min(max(first, number if number >= origin else origin + number), end)
            case LiteOffset.TAIL:
                return min(max(first, end - number), end)
            case LiteOffset.TIME:
                return await asyncio.to_thread(self._store.offset_at, topic, 0, number)

    async def _offer_all(self, group: str, topic: str) -> None:
        """A client subscribes all lite topics."""
        for number, lite_topic in enumerate(self._of(topic), start=1):
            self._mark(group, lite_topic)
            if number % _A_TURN == 0:
                await asyncio.sleep(0)

    def _tell(self, dropped: "list[DroppedLite]") -> None:
        for listener in self._listeners if dropped else ():
            listener(dropped)

    # --- what nobody uses

    async def _look(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for client in self._subscriptions.left_waiting(_WOKEN_A_LOOK):
            self._wake(*client)
        if now_s >= self._next_expiry_s:
            self._next_expiry_s = now_s + EXPIRY_CHECK_S
            silent = self._subscriptions.expire(now_s - EXPIRY_S)
            if silent:
                _log.info("%d clients of lite groups have said nothing for %d s: they are forgotten", silent, EXPIRY_S)
        if now_s >= self._next_unused_s:
            self._next_unused_s = now_s + UNUSED_CHECK_S
            await self.drop_unused()

    async def drop_unused(self) -> None:
        """Drop the lite topics to which nothing was sent for too long. While nobody knows which time it is, none is
        known to be one."""
        if self._clock.problem() is not None:
            return
        now_ms = self._clock.now_ms()
        topics = self._store.lite_topics()
        ttls: dict[str, int] = {}
        for start in range(0, len(topics), _A_TURN):
            await asyncio.sleep(0)
            old: list[str] = []
            for topic in topics[start : start + _A_TURN]:
                parent = lite_parent(topic)
                ttl_ms = ttls.get(parent)
                if ttl_ms is None:
                    ttl_ms = ttls[parent] = self.ttl_of(parent)
                if ttl_ms and self._store.lite_sent_ms(topic) < now_ms - ttl_ms:
                    old.append(topic)
            if old:
                await self._drop_old(old, now_ms, ttls)

    async def _drop_old(self, topics: list[str], now_ms: int, ttls: dict[str, int]) -> None:
        """Drop those of them that are; of some nobody knows yet when something was sent to them, since a restart."""
        await asyncio.to_thread(self._store.read_lite_sent_ms, topics)
        held = {topic for _, topic in self._consumption.pairs()}
        unused = [
            topic
            for topic in topics
            if topic not in held and self._store.lite_sent_ms(topic) < now_ms - ttls[lite_parent(topic)]
        ]
        if unused:
            await self.drop(unused)
            _log.info("%d lite topics to which nothing was sent for long are dropped, as %s", len(unused), unused[0])

    async def forget_topic(self, topic: str) -> None:
        """The LITE topic is deleted, and all lite topics of it are gone."""
        lite_topics = self._of(topic) if self._store.lite_count else []
        if lite_topics:
            await self.drop(lite_topics)

    async def drop(self, topics: list[str]) -> None:
        """These lite topics are gone."""
        dropped: list[DroppedLite] = []
        for topic in topics:
            self._store.drop_lite(topic)
            dropped += [
                DroppedLite(each.group, each.client_id, lite_name(topic)) for each in self._subscriptions.drop(topic)
            ]
        self._tell(dropped)
        await self._forget(topics)


def _never(_topic: str) -> int:
    return 0
