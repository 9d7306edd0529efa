"""What a leader decides whose disk has no room for messages: whether another replica is to lead, and which.

To whom     one that is in sync and says that its own disk has room, by the rule by which a leader takes messages
            (`disk_room.py`). So none gets the leadership that would refuse sends itself, and none has it back from that
            one before it has room again.
When        the shortage has lasted for a while: retention may end it at once, and a move is a pause for who receives.
            After a move that failed not again for longer: each try is such a pause.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE_S = 2.0
AFTER_FAILURE_S = 60.0


@dataclass(frozen=True, slots=True)
class SpaceAction:
    """What a leader does about a shortage of disk space, decided once in each: have the replica with the store
    `target` lead. None: no replica has room, so nothing changes until one has, or this one."""

    target: str | None


class Shortage:
    """One replica's, over all times that it leads. Times are of one monotonic clock."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._not_before_s = float("-inf")
        self._last_action: SpaceAction | None = None

    def begin(self) -> None:
        """This replica leads: what was before counts for nothing but a move that failed."""
        self._since_s = self._last_action = None

    def space_action(self, now_s: float, *, is_short: bool, with_room: "Mapping[str, int]") -> SpaceAction | None:
        """The action, if it is a new one. `is_short`: this leader refuses sends for lack of room; `with_room`:
        the in-sync followers that have room, and up to where each holds the log."""
        if not is_short:
            self._since_s = self._last_action = None
            return None
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s < PATIENCE_S or now_s < self._not_before_s:
            return None
        # Who holds the most has all the soonest.
        action = SpaceAction(max(sorted(with_room), key=with_room.__getitem__, default=None))
        if action == self._last_action:
            return None
        self._last_action = action
        return action

    def failed(self, now_s: float) -> None:
        """The replica that was to lead does not."""
        self._not_before_s = now_s + AFTER_FAILURE_S
