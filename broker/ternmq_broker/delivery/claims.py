"""Claims: which offsets of one queue are in flight for one group, and until when.

A claim is the right of one consumer to settle a message. It is in force until its deadline; an ended claim stays until
its owner, the group's consumption of that queue, decides what becomes of the message. Times are milliseconds since the
epoch. When the clock is set, claims keep the time that they had left (`rebase_claims`); a receipt handle keeps the end
with which it was issued.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

from ternmq_common.shard.model import SettleOutcome

# A snapshot may be older than the last claims; the numbers that those may have had are left out after a restart.
GENERATIONS_LEFT_OUT: Final = 1_000_000
# A queue never gives out claims faster than this, so the numbers of an earlier state are below `first_generation`.
_GENERATIONS_PER_MS: Final = 1000
# For so many settings of the clock the claims before it are remembered; that matters until their time has passed.
_REBASES_KEPT: Final = 32


def first_generation(now_ms: int) -> int:
    """Return the generation from which a state that begins now counts its claims.

    A group that was deleted and created again with the same name reads the same offsets: a receipt handle of the
    deleted one must not settle a message of the new one. The deleted one counted from an earlier time.
    """
    return now_ms * _GENERATIONS_PER_MS


class Claim(NamedTuple):
    """The right of one consumer to settle a message: the `attempt`-th delivery, until `deadline_ms`.

    `generation` counts the claims of this queue, from `first_generation`; a claim with 0 belongs to no consumer and
    only has the attempts so far. All messages that are handed out together share one Claim object.
    """

    attempt: int
    generation: int
    deadline_ms: int


UNTOUCHED: Final = Claim(0, 0, 0)
"""The claim of a message that was passed over and never handed out."""


class ClaimHole(NamedTuple):
    """`count` offsets from `first` on that are not finished, under one claim."""

    first: int
    count: int  # type: ignore[assignment]  # hides `tuple.count`, which is not needed
    claim: Claim


@dataclass(frozen=True, slots=True)
class ClaimsSnapshot:
    """A queue's whole state, for a restart: below `cursor` everything is finished except the holes, which ascend."""

    cursor: int
    generation: int
    holes: list[ClaimHole]


@dataclass(frozen=True, slots=True)
class ClaimsDelta:
    """The changes since the last snapshot or delta: the cursor, these holes, and `finished` runs (first, count).

    The offsets that the cursor has passed since then are finished unless a hole says otherwise.
    """

    cursor: int
    generation: int
    holes: list[ClaimHole]
    finished: list[tuple[int, int]]


