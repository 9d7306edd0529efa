"""One FIFO group's progress in one message queue: in order within each message group, and only there.

lane        the unfinished messages of one message group, in order; messages without a group share one lane
waiting     at the head of its lane, or behind it: to be handed out when the lane is open
claimed     handed out; the lane is closed until each of its claimed messages is finished or its claim has ended
blocked     the first waiting message of its lane can't be read any more: the lane is closed until that is finished
pending     below `cursor` and unfinished, but not read since the restart, so its lane is not known
idle        its claim has ended, and no consumer has it before its lane, when that is known, is open

A closed lane blocks only itself: reading continues past it, and its further messages wait in it. When the lane opens,
messages whose claims ended go back to its head, in order; those that have used up their attempts are returned to the
caller, who moves them to the dead letters, and keep the lane closed until then (`consuming.md, FIFO groups`).

A consumer that repeats a call under the same attempt id gets the same messages again, with new handles, and that counts
as the same delivery (`consuming.md, Attempt ids`).
"""

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from ternmq_broker.delivery.claims import UNTOUCHED, Claim, ClaimsSnapshot, QueueClaims

WAITING_MAX: Final = 100_000
"""How many messages of a queue may wait behind closed lanes before reading ahead pauses."""


class MessageGroupLane:
    """One message group's unfinished messages; see the module docstring."""

    __slots__ = ("attempt_id", "blocked", "claimed", "ended", "key", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiting: deque[int] = deque()
        self.claimed: set[int] = set()
        self.ended: set[int] = set()
        self.attempt_id = ""
        self.blocked: int | None = None

    @property
    def is_open(self) -> bool:
        return not self.claimed and not self.ended and self.blocked is None


class OrderedConsumption(QueueClaims):
    """One FIFO group's consumption of one queue.

    Invariants: the claimed messages of a lane were handed out together; within a lane messages are handed out in order
    of their offsets; `_claims` has every unfinished message that was ever handed out, those in `_idle` among them.
    """

    __slots__ = (
        "_blocked", "_by_attempt_id", "_floor", "_fresh", "_heads", "_idle", "_lane_of", "_lanes", "_moving",
        "_pending",
    )  # fmt: skip

    def __init__(self, cursor: int, generation: int = 0) -> None:
        super().__init__(cursor, generation)
        self._lanes: dict[str, MessageGroupLane] = {}
        self._lane_of: dict[int, MessageGroupLane] = {}
        self._heads: list[tuple[int, str]] = []  # heap of (first waiting offset, lane), of lanes that were open then
        self._by_attempt_id: dict[str, list[MessageGroupLane]] = {}
        self._pending: dict[int, None] = {}
        self._fresh: set[int] = set()  # waiting and never handed out
        self._moving: set[int] = set()  # being moved to the dead letters: their lanes are closed
        self._blocked: set[int] = set()
        self._idle: set[int] = set()
        self._floor = 0

    @property
    def committed_offset(self) -> int:
        return min((offset for offset, _ in self._unfinished_claims()), default=self.cursor)

    @property
    def in_flight(self) -> int:
        return len(self._claims) + len(self._fresh) + sum(offset not in self._claims for offset in self._pending)

    @property
    def handed_out_count(self) -> int:
        """How many a consumer has, or are being moved to the dead letters."""
        return len(self._claims) - len(self._idle)

    def is_held(self, offset: int, now_ms: int) -> bool:
        claim = self._claims.get(offset)
        if claim is None or offset in self._idle:
            return False
        return claim.generation > 0 and now_ms < claim.deadline_ms

    @property
    def change_mark(self) -> tuple[int, ...]:
        return self.cursor, self._generation, len(self._claims), len(self._fresh), len(self._pending)

    # --- reading ahead

    def offsets_to_scan(self, limit: int) -> list[int]:
        """Return the offsets below `cursor` that must be read before anything else; none: read on from `cursor`."""
        return [offset for offset, _ in zip(self._pending, range(limit), strict=False)]

    @property
    def may_read_ahead(self) -> bool:
        """Whether there is room for messages that must wait."""
        return len(self._fresh) < WAITING_MAX

    def admit_message(self, offset: int, key: str, now_ms: int) -> None:
        """Put the next message into its lane; offsets come in ascending order, those of `offsets_to_scan` first."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = MessageGroupLane(key)
        self._lane_of[offset] = lane
        self._pending.pop(offset, None)
        self.cursor = max(self.cursor, offset + 1)
        claim = self._claims.get(offset)
        if offset in self._moving or (claim is not None and now_ms < claim.deadline_ms):
            lane.claimed.add(offset)
            self._idle.discard(offset)
            return
        if claim is None:
            self._fresh.add(offset)
            self._touched.add(offset)
        else:
            self._idle.add(offset)
        lane.waiting.append(offset)
        if len(lane.waiting) == 1 and lane.is_open:
            heapq.heappush(self._heads, (offset, key))

    def skip_message(self, offset: int) -> None:
        """Finish a message that was read and is not delivered: filtered out, or lost."""
        self._pending.pop(offset, None)
        self._touched.add(offset)
        self.finish_offset(offset)
        self.cursor = max(self.cursor, offset + 1)

    def begins_before(self, first: int) -> bool:
        """Tell whether the queue was not known to begin at `first`, so that `skip_to` may have something to do."""
        return first > self._floor

    def unread_below(self, offset: int) -> int:
        """Return how many messages below that offset were never handed out, nor passed over; some of them wait."""
        if offset <= self._floor:
            return 0
        waiting = sum(1 for each in self._fresh if each < offset)
        waiting += sum(1 for each in self._pending if each < offset and each not in self._claims)
        return max(0, offset - self.cursor) + waiting

    def skip_to(self, offset: int) -> None:
        """Finish what lies below `offset` and was never read, or waits: retention has removed it."""
        if offset > self._floor:
            self._floor = offset
            for each in [each for each in (*self._pending, *self._fresh, *self._blocked) if each < offset]:
                self.skip_message(each)
            self.cursor = max(self.cursor, offset)

    def block_lane(self, lane: MessageGroupLane) -> None:
        """Close an open lane whose first message can't be read, until that is finished."""
        assert lane.is_open
        lane.blocked = lane.waiting[0]
        self._blocked.add(lane.waiting[0])

    def unblock_lane(self, offset: int) -> bool:
        """Open the lane of a message that can be read again; return whether it was blocked by it."""
        lane = self._lane_of.get(offset)
        if lane is None or lane.blocked != offset:
            return False
        lane.blocked = None
        self._blocked.discard(offset)
        if lane.is_open and lane.waiting:
            heapq.heappush(self._heads, (lane.waiting[0], lane.key))
        return True

    # --- handing out

    def open_lane(self) -> MessageGroupLane | None:
        """Return the open lane whose first message is the oldest; None when none has any."""
        while self._heads:
            offset, key = self._heads[0]
            lane = self._lanes.get(key)
            if lane is not None and lane.is_open and lane.waiting and lane.waiting[0] == offset:
                return lane
            heapq.heappop(self._heads)
        return None

    @property
    def open_lanes(self) -> int:
        """About how many lanes are open and have messages, never fewer."""
        return len(self._heads)

    @property
    def has_open_lane(self) -> bool:
        return self.open_lane() is not None

    @property
    def is_closed(self) -> bool:
        """Whether a lane is closed. In a queue of one lane: whether a consumer has some of it."""
        return any(not lane.is_open for lane in self._lanes.values())

    @property
    def is_idle(self) -> bool:
        """Whether the cursor is the whole state."""
        return not (self._claims or self._fresh or self._pending or self._blocked)

    def hand_out(
        self, lane: MessageGroupLane, offsets: Sequence[int], *, deadline_ms: int, attempt_id: str
    ) -> list[Claim]:
        """Claim the first messages of an open lane; return their claims, in order. They may differ in their
        attempts.
        """
        assert lane.is_open
        self._generation += 1
        claims = []
        for offset in offsets:
            head = lane.waiting.popleft()
            assert head == offset
            self._fresh.discard(offset)
            self._idle.discard(offset)
            lane.claimed.add(offset)
            before = self._claims.get(offset, UNTOUCHED)
            claims.append(Claim(before.attempt + 1, self._generation, deadline_ms))
        self._claim_each(offsets, claims)
        lane.attempt_id = attempt_id
        if attempt_id:
            self._by_attempt_id.setdefault(attempt_id, []).append(lane)
        return claims

    def lanes_of_attempt(self, attempt_id: str) -> list[MessageGroupLane]:
        """Return the lanes that a delivery under that attempt id has closed."""
        return self._by_attempt_id.get(attempt_id, []) if attempt_id else []

    def hand_out_again(self, lane: MessageGroupLane, *, deadline_ms: int) -> dict[int, Claim]:
        """Claim what the lane's last delivery left unfinished once more, as the same delivery."""
        self._generation += 1
        offsets = sorted((lane.claimed | lane.ended) - self._moving)
        claims = [
            self._claims[offset]._replace(generation=self._generation, deadline_ms=deadline_ms) for offset in offsets
        ]
        self._idle -= lane.ended
        lane.claimed.update(lane.ended)
        lane.ended.clear()
        self._claim_each(offsets, claims)
        return dict(zip(offsets, claims, strict=True))

    def _claim_each(self, offsets: Sequence[int], claims: list[Claim]) -> None:
        """Put the offsets under their claims, those with equal ones together."""
        start = 0
        for end in range(1, len(offsets) + 1):
            if end == len(offsets) or claims[end] != claims[start]:
                self._claim_offsets(list(offsets[start:end]), claims[start])
                start = end

    # --- again

    def take_ended(self, now_ms: int, attempts_max: int) -> list[tuple[int, int]]:
        """Process the claims that have ended; return the messages with no attempts left, with their attempts.

        The caller must `finish_offset` each of these once it is a dead letter, or `return_message` it.
        """
        exhausted: list[tuple[int, int]] = []
        lanes: dict[str, MessageGroupLane] = {}
        for offset, claim in self._take_ended(now_ms):
            if offset in self._moving:  # after a restart it may be known as moving already
                continue
            lane = self._lane_of.get(offset)
            if claim.attempt >= attempts_max and (lane is None or offset in lane.claimed):
                self.set_aside(offset)
                exhausted.append((offset, claim.attempt))
            elif lane is not None and offset in lane.claimed:
                lane.claimed.discard(offset)
                lane.ended.add(offset)
                self._idle.add(offset)
                lanes[lane.key] = lane
            elif lane is None:
                self._idle.add(offset)
        for lane in lanes.values():
            self._open_if_done(lane)
        return exhausted

    def set_aside(self, offset: int) -> None:
        """End the claim of a message that is being moved to the dead letters; its lane stays closed meanwhile."""
        self._claims[offset] = Claim(self._claims[offset].attempt, 0, 0)
        self._touched.add(offset)
        self._moving.add(offset)
        self._idle.discard(offset)
        lane = self._lane_of.get(offset)
        if lane is not None:
            if offset in lane.waiting:
                lane.waiting.remove(offset)
            lane.ended.discard(offset)
            lane.claimed.add(offset)

    def return_message(self, offset: int) -> None:
        """Let a message that could not be moved to the dead letters be handed out again."""
        self._moving.discard(offset)
        self._idle.add(offset)
        lane = self._lane_of.get(offset)
        if lane is not None and offset in lane.claimed:
            lane.claimed.discard(offset)
            lane.ended.add(offset)
            self._open_if_done(lane)

    def _open_if_done(self, lane: MessageGroupLane) -> None:
        if lane.claimed:
            return
        self._forget_attempt_id(lane)
        if lane.ended:
            if lane.waiting and lane.waiting[0] < max(lane.ended):
                # After a restart: some claims of one delivery had ended before, and wait already.
                lane.waiting = deque(sorted((*lane.ended, *lane.waiting)))
            else:
                lane.waiting.extendleft(sorted(lane.ended, reverse=True))
            lane.ended.clear()
        if lane.waiting:
            heapq.heappush(self._heads, (lane.waiting[0], lane.key))
        else:
            del self._lanes[lane.key]

    def _forget_attempt_id(self, lane: MessageGroupLane) -> None:
        if lane.attempt_id:
            lanes = self._by_attempt_id[lane.attempt_id]
            lanes.remove(lane)
            if not lanes:
                del self._by_attempt_id[lane.attempt_id]
            lane.attempt_id = ""

    def reset_to(self, offset: int) -> None:
        """Continue at `offset`, wherever that is; earlier claims are void."""
        self.cursor = offset
        for held in (
            self._claims, self._deadlines, self._lanes, self._lane_of, self._heads, self._by_attempt_id,
            self._pending, self._fresh, self._moving, self._blocked, self._idle,
        ):  # fmt: skip
            held.clear()
        self._needs_snapshot = True

    # --- hooks of `QueueClaims`

    def finish_offset(self, offset: int) -> None:
        """Finish one offset with any claim; no consumer can have it any more."""
        self._pending.pop(offset, None)
        self._moving.discard(offset)
        self._idle.discard(offset)
        if offset in self._fresh:
            self._fresh.discard(offset)
            self._touched.add(offset)
            self._on_finished(offset)
        super().finish_offset(offset)

    def _on_finished(self, offset: int) -> None:
        lane = self._lane_of.pop(offset, None)
        if lane is None:
            return
        if offset == lane.blocked:
            lane.blocked = None
            self._blocked.discard(offset)
        if offset in lane.claimed or offset in lane.ended:
            lane.claimed.discard(offset)
            lane.ended.discard(offset)
            self._open_if_done(lane)
        else:
            # It was settled late, after its claim was released and before another consumer had it; or skipped.
            lane.waiting.remove(offset)
            if lane.is_open:
                self._open_if_done(lane)

    def _on_reclaimed(self, offset: int) -> None:
        """Do nothing: only a claimed message's claim can be replaced, and it stays claimed."""

    def claim_in_force(self, offset: int, generation: int, now_ms: int) -> Claim | None:
        """Return the claim of that generation, while it is in force; a released message can only be acknowledged."""
        lane = self._lane_of.get(offset)
        if lane is not None and offset not in lane.claimed:
            return None
        return super().claim_in_force(offset, generation, now_ms)

    def _on_released(self, offset: int, claim: Claim) -> None:
        lane = self._lane_of.get(offset)
        if lane is not None and offset in lane.claimed:
            lane.claimed.discard(offset)
            lane.ended.add(offset)
            self._idle.add(offset)
            self._open_if_done(lane)

    def _unfinished_claims(self) -> Iterable[tuple[int, Claim]]:
        yield from self._claims.items()
        yield from ((offset, UNTOUCHED) for offset in self._fresh)
        yield from ((offset, UNTOUCHED) for offset in self._pending if offset not in self._claims)

    def _remembered_claim(self, offset: int) -> Claim | None:
        claim = self._claims.get(offset)
        return UNTOUCHED if claim is None and (offset in self._fresh or offset in self._pending) else claim

    # --- restart

    @classmethod
    def restore_state(cls, snapshot: ClaimsSnapshot, *, end: int) -> "OrderedConsumption":
        """Continue from a snapshot in a queue that ends at `end`, which a power cut may have moved back."""
        consumption = cls(min(snapshot.cursor, end))
        unfinished: dict[int, Claim] = {}
        consumption._restore_claims(snapshot, end, unfinished)
        consumption._pending = dict.fromkeys(unfinished)
        consumption._claims = {offset: claim for offset, claim in unfinished.items() if claim != UNTOUCHED}
        return consumption
