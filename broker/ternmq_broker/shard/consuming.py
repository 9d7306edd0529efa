"""The broker's receives and settlements. See `ShardConsuming`."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.cold_reads import run_when_read
from ternmq_broker.consumption.popping import PopBatch
from ternmq_broker.store.disk.files import WouldBlock
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.done_result import DONE, DoneResult
from ternmq_common.limits import QUEUES_MAX
from ternmq_common.names import is_lite_queue, lite_parent
from ternmq_common.shard.model import DeliveredMessage, PopOrder, SettleOutcome, group_by_settled_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.consumption.locks.client_locks import ClientLocks
    from ternmq_broker.consumption.locks.queue_locks import QueueLocks
    from ternmq_broker.consumption.redelivery import Redelivery
    from ternmq_broker.consumption.retry_handover import RetryHandover
    from ternmq_broker.consumption.turn_clock import TurnClock
    from ternmq_broker.delivery.joining_ways import JoiningWays
    from ternmq_broker.delivery.queue_readers import QueueReaders
    from ternmq_broker.lite_topics import LiteTopics
    from ternmq_broker.shard.admission import Admission
    from ternmq_common.clock import SystemClock
    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.receiving.poll_queues import PollQueues, Watcher
    from ternmq_common.shard.model import LiteSync, QueueRef, TopicSubscription
    from ternmq_common.shard.receipt_handle import ReceiptHandle
    from ternmq_runtime.observability.figures import MessageCounts


class BrokerConsuming:
    """Delivers messages to consumers, and settles them."""

    def __init__(
        self,
        consumption: "Consumption",
        redelivery: "Redelivery",
        pollers: "PollQueues",
        lite: "LiteTopics",
        queue_locks: "QueueLocks",
        client_locks: "ClientLocks",
        readers: "QueueReaders",
        joining: "JoiningWays",
        handover: "RetryHandover",
        admission: "Admission",
        counts: "MessageCounts",
        clock: "SystemClock",
        turn_clock: "TurnClock",
    ) -> None:
        self._consumption = consumption
        self._redelivery = redelivery
        self._pollers = pollers
        self._lite = lite
        self._queue_locks = queue_locks
        self._client_locks = client_locks
        self._readers = readers
        self._joining = joining
        self._handover = handover
        self._admission = admission
        self._counts = counts
        self._clock = clock
        self._turn_clock = turn_clock

    async def pop(self, order: PopOrder, poll_s: float, room: "AnswerRoom | None" = None) -> list[DeliveredMessage]:
        """Deliver the messages that are there, or wait up to `poll_s` seconds for some; [] if none came.

        Nothing is claimed without a place in `room`; the place is kept if messages were claimed.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        woken, place = False, None
        while True:
            if room is not None:
                if woken and not room.is_open:
                    self._pollers.wake_group(order.group, order.wait_key, 1)  # for a poll that has room
                if not await room.enter_room(end - loop.time()):
                    return []
            pop = await self._pop_available(order, room)
            if pop.deliveries:
                self._follow_up_pop(order, pop)
                return pop.deliveries
            if pop.more:
                await asyncio.sleep(0)
                continue
            if place is None:
                place = self._pollers.next_place()
            woken = await self._pollers.wait_for_messages(order.group, order.wait_key, max(0, end - loop.time()), place)
            if not woken:
                return []

    async def _pop_available(self, order: PopOrder, room: "AnswerRoom | None" = None) -> PopBatch:
        """Deliver the messages that are there; if there are none, the place in `room` is given back."""
        found = False
        self._admission.check_serves()
        try:
            pop = await run_when_read(lambda: self._pop_once(order))
            found = bool(pop.deliveries)
            return pop
        finally:
            if room is not None and not found:
                room.leave_room()

    def _pop_once(self, order: PopOrder) -> PopBatch:
        self._handover.adopt_retries(order.group)
        return self._consumption.pop(order, self._clock.now_ms())

    def urgency(self, group: str, topic: str, queues: range, *, lowest_first: bool) -> DoneResult[int]:
        """How many queues of a PRIORITY topic precede the first that may have a message for the group."""
        if len(queues) > QUEUES_MAX:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"no topic has {len(queues)} queues")
        return DoneResult(
            self._consumption.count_before_waiting(group, topic, queues if lowest_first else queues[::-1])
        )

    async def pop_or_watch(self, order: PopOrder, watcher: "Watcher | None") -> list[DeliveredMessage]:
        """Deliver the messages that are there; if there are none, notify the watcher when there may be some."""
        while True:
            deliveries = self.pop_or_watch_nowait(order, watcher)
            if deliveries is not None:
                return deliveries
            pop = await self._pop_available(order)
            if pop.deliveries:
                self._follow_up_pop(order, pop)
                return pop.deliveries
            await asyncio.sleep(0)

    def pop_or_watch_nowait(self, order: PopOrder, watcher: "Watcher | None") -> list[DeliveredMessage] | None:
        """Do `pop_or_watch` if it needs no wait, which is nearly always; else return None."""
        self._admission.check_serves()
        try:
            pop = self._pop_once(order)
        except WouldBlock:
            return None
        if pop.deliveries:
            self._follow_up_pop(order, pop)
        elif pop.more:
            return None
        elif watcher is not None:
            self._pollers.add_watcher(order.group, order.wait_key, watcher)
        return pop.deliveries

    def remove_watcher(self, watcher: "Watcher") -> None:
        """Forget the watcher."""
        self._pollers.remove_watcher(watcher)

    def _follow_up_pop(self, order: PopOrder, pop: PopBatch) -> None:
        """Plan for the end of the claims of a pop, and wake the next poll if there may be more messages."""
        self._counts.delivered.add_count(order.topic, len(pop.deliveries))
        for topic in group_by_settled_topic(order.topic, pop.deliveries):
            self._redelivery.note_claims(order.group, topic, pop.deadline_ms)
        if pop.more and self._pollers.has_waiting(order.group, order.wait_key):
            self._pollers.wake_group(order.group, order.wait_key, 1)

    def acknowledge(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]"
    ) -> DoneResult[list[SettleOutcome]]:
        """Finish messages; returns one outcome for each handle."""
        now = self._turn_clock.checked_ms()
        settle = self._consumption.acknowledge_message
        outcomes = [settle(group, topic, handle, now) for handle in handles]
        self._counts.acknowledged.add_count(lite_parent(topic), outcomes.count(SettleOutcome.DONE))
        self._wake_for_open_lanes(group, topic)
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return DoneResult(outcomes)

    def _wake_for_open_lanes(self, group: str, topic: str) -> None:
        """Wake a poll that waits for messages of a message group whose batch was settled."""
        if is_lite_queue(topic) or (
            self._pollers.has_waiting(group, topic) and self._consumption.has_open_lanes(group, topic)
        ):
            self._pollers.wake_group(group, topic, 1)

    async def dead_letter(self, group: str, topic: str, handle: "ReceiptHandle", *, attempts: int = 0) -> SettleOutcome:
        """Make a message a dead letter on its consumer's request; see `Redelivery.dead_letter`."""
        return await self._redelivery.dead_letter(group, topic, handle, attempts)

    async def change_invisible(
        self, group: str, topic: str, handle: "ReceiptHandle", invisible_ms: int, *, counts: bool
    ) -> "ReceiptHandle":
        """Return the handle that replaces `handle`; with 0 ms the message is ready at once.

        INVALID_RECEIPT_HANDLE if the handle is not in force.
        """
        now = self._clock.checked_ms()
        changed = self._consumption.change_invisible(
            group, topic, handle, now_ms=now, deadline_ms=now + invisible_ms, counts=counts
        )
        if invisible_ms:
            self._redelivery.watch_claims(group, topic)
        else:
            await self._redelivery.end_expired_claims(group, topic)
        if changed is None:
            raise MessagingError(
                ErrorCode.INVALID_RECEIPT_HANDLE,
                "the receipt handle is not in force: the message was settled, its invisible time has passed, "
                "or a later handle replaced this one",
            )
        return changed

    def prolong(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", invisible_ms: int
    ) -> DoneResult[list[bool]]:
        """Move the ends of claims and keep their handles; False for each handle that is not in force."""
        now = self._clock.checked_ms()
        return DoneResult(
            [
                self._consumption.prolong_claim(group, topic, handle, now_ms=now, deadline_ms=now + invisible_ms)
                for handle in handles
            ]
        )

    def release(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", *, counts: bool) -> DoneResult[None]:
        """Make messages ready for other consumers; with `counts` false no attempt is counted."""
        now = self._clock.checked_ms()
        released = [
            self._consumption.release_claim(group, topic, handle, now_ms=now, counts=counts) for handle in handles
        ]
        self._redelivery.watch_claims(group, topic)
        self._pollers.wake_group(group, topic, sum(released))
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return DONE

    async def sync_lite(self, sync: "LiteSync") -> None:
        """Change the subscriptions of a client of a lite group; see `LiteTopics.sync_subscriptions`."""
        await self._lite.sync_subscriptions(sync)

    def subscribed(self, subscriptions: "Sequence[TopicSubscription]") -> DoneResult[None]:
        """Note that these groups subscribe these topics, also where they have never been."""
        for each in subscriptions:
            self._consumption.add_subscription(each.group, each.topic)
        return DONE

    def leave(self, group: str, client_id: str) -> DoneResult[None]:
        """Release the queue locks of a member that has left the group."""
        self._queue_locks.release_member(group, client_id)
        self._readers.release_member(group, client_id)
        return DONE

    def lock_queues(
        self, broker: str, group: str, client_id: str, queues: "Sequence[QueueRef]"
    ) -> "DoneResult[list[QueueRef]]":
        """Lock queues for a client that consumes them in order; see `ClientLocks`."""
        return DoneResult(self._client_locks.lock_queues(group, client_id, queues))

    def unlock_queues(self, broker: str, group: str, client_id: str, queues: "Sequence[QueueRef]") -> DoneResult[None]:
        """Release those of the queues that the client has locked."""
        self._client_locks.unlock_queues(group, client_id, queues)
        return DONE

    def has_locks(self, broker: str, group: str) -> DoneResult[bool]:
        """Whether a client of the group has locked a queue here."""
        return DoneResult(self._client_locks.has_locks(group))

    def hold_way(self, broker: str, group: str, way: str, join: str) -> DoneResult[bool]:
        """Hold a way of consuming while a client joins the group; see `JoiningWays`."""
        return DoneResult(self._joining.hold_way(group, way, join))

    def release_way(self, broker: str, group: str, join: str) -> DoneResult[None]:
        """Note that the join has ended."""
        self._joining.release_way(group, join)
        return DONE