class QueueClaims(ABC):
    """The claims of one group in one queue. Subclasses decide what a settled or ended claim means for other messages.

    Invariants: an offset is under one claim at most; every offset with a claim is below `cursor`.
    """

    __slots__ = (
        "_claims",
        "_deadlines",
        "_generation",
        "_needs_snapshot",
        "_rebases",
        "_recorded_cursor",
        "_touched",
        "cursor",
    )

    def __init__(self, cursor: int, generation: int = 0) -> None:
        """Begin at the offset `cursor`; the first claim has the number after `generation` (`first_generation`)."""
        self.cursor = cursor
        self._generation = generation
        self._claims: dict[int, Claim] = {}
        # (deadline, generation, first offset, end); an entry is out of date unless the offsets still have that claim.
        self._deadlines: list[tuple[int, int, int, int]] = []
        # (generation, milliseconds): the claims up to that one are from before the clock was set by so much.
        self._rebases: list[tuple[int, int]] = []
        self._touched: set[int] = set()
        self._recorded_cursor = 0
        self._needs_snapshot = True

    def continue_generation(self, generation: int) -> None:
        """Number later claims above that generation."""
        self._generation = max(self._generation, generation)

    @property
    def generation(self) -> int:
        """The number of the latest claims."""
        return self._generation

    @property
    def change_mark(self) -> tuple[int, ...]:
        """A value that changes when messages are handed out, skipped or finished."""
        return self.cursor, self._generation, len(self._claims)

    def unread_below(self, offset: int) -> int:
        """Return how many messages below that offset were never handed out, nor passed over."""
        return max(0, offset - self.cursor)

    def finish_offset(self, offset: int) -> None:
        """Finish one offset with any claim; no consumer can have it any more."""
        if self._claims.pop(offset, None) is not None:
            self._touched.add(offset)
            self._on_finished(offset)

    # --- hooks of subclasses

    @abstractmethod
    def _on_finished(self, offset: int) -> None:
        """React to the end of the offset's claim."""

    @abstractmethod
    def _on_reclaimed(self, offset: int) -> None:
        """React to a new claim in force, which replaced the offset's claim, ended or not."""

    @abstractmethod
    def _on_released(self, offset: int, claim: Claim) -> None:
        """Let the offset be handed out again although its claim is in force."""

    def _unfinished_claims(self) -> Iterable[tuple[int, Claim]]:
        """Return all offsets below the cursor that are not finished, in any order."""
        return self._claims.items()

    def _remembered_claim(self, offset: int) -> Claim | None:
        """Return the claim to record for an offset, None when it is finished."""
        return self._claims.get(offset)

    # --- claiming

    def _claim_offsets(self, offsets: list[int], claim: Claim) -> None:
        """Put ascending offsets under the claim."""
        claims = self._claims
        for offset in offsets:
            claims[offset] = claim
        self._touched.update(offsets)
        self._watch_deadline(claim, offsets[0], offsets[-1] + 1)

    # --- settling

    def acknowledge_message(self, offset: int, generation: int, deadline_ms: int, now_ms: int) -> SettleOutcome:
        """Finish a message by its receipt handle; `deadline_ms` is the handle's own, as first issued."""
        claim = self._claims.get(offset)
        if claim is None or claim.generation != generation:
            return SettleOutcome.STALE if now_ms < self.rebased_ms(generation, deadline_ms) else SettleOutcome.EXPIRED
        if now_ms >= claim.deadline_ms:
            return SettleOutcome.EXPIRED
        self.finish_offset(offset)
        return SettleOutcome.DONE

    def change_invisible(
        self, offset: int, generation: int, *, now_ms: int, deadline_ms: int, counts: bool
    ) -> Claim | None:
        """Move the end of a claim and replace its handle; None if the claim is not in force.

        With `counts` false the next delivery has the same attempt number again.
        """
        claim = self.claim_in_force(offset, generation, now_ms)
        if claim is None:
            return None
        self._generation += 1
        changed = Claim(claim.attempt - (not counts), self._generation, deadline_ms)
        self._claim_offsets([offset], changed)
        self._on_reclaimed(offset)
        return changed

    def prolong_claim(self, offset: int, generation: int, *, now_ms: int, deadline_ms: int) -> bool:
        """Move the end of a claim and keep its handle; False if the claim is not in force."""
        claim = self.claim_in_force(offset, generation, now_ms)
        if claim is None:
            return False
        self._claim_offsets([offset], claim._replace(deadline_ms=deadline_ms))
        self._on_reclaimed(offset)
        return True

    def release_message(self, offset: int, generation: int, *, now_ms: int, counts: bool) -> bool:
        """Let other consumers have a message while its handle can still settle it, until another consumer has it.

        With `counts` false its consumer never saw the message, so the attempt is not counted.
        """
        claim = self.claim_in_force(offset, generation, now_ms)
        if claim is None:
            return False
        self._claims[offset] = released = claim._replace(attempt=claim.attempt - (not counts))
        self._touched.add(offset)
        self._on_released(offset, released)
        return True

    def claim_in_force(self, offset: int, generation: int, now_ms: int) -> Claim | None:
        """Return the claim of that generation, while it is in force."""
        claim = self._claims.get(offset)
        in_force = claim is not None and claim.generation == generation and now_ms < claim.deadline_ms
        return claim if in_force else None

    def find_generation(self, offset: int, deadline_ms: int) -> int:
        """Return the generation for a receipt handle that does not tell it: that of the message's claim if that has the
        handle's end, else -1, which no claim has. Two claims of a message have the same end only if the first was given
        back in the millisecond of its creation."""
        claim = self._claims.get(offset)
        if claim is None or not claim.generation:
            return -1
        return claim.generation if claim.deadline_ms == self.rebased_ms(claim.generation, deadline_ms) else -1

    def find_claim(self, offset: int, generation: int) -> Claim | None:
        """Return the claim of that generation, in force or ended, until it is decided what becomes of the message."""
        claim = self._claims.get(offset)
        return claim if claim is not None and claim.generation == generation else None

    def has_claim(self, offset: int) -> bool:
        """Tell whether there is a claim on the message, in force or not."""
        return offset in self._claims

    def unfinished_claim(self, offset: int) -> Claim | None:
        """Return the claim on an offset below the cursor that is not finished, UNTOUCHED if it was never handed out;
        None if it is finished.
        """
        return self._remembered_claim(offset)

    @abstractmethod
    def is_held(self, offset: int, now_ms: int) -> bool:
        """Tell whether a consumer has the message now."""

    def is_finished(self, offset: int) -> bool:
        """Tell whether the message is finished."""
        return offset < self.cursor and self._remembered_claim(offset) is None

    # --- time

    def rebase_claims(self, by_ms: int) -> None:
        """Move all deadlines after the clock was set by so much: every claim keeps the time that it had left."""
        self._rebases = [*self._rebases[1 - _REBASES_KEPT :], (self._generation, by_ms)]
        rebased: dict[Claim, Claim] = {}
        for offset, claim in self._claims.items():
            if claim.generation:
                moved = rebased.get(claim)
                if moved is None:
                    moved = rebased[claim] = claim._replace(deadline_ms=claim.deadline_ms + by_ms)
                self._claims[offset] = moved
        # Without a generation nothing is in force: such offsets only wait for `_take_ended`.
        self._deadlines = [
            (deadline_ms + by_ms if generation else deadline_ms, generation, first, end)
            for deadline_ms, generation, first, end in self._deadlines
        ]
        heapq.heapify(self._deadlines)
        self._needs_snapshot = True

    def rebased_ms(self, generation: int, deadline_ms: int) -> int:
        """Return the end that a handle has, by the clock as it is now; not remembered over a restart."""
        return deadline_ms + sum(by_ms for last, by_ms in self._rebases if generation <= last)

    def _watch_deadline(self, claim: Claim, first: int, end: int) -> None:
        if len(self._deadlines) > 64 + 2 * len(self._claims):
            # Nearly all were settled before their deadlines: drop those entries now.
            self._deadlines = [
                (hole.claim.deadline_ms, hole.claim.generation, hole.first, hole.first + hole.count)
                for hole in to_holes(self._claims.items())
                if hole.claim.generation
            ]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (claim.deadline_ms, claim.generation, first, end))

    def next_deadline_ms(self) -> int | None:
        """Return when the next claim ends unless it is settled or prolonged before; None without claims."""
        while self._deadlines:
            deadline_ms, generation, first, end = self._deadlines[0]
            for offset in range(first, end):
                claim = self._claims.get(offset)
                if claim is not None and claim.generation == generation and claim.deadline_ms == deadline_ms:
                    return deadline_ms
            heapq.heappop(self._deadlines)
        return None

    def _take_ended(self, now_ms: int) -> list[tuple[int, Claim]]:
        """Return the offsets whose claims have ended since the last call, once each."""
        ended: dict[int, Claim] = {}
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, generation, first, end = heapq.heappop(self._deadlines)
            for offset in range(first, end):
                claim = self._claims.get(offset)
                # A claim that was prolonged has the same generation and a later entry of its own.
                if claim is not None and claim.generation == generation and claim.deadline_ms <= now_ms:
                    ended[offset] = claim
        return sorted(ended.items())

    # --- restart

    def record_changes(self, *, whole: bool) -> ClaimsSnapshot | ClaimsDelta:
        """Return what the journal must record: everything, or the changes since the last call when they suffice."""
        if whole or self._needs_snapshot:
            recorded: ClaimsSnapshot | ClaimsDelta = self.take_snapshot()
        else:
            unacknowledged = [(offset, self._remembered_claim(offset)) for offset in self._touched]
            recorded = ClaimsDelta(
                self.cursor,
                self._generation,
                to_holes((offset, claim) for offset, claim in unacknowledged if claim is not None),
                _offset_runs(
                    offset for offset, claim in unacknowledged if claim is None and offset < self._recorded_cursor
                ),
            )
        self._needs_snapshot = False
        self._recorded_cursor = self.cursor
        self._touched.clear()
        return recorded

    def require_snapshot(self) -> None:
        """Have the next `record_changes` return everything, since the journal could not be written."""
        self._needs_snapshot = True

    def take_snapshot(self) -> ClaimsSnapshot:
        """Return the whole state; claims in force keep their handles over a restart."""
        return ClaimsSnapshot(self.cursor, self._generation, to_holes(self._unfinished_claims()))

    def _restore_claims(self, snapshot: ClaimsSnapshot, end: int, unfinished: MutableMapping[int, Claim]) -> None:
        """Restore the state of a snapshot for the offsets below `end`; unfinished ones are added to `unfinished`,
        ascending.
        """
        self._generation = snapshot.generation + GENERATIONS_LEFT_OUT
        deadlines = self._deadlines
        for first, count, claim in snapshot.holes:
            hole_end = first + count
            if hole_end > end:
                hole_end = end
                if first >= end:
                    break
            if count == 1:
                unfinished[first] = claim
            else:
                unfinished.update(dict.fromkeys(range(first, hole_end), claim))
            deadlines.append((claim.deadline_ms, claim.generation, first, hole_end))
        heapq.heapify(self._deadlines)


def to_holes(unfinished: Iterable[tuple[int, Claim]]) -> list[ClaimHole]:
    """Return adjacent offsets under equal claims as one hole each, ascending."""
    holes: list[ClaimHole] = []
    first = following = 0
    current: Claim | None = None
    for offset, claim in sorted(unfinished, key=_offset_of):
        # Mostly it is the same object, and comparing tuples takes longer than everything else here.
        if offset != following or (claim is not current and claim != current):
            if current is not None:
                holes.append(ClaimHole(first, following - first, current))
            first, current = offset, claim
        following = offset + 1
    if current is not None:
        holes.append(ClaimHole(first, following - first, current))
    return holes


_offset_of = itemgetter(0)


def _offset_runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    return [(hole.first, hole.count) for hole in to_holes((offset, UNTOUCHED) for offset in offsets)]
