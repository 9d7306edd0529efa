"""Where a read begins and ends: the options, and the offsets that they mean in each queue.

Offsets of all queues are `{topic: {"broker/queue id": offset}}`, in options, in checkpoints and in Spark's own reports.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeAlias, cast

from pyspark_ternmq.options import OptionReader, WrongOption
from ternmq.offset_reader import OffsetReader
from ternmq.route import Queue

Offsets: TypeAlias = dict[str, dict[str, int]]
Place: TypeAlias = Literal["earliest", "latest"] | datetime
QueuesByTopic: TypeAlias = Mapping[str, Mapping[str, Queue]]

# What Kafka's source writes for them in JSON.
EARLIEST, LATEST = -2, -1
_PLACES: dict[int, Place] = {EARLIEST: "earliest", LATEST: "latest"}


@dataclass(frozen=True, slots=True)
class Places:
    """One place for all queues, or an offset for each (`each`, in which -2 and -1 stand for places)."""

    place: Place = "earliest"
    each: Offsets | None = field(default=None)
    option: str = ""

    def offsets(self, reader: OffsetReader, queues: QueuesByTopic) -> Offsets:
        """The offset in every queue; WrongOption if `each` names others than there are."""
        if self.each is None:
            return offsets_at(reader, queues, self.place)
        self._check(queues)
        asked = {place: self._of_place(number, queues) for number, place in _PLACES.items()}
        found = {place: offsets_at(reader, wanted, place) for place, wanted in asked.items() if wanted}
        return {
            topic: {name: _resolved(self.each[topic][name], found, topic, name) for name in of_topic}
            for topic, of_topic in queues.items()
        }

    def _of_place(self, number: int, queues: QueuesByTopic) -> QueuesByTopic:
        assert self.each is not None
        wanted = {
            topic: {name: queue for name, queue in of_topic.items() if self.each[topic][name] == number}
            for topic, of_topic in queues.items()
        }
        return {topic: of_topic for topic, of_topic in wanted.items() if of_topic}

    def _check(self, queues: QueuesByTopic) -> None:
        assert self.each is not None
        for topic in self.each.keys() ^ queues.keys():
            problem = "is not subscribed to" if topic in self.each else "is missing"
            raise WrongOption(
                f"option {self.option}: topic {topic} {problem}; give offsets of all topics, of no others"
            )
        for topic, of_topic in queues.items():
            for name in self.each[topic].keys() ^ of_topic.keys():
                problem = "does not exist" if name in self.each[topic] else "is missing"
                raise WrongOption(
                    f"option {self.option}: queue {name!r} of topic {topic} {problem}; "
                    f"there are {', '.join(sorted(of_topic))} (-2 is the earliest offset, -1 the latest)"
                )


def offsets_at(reader: OffsetReader, queues: QueuesByTopic, place: Place) -> Offsets:
    """The offset of one place in every queue; all are asked at the same time."""
    flat = [(topic, name, queue) for topic, of_topic in queues.items() for name, queue in of_topic.items()]
    found = reader.offsets([queue for _, _, queue in flat], place)
    offsets: Offsets = {topic: {} for topic in queues}
    for (topic, name, _), offset in zip(flat, found, strict=True):
        offsets[topic][name] = offset
    return offsets


def starting_places(reader: OptionReader, default: Literal["earliest", "latest"], *, stream: bool) -> Places:
    """Where to begin; a stream that has a checkpoint goes on from there, whatever this says."""
    return _places(reader, "starting", default, allowed=("earliest", "latest") if stream else ("earliest",))


def ending_places(reader: OptionReader) -> Places:
    return _places(reader, "ending", "latest", allowed=("latest",))


def _places(
    reader: OptionReader, side: str, default: Literal["earliest", "latest"], *, allowed: tuple[str, ...]
) -> Places:
    offsets, time = reader.text(f"{side}Offsets"), reader.text(f"{side}Timestamp")
    if offsets is not None and time is not None:
        raise WrongOption(f"options {side}Offsets and {side}Timestamp exclude each other")
    if time is not None:
        return Places(parsed_time(f"{side}Timestamp", time))
    if offsets is None:
        return Places(default)
    if offsets.startswith("{"):
        return Places(each=_parsed_offsets(f"{side}Offsets", offsets), option=f"{side}Offsets")
    if offsets.lower() in allowed:
        return Places(cast("Place", offsets.lower()))
    words = " or ".join((*allowed, 'JSON such as {"orders": {"broker/0": 17, "broker/1": -2}}'))
    raise WrongOption(f"option {side}Offsets={offsets!r} is not {words}")


def parsed_time(option: str, text: str) -> datetime:
    """Milliseconds since 1970, or ISO 8601 with a zone."""
    try:
        if text.isascii() and text.isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise WrongOption(
            f"option {option}={text!r} is no time: give milliseconds since 1970, or 2026-01-31T12:00:00Z"
        ) from None
    if time.tzinfo is None:
        raise WrongOption(f"option {option}={text!r} has no time zone; write {text}Z or {text}+01:00")
    return time


def _parsed_offsets(option: str, text: str) -> Offsets:
    try:
        told = json.loads(text)
    except ValueError as error:
        raise WrongOption(f"option {option} is no JSON: {error}") from None
    each: Offsets = {}
    for topic, of_topic in told.items():
        if not isinstance(of_topic, dict):
            raise WrongOption(f"option {option}: what stands for topic {topic} is not an object of queues")
        each[topic] = {}
        for name, offset in of_topic.items():
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST:
                raise WrongOption(f"option {option}: {offset!r} is no offset (topic {topic}, queue {name!r})")
            each[topic][name] = offset
    return each


def _resolved(offset: int, found: Mapping[Place, Offsets], topic: str, name: str) -> int:
    place = _PLACES.get(offset)
    return offset if place is None else found[place][topic][name]
