"""What clients did and saw, in the order in which they did: for checks in the manner of Jepsen's (`history_checks.py`).

Send      begins before the call and ends with what became of it:
          OK       it was acknowledged, at that offset if the answer tells the message's own
          FAIL     it is certain that it was not stored
          UNKNOWN  anything else: it may be there or not, once or more often; also a send that never ended
Decision  how the transaction of a message ends is decided before it is sent: whoever is asked later says the same.
Delivery  a consumer was handed out a message, by its group; the same message may come again.
Place     a topic's queue and an offset in it, and the body that was seen there: by a delivery, or by a reading of the
          whole queue by offset, as of a log.

Everything of one history happens in one process, so that what is written down first was known first. Times are of its
clocks: `seconds` of the monotonic one, `_ms` since 1970.
"""

import enum
import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path


class Outcome(enum.StrEnum):
    """What is known of an operation."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Decision(enum.StrEnum):
    """How the transaction of a message ends; NONE: it has none."""

    NONE = ""
    COMMIT = "commit"
    ROLLBACK = "rollback"


@dataclass(slots=True, kw_only=True)
class Send:
    """One message, as its producer knows it."""

    process: str
    topic: str
    body: str
    message_group: str = ""
    due_ms: int = 0
    """Not to be delivered before; 0: at once."""
    decision: Decision = Decision.NONE
    began_s: float = 0.0
    ended_s: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    why: str = ""
    offset: int | None = None
    ending: Outcome = Outcome.UNKNOWN
    """Whether the end of its transaction was acknowledged."""

    @property
    def is_acknowledged(self) -> bool:
        """Whether every group must have it."""
        if self.outcome is not Outcome.OK:
            return False
        match self.decision:
            case Decision.NONE:
                return True
            case Decision.COMMIT:
                return self.ending is Outcome.OK
            case Decision.ROLLBACK:
                return False

    @property
    def may_come(self) -> bool:
        """Whether it may be delivered at all."""
        return self.outcome is not Outcome.FAIL and self.decision is not Decision.ROLLBACK


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a message is, for ever."""

    topic: str
    broker: str
    queue_id: int
    offset: int

    @property
    def queue(self) -> tuple[str, str, int]:
        return self.topic, self.broker, self.queue_id

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue_id}@{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that a consumer was handed out."""

    process: str
    group: str
    topic: str
    body: str
    at_s: float
    at_ms: int
    place: Place | None
    """None if that is not known."""
    attempt: int = 1


@dataclass
class History:
    """Everything that happened; `sends` by their bodies, of which no two are the same."""

    seconds: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    sends: dict[str, Send] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    readings: dict[Place, str] = field(default_factory=dict)
    notes: list[tuple[float, str]] = field(default_factory=list)
    acknowledged_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """When sends to a topic were acknowledged, rising."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    # --- producers

    def begin(
        self, process: str, topic: str, *, message_group: str = "", due_ms: int = 0, decision: Decision = Decision.NONE
    ) -> Send:
        """A producer is about to send a message, with the body that it gets here."""
        return self.began(
            Send(
                process=process,
                topic=topic,
                body=f"{process}-{next(self._numbers)}",
                message_group=message_group,
                due_ms=due_ms,
                decision=decision,
            )
        )

    def began(self, send: Send) -> Send:
        """The same, with a body of the caller's own."""
        assert send.body not in self.sends, send.body
        send.began_s = self.seconds()
        self.sends[send.body] = send
        return send

    def acknowledged(self, send: Send, offset: int | None = None) -> None:
        """It was stored; `offset` is the message's in its queue, if that is known."""
        send.ended_s, send.outcome, send.offset = self.seconds(), Outcome.OK, offset
        self.acknowledged_s[send.topic].append(send.ended_s)

    def failed(self, send: Send, why: str, *, is_certain: bool = False) -> None:
        """There was no acknowledgement; `is_certain`: it was not stored either."""
        send.ended_s, send.why = self.seconds(), why
        send.outcome = Outcome.FAIL if is_certain else Outcome.UNKNOWN

    # --- consumers

    def delivered(
        self, process: str, group: str, topic: str, body: str, *, place: Place | None = None, attempt: int = 1
    ) -> None:
        """A consumer was handed out a message."""
        self.deliveries.append(
            Delivery(
                process=process,
                group=group,
                topic=topic,
                body=body,
                at_s=self.seconds(),
                at_ms=self.now_ms(),
                place=place,
                attempt=attempt,
            )
        )

    def read(self, place: Place, body: str) -> None:
        """A message was read by its offset, at the end."""
        assert place not in self.readings, place
        self.readings[place] = body

    # --- beside

    def note(self, text: str) -> None:
        """What was done to the servers, for those who read the history."""
        self.notes.append((self.seconds(), text))

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged_s.values()))

    def counts(self) -> str:
        """How much happened, by topic."""
        deliveries = Counter(each.topic for each in self.deliveries)
        lines = []
        for topic in dict.fromkeys(send.topic for send in self.sends.values()):
            sends = [send for send in self.sends.values() if send.topic == topic]
            distinct = len({each.body for each in self.deliveries if each.topic == topic})
            lines.append(
                f"{topic}: {len(sends)} sent, {len(self.acknowledged_s[topic])} acknowledged, "
                f"{deliveries[topic]} deliveries of {distinct}"
            )
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """All of it as lines of JSON, in the order of time."""
        lines: list[tuple[float, dict[str, object]]]
        lines = [(send.began_s, {"send": asdict(send)}) for send in self.sends.values()]
        lines += [(each.at_s, {"delivery": asdict(each)}) for each in self.deliveries]
        lines += [(at_s, {"note": text}) for at_s, text in self.notes]
        end_s = self.seconds()
        lines += [(end_s, {"reading": asdict(place), "body": body}) for place, body in self.readings.items()]
        lines.sort(key=lambda line: line[0])
        path.write_text("".join(json.dumps({"s": round(at_s, 4), **line}) + "\n" for at_s, line in lines))
