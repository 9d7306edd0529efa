"""How far one group is in one message queue.

committed   everything below is finished
cursor      the next offset that was never handed out
in flight   handed out and not finished: the claim in force, or one that ended and waits for the next consumer

Everything from `committed` up to `cursor` that is not in flight is finished, so finished offsets need no memory of
their own. Times are milliseconds since the epoch.
"""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

from ternmq_common.model import Settled

_GENERATIONS_LEFT_OUT = 1_000_000


class Claim(NamedTuple):
    """The right of one consumer to settle a message: the `attempt`-th delivery, until `deadline_ms`.

    `generation` counts the claims given out in this queue. All messages of one hand-out share one Claim object.
    """

    attempt: int
    generation: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Hole:
    """`count` offsets from `first` on that are in flight under one claim."""

    first: int
    count: int
    claim: Claim


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state, to be kept over a restart."""

    cursor: int
    generation: int
    holes: list[Hole]


class QueueConsumption:
    """One group's consumption of one queue.

    Invariants: every offset in flight is below `cursor`; an offset is under one claim at most; a claim that ended or
    was released is handed out again before anything new is.
    """

    __slots__ = ("_claims", "_deadlines", "_generation", "_ready", "_ready_claims", "cursor")

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self._generation = 0
        self._claims: dict[int, Claim] = {}
        # (deadline, generation, first offset, end): when to look at which offsets; claims tell whether it still holds.
        self._deadlines: list[tuple[int, int, int, int]] = []
        self._ready: list[int] = []
        self._ready_claims: dict[int, Claim] = {}

    @property
    def committed(self) -> int:
        return min(self._claims, default=self.cursor)

    @property
    def in_flight(self) -> int:
        return len(self._claims)

    @property
    def mark(self) -> tuple[int, int, int]:
        """Differs after messages were handed out, skipped or finished."""
        return self.cursor, self._generation, len(self._claims)

    # --- handing out

    def ready(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """The lowest offsets that wait for another delivery, as (offset, attempt to come); they stay waiting."""
        self._expire(now_ms)
        found: list[tuple[int, int]] = []
        while self._ready and len(found) < limit:
            offset = heapq.heappop(self._ready)
            claim = self._ready_claims.get(offset)
            # The heap may hold an offset twice, of two times that it was ready; both come out one after the other.
            is_same = bool(found) and found[-1][0] == offset
            if claim is not None and self._claims.get(offset) is claim and not is_same:
                found.append((offset, claim.attempt + 1))
        for offset, _ in found:
            heapq.heappush(self._ready, offset)
        return found

    def hand_out(self, offsets: list[int], *, attempt: int, deadline_ms: int) -> Claim:
        """Claim offsets that are new (at or above `cursor`, which passes them) or ready, for one consumer."""
        self._generation += 1
        claim = Claim(attempt, self._generation, deadline_ms)
        for offset in offsets:
            self._claims[offset] = claim
            self._ready_claims.pop(offset, None)
        self._watch(claim, offsets[0], offsets[-1] + 1)
        self.cursor = max(self.cursor, offsets[-1] + 1)
        return claim

    def skip_to(self, offset: int) -> None:
        """Finish everything from `cursor` to before `offset` unread: filtered out, lost, or removed by retention."""
        self.cursor = max(self.cursor, offset)

    def finish(self, offset: int) -> None:
        """Finish one offset that is ready or in flight whatever its claim; no consumer can have it any more."""
        self._claims.pop(offset, None)
        self._ready_claims.pop(offset, None)

    def reset(self, offset: int) -> None:
        """Go on at `offset`, wherever that is; no claim that was given out before holds any more."""
        self.cursor = offset
        self._claims.clear()
        self._ready_claims.clear()
        self._ready.clear()
        self._deadlines.clear()

    # --- settling

    def acknowledge(self, offset: int, generation: int, deadline_ms: int, now_ms: int) -> Settled:
        """Finish a message by its receipt handle; `deadline_ms` is the handle's own, as first given out."""
        claim = self._claims.get(offset)
        if claim is None or claim.generation != generation:
            return Settled.STALE if now_ms < deadline_ms else Settled.EXPIRED
        if now_ms >= claim.deadline_ms:
            return Settled.EXPIRED
        self.finish(offset)
        return Settled.DONE

    def change_invisible(
        self, offset: int, generation: int, *, now_ms: int, deadline_ms: int, counts: bool
    ) -> Claim | None:
        """Move the end of a claim and replace its handle; None if the claim is not in force.

        At a `deadline_ms` that is not in the future the message is ready at once. With `counts` false the next delivery
        has the same attempt number again.
        """
        claim = self._in_force(offset, generation, now_ms)
        if claim is None:
            return None
        self._generation += 1
        changed = Claim(claim.attempt - (not counts), self._generation, deadline_ms)
        self._reclaim(offset, changed)
        return changed

    def prolong(self, offset: int, generation: int, *, now_ms: int, deadline_ms: int) -> bool:
        """Move the end of a claim and keep its handle; False if the claim is not in force."""
        claim = self._in_force(offset, generation, now_ms)
        if claim is None:
            return False
        self._reclaim(offset, claim._replace(deadline_ms=deadline_ms))
        return True

    def release(self, offset: int, generation: int, *, now_ms: int, counts: bool) -> bool:
        """Make a message ready at once while its handle can still settle it, until another consumer has it.

        With `counts` false the message was never seen by its consumer, so the attempt is not counted.
        """
        claim = self._in_force(offset, generation, now_ms)
        if claim is None:
            return False
        self._claims[offset] = released = claim._replace(attempt=claim.attempt - (not counts))
        self._make_ready(offset, released)
        return True

    def _in_force(self, offset: int, generation: int, now_ms: int) -> Claim | None:
        claim = self._claims.get(offset)
        in_force = claim is not None and claim.generation == generation and now_ms < claim.deadline_ms
        return claim if in_force else None

    def _reclaim(self, offset: int, claim: Claim) -> None:
        self._claims[offset] = claim
        self._ready_claims.pop(offset, None)
        self._watch(claim, offset, offset + 1)

    # --- time

    def _watch(self, claim: Claim, first: int, end: int) -> None:
        if len(self._deadlines) > 64 + 2 * len(self._claims):
            # Nearly all were settled before their time; forget those instead of keeping them until then.
            self._deadlines = [
                (hole.claim.deadline_ms, hole.claim.generation, hole.first, hole.first + hole.count)
                for hole in self._holes()
            ]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (claim.deadline_ms, claim.generation, first, end))

    def next_deadline_ms(self) -> int | None:
        """When the next claim ends unless it is settled or prolonged before; None without claims under way."""
        while self._deadlines:
            deadline_ms, generation, first, end = self._deadlines[0]
            for offset in range(first, end):
                claim = self._claims.get(offset)
                if claim is not None and claim.generation == generation and claim.deadline_ms == deadline_ms:
                    return deadline_ms
            heapq.heappop(self._deadlines)
        return None

    def _expire(self, now_ms: int) -> None:
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, generation, first, end = heapq.heappop(self._deadlines)
            for offset in range(first, end):
                claim = self._claims.get(offset)
                # A claim that was prolonged has the same generation and a later entry of its own.
                if claim is not None and claim.generation == generation and claim.deadline_ms <= now_ms:
                    self._make_ready(offset, claim)

    def _make_ready(self, offset: int, claim: Claim) -> None:
        if self._ready_claims.get(offset) is claim:
            return
        self._ready_claims[offset] = claim
        heapq.heappush(self._ready, offset)

    # --- restart

    def snapshot(self) -> Snapshot:
        """The state as it is; claims under way keep their handles over a restart."""
        return Snapshot(self.cursor, self._generation, self._holes())

    def _holes(self) -> list[Hole]:
        holes: list[Hole] = []
        for offset in sorted(self._claims):
            claim = self._claims[offset]
            last = holes[-1] if holes else None
            if last is not None and last.first + last.count == offset and last.claim == claim:
                holes[-1] = Hole(last.first, last.count + 1, claim)
            else:
                holes.append(Hole(offset, 1, claim))
        return holes

    @classmethod
    def restore(cls, snapshot: Snapshot, *, end: int) -> "QueueConsumption":
        """Continue from a snapshot in a queue that ends at `end`, which a power cut may have moved back.

        The snapshot may be older than the last claims: numbers that those may have had are left out.
        """
        consumption = cls(min(snapshot.cursor, end))
        consumption._generation = snapshot.generation + _GENERATIONS_LEFT_OUT
        for hole in snapshot.holes:
            hole_end = min(hole.first + hole.count, end)
            for offset in range(hole.first, hole_end):
                consumption._claims[offset] = hole.claim
            heapq.heappush(
                consumption._deadlines, (hole.claim.deadline_ms, hole.claim.generation, hole.first, hole_end)
            )
        return consumption
