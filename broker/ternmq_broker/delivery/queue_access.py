"""Which member of a pull-consuming group may read one message queue, in a group that asked for one reader at a time.

Without this, a rebalance gives messages to two members: the next reader starts at the acknowledged offset while the
last one still works on what is behind it. The rules (`pulling.md, Queue lock`):

Owner       the member that pulled first. It reads where it asks, nobody else is granted a pull.
Start       a new owner starts at the acknowledged offset, whatever it asked for: it must neither repeat what the last
            owner finished nor pass over what that one left. If it asks the same again the answer got lost, and it is
            sent there again; until it asks for something else or commits, it can't move the offset back either.
Quiet       another member becomes owner when it was seen QUIET_SIGHTINGS times in a row, SIGHTING_INTERVAL_MS apart at
            least, that all that was handed out is acknowledged. Handing out and moving the offset restart the count; an
            owner that pulls and finds nothing doesn't, as it has nothing to lose.
Silence     another member becomes owner when the owner neither pulled nor committed for the hold timeout. What it had
            is handed out again. So the timeout must be longer than a poll may take and than members commit apart.
Deposed     commits of one that lost the queue are refused, and so are messages that were read for a pull of it: a
            pull may last, so `handed_out` is asked in the moment in which they leave.

Times are milliseconds of one clock that doesn't go back. Nothing is kept over a restart of the broker: then the member
that asks first is the owner.
"""

from dataclasses import dataclass

QUIET_SIGHTINGS = 3
SIGHTING_INTERVAL_MS = 100


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to read from `offset` on; `term` tells this ownership from earlier ones, also of the same client."""

    offset: int
    term: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Another client owns the queue; ask again at `until_ms`, which is in the future, or when told to."""

    until_ms: int


class QueueAccess:
    """The reader of one queue in one group.

    Invariants: every message that the owner was handed is below `delivered`, which is None before the first; only the
    owner's last term is in force.
    """

    __slots__ = (
        "_hold_timeout_ms",
        "_misdirected",
        "_moved_away",
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
        self.hold_for(hold_timeout_ms)
        self._term = 0
        self._seen_ms = 0
        self._sightings = 0
        self._sighted_ms = 0
        self._misdirected: int | None = None  # what the owner asked for when it was sent elsewhere
        self._moved_away: str | None = None  # the owner when an operator moved the group

    def hold_for(self, hold_timeout_ms: int) -> None:
        """From now on an owner that is silent for so long loses the queue."""
        assert hold_timeout_ms > 0
        self._hold_timeout_ms = hold_timeout_ms

    # --- reading

    def request(self, client: str, offset: int, now_ms: int) -> Grant | Wait:
        """A client wants to pull at `offset`; a grant may send it to another one."""
        if client == self.owner:
            return self._grant_owner(offset, now_ms)
        if self.owner is not None:
            self._sight(now_ms)
            if self._sightings < QUIET_SIGHTINGS and now_ms < self._hold_end_ms:
                return Wait(self.next_check_ms(now_ms))
        return self._take(client, offset, now_ms)

    def handed_out(self, grant: Grant, next_offset: int, now_ms: int) -> bool:
        """The messages before `next_offset` leave for the owner; if False, they must not: it lost the queue meanwhile.

        Not for an answer without messages; and `next_offset` is one more than the last message's, without what a
        filter passed over behind it. Else the owner might never acknowledge as far as that.
        """
        if self.owner is None or grant.term != self._term:
            return False
        self.delivered = max(self.delivered or 0, next_offset)
        self._seen_ms = now_ms
        self._sightings = 0
        return True

    def next_check_ms(self, now_ms: int) -> int:
        """When a waiting client should ask again: when the next sighting counts, or when the owner is silent too long.

        Acknowledging, releasing and resetting can bring it forward, so whoever does that looks again for those waiting.
        """
        if self.owner is None:
            return now_ms
        if not self._is_quiet:
            return max(now_ms, self._hold_end_ms)
        sighting_ms = self._sighted_ms + SIGHTING_INTERVAL_MS if self._sightings else now_ms
        return max(now_ms, min(sighting_ms, self._hold_end_ms))

    def _grant_owner(self, offset: int, now_ms: int) -> Grant:
        self._seen_ms = now_ms
        # At `delivered` it isn't the old request again: it reads on behind what it was handed.
        if offset == self._misdirected != self.delivered:
            return Grant(self.acknowledged, self._term)
        self._misdirected = None
        return Grant(offset, self._term)

    def _sight(self, now_ms: int) -> None:
        is_early = self._sightings and now_ms < self._sighted_ms + SIGHTING_INTERVAL_MS
        if self._is_quiet and not is_early:
            self._sightings += 1
            self._sighted_ms = now_ms

    def _take(self, client: str, offset: int, now_ms: int) -> Grant:
        self.owner = client
        self.delivered = None
        self._term += 1
        self._seen_ms = now_ms
        self._sightings = 0
        self._misdirected = None if offset == self.acknowledged else offset
        self._moved_away = None
        return Grant(self.acknowledged, self._term)

    @property
    def _is_quiet(self) -> bool:
        # Also beyond: a filter passes over messages that the owner was never handed.
        return self.delivered is None or self.acknowledged >= self.delivered

    @property
    def _hold_end_ms(self) -> int:
        return self._seen_ms + self._hold_timeout_ms

    # --- settling

    def acknowledge(self, client: str, offset: int, now_ms: int) -> bool:
        """The group's offset as a client sets it; False, and nothing changes, if that isn't the client's to say.

        It is the owner's, or anyone's if there is none. An owner that goes back still has what it was handed before.
        """
        if client != self.owner and (self.owner is not None or client == self._moved_away):
            return False
        # One that hasn't read where it was sent commits what it believed before: it would undo the last owner's work.
        if client == self.owner and self._misdirected is not None and offset < self.acknowledged:
            return False
        self._seen_ms = now_ms
        self._misdirected = None
        if offset != self.acknowledged:
            self._sightings = 0
        self.acknowledged = offset
        return True

    def release(self, client: str) -> None:
        """The client said good-bye or its life ended: what it owned is free, and what it had is handed out again."""
        if client == self.owner:
            self.owner = None

    def reset(self, offset: int) -> None:
        """An operator moved the group: the queue is free.

        The owner's commits are about what it read before, and are refused until it pulls again.
        """
        self._moved_away = self.owner or self._moved_away
        self.owner = None
        self.acknowledged = offset
