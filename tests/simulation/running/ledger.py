"""What clients sent, and what became of it: the account that has to come out even.

A message that was acknowledged has its place for good. One that was refused must come to nobody. Of one whose answer
did not come, or was that nobody knows, either may be.
"""

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

Queue = tuple[str, int]


class Fate(enum.Enum):
    """What a producer knows of a message."""

    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(slots=True)
class Sent:
    """One message of the topic `topic`, in a queue which of a lite topic has another one. `message_group` is empty for
    one that has none. It comes to nobody before `due_ms`, nor while it is `hidden`."""

    message_id: str
    topic: str
    queue: Queue
    message_group: str = ""
    due_ms: int = 0
    hidden: bool = False
    fate: Fate = Fate.UNKNOWN
    queue_offset: int | None = None


@dataclass(slots=True)
class _Group:
    """What one consumer group had."""

    delivered: set[str] = field(default_factory=set)
    maybe_settled: set[str] = field(default_factory=set)


class Ledger:
    """`violated` is called with what must not be; `groups` names the consumer groups and their topics."""

    def __init__(self, violated: "Callable[[str], None]", groups: dict[str, str], now_ms: "Callable[[], int]") -> None:
        self._violated = violated
        self._now_ms = now_ms
        self._topic_of = groups
        self.sent: dict[str, Sent] = {}
        self._places: dict[tuple[str, int, int], str] = {}
        self._groups = {name: _Group() for name in groups}

    @property
    def acknowledged(self) -> int:
        """How many were."""
        return sum(each.fate is Fate.ACKNOWLEDGED for each in self.sent.values())

    # --- producers

    def is_sent(self, message: Sent) -> None:
        self.sent[message.message_id] = message

    def was_acknowledged(self, message: Sent, queue_offset: int | None = None) -> None:
        """`queue_offset` is None for what gets its place later."""
        message.fate = Fate.ACKNOWLEDGED
        if queue_offset is not None:
            message.queue_offset = queue_offset
            self._is_at(message, queue_offset)

    def was_refused(self, message: Sent) -> None:
        message.fate = Fate.REFUSED
        for name, group in self._groups.items():
            if message.message_id in group.delivered:
                self._violated(f"{message.message_id} came to {name}, and was refused")

    def _is_at(self, message: Sent, queue_offset: int) -> None:
        """Offset and message belong together for good."""
        place = (*message.queue, queue_offset)
        before = self._places.setdefault(place, message.message_id)
        if before != message.message_id:
            self._violated(f"{message.message_id} and {before} are both at {place}")

    # --- consumers

    def was_delivered(self, group: str, message_id: str, queue_offset: int | None) -> None:
        """`queue_offset` is None for what came from the group's retry topic."""
        message, had = self.sent.get(message_id), self._groups[group]
        if message is None:
            self._violated(f"{message_id} came to {group}, and nobody has sent it")
            return
        if message.fate is Fate.REFUSED:
            self._violated(f"{message_id} came to {group}, and was refused")
        if message.hidden or message.due_ms > self._now_ms():
            self._violated(f"{message_id} came to {group} before its time")
        if queue_offset is not None:
            if message.queue_offset not in (None, queue_offset):
                self._violated(f"{message_id} came from {queue_offset}, and was stored at {message.queue_offset}")
            self._is_at(message, queue_offset)
            message.queue_offset = queue_offset
        had.delivered.add(message_id)

    def check_order(self, group: str, message_ids: list[str]) -> None:
        """A batch of a FIFO group: of each message group nothing comes before what is not settled yet."""
        had = self._groups[group]
        here = set[str]()
        for message_id in message_ids:
            message = self.sent[message_id]
            for other in self.sent.values():
                is_before = (
                    other.message_group == message.message_group
                    and other.queue == message.queue
                    and other.queue_offset is not None
                    and message.queue_offset is not None
                    and other.queue_offset < message.queue_offset
                )
                if is_before and other.message_id not in had.maybe_settled | here:
                    self._violated(f"{message_id} came to {group} before {other.message_id} was settled")
            here.add(message_id)

    def begins_to_settle(self, group: str, message_ids: list[str]) -> None:
        self._groups[group].maybe_settled.update(message_ids)

    def check_progress(self, group: str, queue: Queue, committed: int) -> None:
        """The group has finished everything below that offset: so all of it must have come."""
        had = self._groups[group].delivered
        for message in self.sent.values():
            is_passed = message.queue == queue and message.queue_offset is not None and message.queue_offset < committed
            if is_passed and message.message_id not in had:
                self._violated(f"{group} is at {committed} in {queue}, and {message.message_id} never came to it")

    def missing(self) -> str | None:
        """Which acknowledged message never came to some group; None if there is none."""
        for name, topic in self._topic_of.items():
            had = self._groups[name].delivered
            for message in self.sent.values():
                wanted = message.fate is Fate.ACKNOWLEDGED and message.topic == topic
                if wanted and message.message_id not in had:
                    return f"{message.message_id} at {message.queue} {message.queue_offset} never came to {name}"
        return None
