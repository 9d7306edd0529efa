"""Queue locks: which member of a pull-consuming group may read one message queue, in a group with one reader at a time.

Without a lock, a rebalance gives messages to two members: the next reader starts at the acknowledged offset while the
last one still works on what is behind it. The rules (`pulling.md, Queue lock`):

Owner       The member that pulled first. It reads where it asks; no other member is granted a pull.
Start       A new owner starts at the acknowledged offset, not at its requested offset: it must neither repeat what the
            last owner finished nor skip what that one left. If it requests the same offset again the answer was lost,
            and it is sent there again; until it requests another offset or commits, it can't move the offset back.
Quiet       Another member becomes owner when it was seen QUIET_SIGHTINGS times in a row, at least SIGHTING_INTERVAL_MS
            apart, that everything handed out is acknowledged. Handing out and moving the offset restart the count; an
            owner that pulls and finds nothing doesn't, as it has nothing to lose.
Silence     Another member becomes owner when the owner neither pulled nor committed for the hold timeout. Messages that
            it had is handed out again. So the timeout must be longer than a poll may take and than members commit
            apart.
Deposed     Commits of a member that lost the queue are refused, and so are messages that were read for its pull: a pull
            may take long, so `confirm_handed_out` is called when they leave.

Times are milliseconds of one clock that doesn't go back. Nothing is kept over a restart of the broker: then the member
that asks first is the owner.
"""

from dataclasses import dataclass
from typing import Final

QUIET_SIGHTINGS: Final = 3
SIGHTING_INTERVAL_MS: Final = 100


@dataclass(frozen=True, slots=True)
class ReadGrant:
    """The right to read from `offset` on; `term` tells this ownership from earlier ones, also of the same client."""

    offset: int
    term: int


@dataclass(frozen=True, slots=True)
class ReadWait:
    """Another client owns the queue; ask again at `until_ms`, which is in the future, or when notified."""

    until_ms: int


class QueueLock:
    """The queue lock of one group in one queue.

    Invariants: every message that the owner was handed is below `delivered`, which is None before the first; only the
    owner's last term is in force.
    """

    __slots__ = (
        "_hold_timeout_ms",
        "_misdirected",
        "_moved_away",
        "_owned_since_ms",
        "_seen_ms",
        "_sighted_ms",
        "_sightings",
        "_term",
        "acknowledged",
        "delivered",
        "owner",
    )

    def __init__(self, acknowledged: int, hold_timeout_ms: int) -> None:
        self.owner: str | None = None
        self.acknowledged = acknowledged
        self.delivered: int | None = None
        self.set_hold_timeout(hold_timeout_ms)
        self._term = 0
        self._seen_ms = 0
        self._owned_since_ms = 0
        self._sightings = 0
        self._sighted_ms = 0
        self._misdirected: int | None = None  # the offset that the owner requested when it was sent to another one
        self._moved_away: str | None = None  # the owner when an operator moved the group

    def set_hold_timeout(self, hold_timeout_ms: int) -> None:
        """Set the time after which a silent owner loses the queue."""
        assert hold_timeout_ms > 0
        self._hold_timeout_ms = hold_timeout_ms

    # --- reading

    def request_read(self, client: str, offset: int, now_ms: int) -> ReadGrant | ReadWait:
        """Handle a client's request to pull at `offset`; a grant may send it to another one."""
        if client == self.owner:
            return self._grant_owner(offset, now_ms)
        if self.owner is not None:
            self._count_sighting(now_ms)
            if self._sightings < QUIET_SIGHTINGS and now_ms < self._hold_end_ms:
                return ReadWait(self.next_check_ms(now_ms))
        return self._set_owner(client, offset, now_ms)

    def confirm_handed_out(self, grant: ReadGrant, next_offset: int, now_ms: int) -> bool:
        """Confirm that the messages before `next_offset` leave for the owner; False: they must not, as it lost the
        queue meanwhile.

        Not for an answer without messages. `next_offset` is one more than the last message's, without what a filter
        skipped behind it: else the owner might never acknowledge as far as that.
        """
        if self.owner is None or grant.term != self._term:
            return False
        self.delivered = max(self.delivered or 0, next_offset)
        self._seen_ms = now_ms
        self._sightings = 0
        return True

    def next_check_ms(self, now_ms: int) -> int:
        """Return when a waiting client should ask again: when the next sighting counts, or when the owner is silent too
        long.

        Acknowledging, releasing and resetting can bring it forward, so their callers check again for waiting clients.
        """
        if self.owner is None:
            return now_ms
        if not self._is_quiet:
            return max(now_ms, self._hold_end_ms)
        sighting_ms = self._sighted_ms + SIGHTING_INTERVAL_MS if self._sightings else now_ms
        return max(now_ms, min(sighting_ms, self._hold_end_ms))

    def _grant_owner(self, offset: int, now_ms: int) -> ReadGrant:
        self._seen_ms = now_ms
        # At `delivered` it is no repeated request: the owner reads on behind what it was handed.
        if offset == self._misdirected != self.delivered:
            return ReadGrant(self.acknowledged, self._term)
        self._misdirected = None
        return ReadGrant(offset, self._term)

    def _count_sighting(self, now_ms: int) -> None:
        is_early = self._sightings and now_ms < self._sighted_ms + SIGHTING_INTERVAL_MS
        if self._is_quiet and not is_early:
            self._sightings += 1
            self._sighted_ms = now_ms

    def _set_owner(self, client: str, offset: int, now_ms: int) -> ReadGrant:
        self.owner = client
        self.delivered = None
        self._term += 1
        self._seen_ms = self._owned_since_ms = now_ms
        self._sightings = 0
        self._misdirected = None if offset == self.acknowledged else offset
        self._moved_away = None
        return ReadGrant(self.acknowledged, self._term)

    @property
    def owned_ms(self) -> tuple[int, int]:
        """Since when the owner has the queue, and when it loses it if it is silent from now on."""
        return self._owned_since_ms, self._hold_end_ms

    @property
    def _is_quiet(self) -> bool:
        # It may be beyond: a filter skips messages that the owner was never handed.
        return self.delivered is None or self.acknowledged >= self.delivered

    @property
    def _hold_end_ms(self) -> int:
        return self._seen_ms + self._hold_timeout_ms

    # --- settling

    def commit_offset(self, client: str, offset: int, now_ms: int) -> bool:
        """Set the group's offset for a client; False, and nothing changes, if the client may not.

        The owner may, or any client if there is no owner. An owner that goes back still has what it was handed before.
        """
        if client != self.owner and (self.owner is not None or client == self._moved_away):
            return False
        # An owner that hasn't read where it was sent commits an old offset: it would undo the last owner's work.
        if client == self.owner and self._misdirected is not None and offset < self.acknowledged:
            return False
        self._seen_ms = now_ms
        self._misdirected = None
        if offset != self.acknowledged:
            self._sightings = 0
        self.acknowledged = offset
        return True

    def release_client(self, client: str) -> None:
        """Free the queue if the client owned it, after it left or its lease ended; what it had is handed out again."""
        if client == self.owner:
            self.owner = None

    def reset_to(self, offset: int) -> None:
        """Move the group for an operator, and free the queue.

        The owner's commits are about what it read before, and are refused until it pulls again.
        """
        self._moved_away = self.owner or self._moved_away
        self.owner = None
        self.acknowledged = offset
