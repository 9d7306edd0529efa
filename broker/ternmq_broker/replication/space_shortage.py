"""The decision of a leader whose disk has no room for messages: whether another replica should lead, and which.

Target      A replica that is in sync and reports that its own disk has room, by the rule by which a leader takes
            messages (`disk_room.py`). So no replica gets the leadership that would refuse sends itself, and none gets
            it back before it has room again.
When        The shortage has lasted for a while: retention may end it soon, and a handover is a pause for consumers.
            After a failed handover it waits longer: each try is such a pause.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE_S = 2.0
AFTER_FAILURE_S = 60.0


@dataclass(frozen=True, slots=True)
class SpaceAction:
    """The one decision of a leader in a shortage of disk space: hand over to the replica with the store `target`.

    None: no replica has room, so nothing changes until one has, or this one.
    """

    target: str | None


class SpaceShortage:
    """One replica's disk shortages, over all times that it leads. Times are of one monotonic clock."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._not_before_s = float("-inf")
        self._last_action: SpaceAction | None = None

    def begin_leadership(self) -> None:
        """Begin a leadership: of what was before only a failed handover counts."""
        self._since_s = self._last_action = None

    def space_action(self, now_s: float, *, is_short: bool, with_room: "Mapping[str, int]") -> SpaceAction | None:
        """Return the action, if it is a new one.

        `is_short`: this leader refuses sends for lack of room; `with_room`: the in-sync followers that have room, and
        up to where each has the log.
        """
        if not is_short:
            self._since_s = self._last_action = None
            return None
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s < PATIENCE_S or now_s < self._not_before_s:
            return None
        # The follower with the longest log catches up the soonest.
        action = SpaceAction(max(sorted(with_room), key=with_room.__getitem__, default=None))
        if action == self._last_action:
            return None
        self._last_action = action
        return action

    def note_failure(self, now_s: float) -> None:
        """Note that the replica that was to lead does not."""
        self._not_before_s = now_s + AFTER_FAILURE_S
