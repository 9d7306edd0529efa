"""Auto-renewal: keeps the messages of a push consumer hidden while that client lives (`consuming.md,
Auto-renewal`).

The consumer never sees a renewed handle: its own stays valid. Renewal ends when the message is acknowledged, when the
client is gone, or after three hours; then other consumers get the message, in the last case after the group's backoff.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.limits import AUTO_RENEW_INVISIBLE_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from ternmq_common.shard.receipt_handle import ReceiptHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ternmq_common.shard.model import ConsumerGroup, DeliveredMessage
    from ternmq_proxy.message_service.interface import MessageService

RENEW_AHEAD_MS = 15 * SECOND_MS
RENEW_AT_MOST_MS = 3 * HOUR_MS
_STEPS_MS = (MINUTE_MS, 3 * MINUTE_MS, 5 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS, HOUR_MS)

_Place = tuple[str, str, str, int, int, int]
"""Group, topic, broker, queue id, queue offset, generation."""


@dataclass(slots=True)
class _HeldMessage:
    handle: ReceiptHandle
    attempt: int
    since_ms: int
    deadline_ms: int
    renewals: int = 0


class AutoRenewal:
    """The messages held by each client with auto-renewal."""

    def __init__(
        self, messages: "MessageService", now_ms: "Callable[[], int]", rules: "Callable[[str], ConsumerGroup]"
    ) -> None:
        self._messages = messages
        self._now_ms = now_ms
        self._rules = rules
        self._held: dict[str, dict[_Place, _HeldMessage]] = {}

    def hold_messages(self, client_id: str, group: str, topic: str, deliveries: "Iterable[DeliveredMessage]") -> None:
        """Keep these messages hidden for the client."""
        held = self._held.setdefault(client_id, {})
        now = self._now_ms()
        for delivery in deliveries:
            handle = delivery.handle
            held[_message_place(group, topic, handle)] = _HeldMessage(handle, delivery.attempt, now, handle.deadline_ms)

    def release_messages(self, client_id: str, group: str, topic: str, handles: "Iterable[ReceiptHandle]") -> None:
        """Stop renewing messages that the client acknowledged or gave back."""
        held = self._held.get(client_id)
        if held is not None:
            for handle in handles:
                held.pop(_message_place(group, topic, handle), None)
            if not held:
                del self._held[client_id]

    def backoff_ms(self, client_id: str, group: str, topic: str, handle: "ReceiptHandle") -> int:
        """Return the group's backoff for a message that this client holds and gives back."""
        entry = self._held.get(client_id, {}).get(_message_place(group, topic, handle))
        return self._rules(group).retry_backoff.delay_ms(entry.attempt if entry is not None else 1)

    async def release(self, client_id: str) -> None:
        """Release the messages of a client that is gone to others at once."""
        held = self._held.pop(client_id, {})
        for (group, topic), entries in _by_topic(held).items():
            await self._messages.consuming.release(group, topic, [entry.handle for _, entry in entries], counts=True)

    async def renew_claims(self) -> None:
        """Prolong the claims that end soon; to be called every few seconds."""
        turns = WorkTurns()
        for client_id, held in list(self._held.items()):
            await turns.next_turn()
            now = self._now_ms()
            due = {place: entry for place, entry in held.items() if entry.deadline_ms - now < RENEW_AHEAD_MS}
            kept_too_long = {place: entry for place, entry in due.items() if now - entry.since_ms >= RENEW_AT_MOST_MS}
            for place, entry in kept_too_long.items():
                held.pop(place, None)
                del due[place]
                await self._take_back(place[0], place[1], entry)
            for (group, topic), entries in _by_topic(due).items():
                await self._prolong_claims(client_id, group, topic, entries, now)
            for place in [place for place, entry in held.items() if entry.deadline_ms <= now]:
                held.pop(place, None)

    def shift_clock(self, by_ms: int) -> None:
        """Shift all times after the clock was set, as brokers shift all claims."""
        for held in self._held.values():
            for entry in held.values():
                entry.since_ms += by_ms
                entry.deadline_ms += by_ms

    async def prolong_before_shift(self, by_ms: int) -> None:
        """Prolong all claims by the step that the clock is about to be moved ahead, since no consumer had that time.
        The three hours still count from the delivery."""
        now = self._now_ms()
        for client_id, held in list(self._held.items()):
            by_deadline: defaultdict[tuple[str, str, int], list[tuple[_Place, _HeldMessage]]] = defaultdict(list)
            for place, entry in held.items():
                by_deadline[place[0], place[1], entry.deadline_ms].append((place, entry))
            for (group, topic, deadline_ms), entries in by_deadline.items():
                if deadline_ms > now:
                    await self._hide_messages(client_id, group, topic, entries, deadline_ms - now + by_ms, now)

    async def _take_back(self, group: str, topic: str, entry: _HeldMessage) -> None:
        wait_ms = self._rules(group).retry_backoff.delay_ms(entry.attempt)
        try:
            await self._messages.consuming.change_invisible(group, topic, entry.handle, wait_ms, counts=True)
        except MessagingError as error:
            if error.code != ErrorCode.INVALID_RECEIPT_HANDLE:  # then it was acknowledged meanwhile
                raise

    async def _prolong_claims(
        self, client_id: str, group: str, topic: str, entries: "list[tuple[_Place, _HeldMessage]]", now: int
    ) -> None:
        by_step: defaultdict[int, list[tuple[_Place, _HeldMessage]]] = defaultdict(list)
        for place, entry in entries:
            by_step[_STEPS_MS[min(entry.renewals, len(_STEPS_MS) - 1)]].append((place, entry))
        for step_ms, batch in by_step.items():
            for entry in await self._hide_messages(client_id, group, topic, batch, step_ms, now):
                entry.renewals += 1

    async def _hide_messages(
        self,
        client_id: str,
        group: str,
        topic: str,
        entries: "list[tuple[_Place, _HeldMessage]]",
        invisible_ms: int,
        now: int,
    ) -> list[_HeldMessage]:
        """Hide messages for so long from now on, and return those that are; the others are no longer the client's."""
        done = await self._messages.consuming.prolong(
            group, topic, [entry.handle for _, entry in entries], invisible_ms
        )
        hidden = []
        for (place, entry), prolonged in zip(entries, done, strict=True):
            if prolonged:
                entry.deadline_ms = now + invisible_ms
                hidden.append(entry)
            else:
                self._held.get(client_id, {}).pop(place, None)
        return hidden


def _message_place(group: str, topic: str, handle: "ReceiptHandle") -> _Place:
    return group, topic, handle.broker, handle.queue_id, handle.queue_offset, handle.generation


def _by_topic(held: "dict[_Place, _HeldMessage]") -> "dict[tuple[str, str], list[tuple[_Place, _HeldMessage]]]":
    found: defaultdict[tuple[str, str], list[tuple[_Place, _HeldMessage]]] = defaultdict(list)
    for place, entry in held.items():
        found[place[0], place[1]].append((place, entry))
    return found


assert AUTO_RENEW_INVISIBLE_MS > RENEW_AHEAD_MS
