"""One group's progress in one message queue, without order: each message is independent.

committed   everything below is finished
cursor      the next offset that was never handed out
in flight   handed out and not finished: the claim is in force, or has ended and was not processed yet
ready       in flight, and to be handed out again

Everything from `committed_offset` up to `cursor` that is not in flight is finished, so finished offsets need no memory
of their own. The caller decides what becomes of a message whose claim has ended: it is shown again, or finished once a
copy of it is elsewhere. A retry queue is a state into which the caller `place_copy`s copies.
"""

import heapq

from ternmq_broker.delivery.claims import Claim, ClaimsSnapshot, QueueClaims


class QueueConsumption(QueueClaims):
    """One group's consumption of one queue."""

    __slots__ = ("_ready", "_ready_claims")

    def __init__(self, cursor: int, generation: int = 0) -> None:
        super().__init__(cursor, generation)
        self._ready: list[int] = []
        self._ready_claims: dict[int, Claim] = {}

    @property
    def committed_offset(self) -> int:
        return min(self._claims, default=self.cursor)

    @property
    def in_flight(self) -> int:
        return len(self._claims)

    @property
    def handed_out_count(self) -> int:
        """How many of those in flight a consumer has, or are being moved elsewhere: all but those that are ready."""
        return len(self._claims) - len(self._ready_claims)

    @property
    def ready_count(self) -> int:
        """How many messages can be handed out again now."""
        return len(self._ready_claims)

    def has_claim(self, offset: int) -> bool:
        """Whether the message at that offset is in flight."""
        return offset in self._claims

    def is_held(self, offset: int, now_ms: int) -> bool:
        claim = self._claims.get(offset)
        if claim is None or offset in self._ready_claims:
            return False
        return claim.generation > 0 and now_ms < claim.deadline_ms

    # --- handing out

    def ready_offsets(self, limit: int) -> list[tuple[int, int]]:
        """Return the lowest offsets that wait for another delivery, as (offset, number of that attempt); they stay
        ready.
        """
        found: list[tuple[int, int]] = []
        while self._ready and len(found) < limit:
            offset = heapq.heappop(self._ready)
            claim = self._ready_claims.get(offset)
            # The heap has an offset twice if it became ready twice; both entries come out one after the other.
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
        if self._ready_claims:
            for offset in offsets:
                self._ready_claims.pop(offset, None)
        self._claim_offsets(offsets, claim)
        self.cursor = max(self.cursor, offsets[-1] + 1)
        return claim

    def skip_to(self, offset: int) -> None:
        """Finish everything from `cursor` to before `offset` unread: filtered out, lost, or removed by retention."""
        self.cursor = max(self.cursor, offset)

    def reset_to(self, offset: int) -> None:
        """Continue at `offset`, wherever that is; earlier claims are void."""
        self.cursor = offset
        self._claims.clear()
        self._ready_claims.clear()
        self._ready.clear()
        self._deadlines.clear()
        self._needs_snapshot = True

    def finish_below(self, offset: int) -> None:
        """Finish everything that is in flight below the offset."""
        for each in [claimed for claimed in self._claims if claimed < offset]:
            self.finish_offset(each)

    # --- again

    def take_ended(self, now_ms: int) -> list[tuple[int, int]]:
        """Return the offsets whose claims have ended, with the attempts so far, once each; their handles settle nothing
        more.

        The caller must `show_again` or `finish` each; after a restart in between they are returned again. A released
        offset is ready already, and stays so.
        """
        ready = self._ready_claims
        ended = [(offset, claim.attempt) for offset, claim in self._take_ended(now_ms) if offset not in ready]
        for offset, attempt in ended:
            self._remember_attempts(offset, attempt)
        return ended

    def show_again(self, offset: int) -> None:
        """Let an offset whose claim has ended be handed out again."""
        self._make_ready(offset, self._claims[offset])

    def place_copy(self, offset: int, attempts: int) -> None:
        """Add a message that was delivered so often elsewhere, and let it be handed out again."""
        self._remember_attempts(offset, attempts)
        self.cursor = max(self.cursor, offset + 1)
        self.show_again(offset)

    def set_aside(self, offset: int) -> None:
        """End the claim of a message that is being moved elsewhere: no consumer can have or settle it meanwhile."""
        self._ready_claims.pop(offset, None)
        self._remember_attempts(offset, self._claims[offset].attempt)

    def _remember_attempts(self, offset: int, attempts: int) -> None:
        self._claims[offset] = Claim(attempts, 0, 0)
        self._ready_claims.pop(offset, None)
        self._touched.add(offset)

    def _make_ready(self, offset: int, claim: Claim) -> None:
        self._ready_claims[offset] = claim
        heapq.heappush(self._ready, offset)

    def rebase_claims(self, by_ms: int) -> None:
        super().rebase_claims(by_ms)
        # A ready offset must have the same claim object in both tables.
        self._ready_claims = {offset: self._claims[offset] for offset in self._ready_claims}

    # --- hooks of `QueueClaims`

    def _on_finished(self, offset: int) -> None:
        self._ready_claims.pop(offset, None)

    def _on_reclaimed(self, offset: int) -> None:
        self._ready_claims.pop(offset, None)

    def _on_released(self, offset: int, claim: Claim) -> None:
        self._make_ready(offset, claim)

    # --- restart

    @classmethod
    def restore_state(cls, snapshot: ClaimsSnapshot, *, end: int) -> "QueueConsumption":
        """Continue from a snapshot in a queue that ends at `end`, which a power cut may have moved back.

        `take_ended` returns claims that had ended again.
        """
        consumption = cls(min(snapshot.cursor, end))
        consumption._restore_claims(snapshot, end, consumption._claims)
        return consumption
