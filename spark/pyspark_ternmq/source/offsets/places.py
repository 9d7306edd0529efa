"""The start and end of a read: the options, and the offsets that they mean in each queue.

Offsets of all queues are `{topic: {"broker/queue id": offset}}`, in options, in checkpoints and in Spark's own reports.
Beside the topics may stand `"@identities": {topic: identity}`, as in what is copied out of a checkpoint: it says which
topics the offsets are of (`position.py`). Times of all queues are the same with milliseconds since 1970 in place of
offsets. Of a topic on one broker the queue id alone will do, as with Kafka's partitions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias, cast

from pyspark_ternmq.options import OptionReader, WrongOption
from ternmq.connections.route import RouteQueue
from ternmq.pull.offset_reader import OffsetReader

Offsets: TypeAlias = dict[str, dict[str, int]]
Place: TypeAlias = Literal["earliest", "latest"] | datetime
QueuesByTopic: TypeAlias = Mapping[str, Mapping[str, RouteQueue]]
Identities: TypeAlias = Mapping[str, str]

IDENTITIES = "@identities"

# What Kafka's source writes for them in JSON.
EARLIEST, LATEST = -2, -1
_MAX = 2**63
_PLACES: dict[int, Place] = {EARLIEST: "earliest", LATEST: "latest"}


@dataclass(frozen=True, slots=True)
class ReadPlaces:
    """One place for all queues, or an offset for each (`each`, in which -2 and -1 stand for places), or a time for
    each (`times`, in milliseconds since 1970).

    `identities` are those of the topics that the offsets were of, as far as the option says so. `needs_match`: a time
    at or after which a queue has no message is an error.
    """

    place: Place = "earliest"
    each: Offsets | None = field(default=None)
    times: Offsets | None = field(default=None)
    needs_match: bool = False
    option: str = ""
    identities: Identities = field(default_factory=dict)

    def offset_named(self, topic: str, name: str) -> int | None:
        """The offset that the option names for a queue; None where it names a place."""
        offset = -1 if self.each is None else self.each[topic][name]
        return None if offset in _PLACES else offset

    def name_queues(self, queues: QueuesByTopic) -> "ReadPlaces":
        """Return the places with whole names of queues that are numbers alone. Raises WrongOption for unknown
        queues."""
        if self.each is not None:
            return replace(self, each=self._named_offsets(self.each, queues))
        return self if self.times is None else replace(self, times=self._named_offsets(self.times, queues))

    @property
    def is_moving(self) -> bool:
        """Whether it is elsewhere whenever messages come."""
        each = [] if self.each is None else [offset for of_topic in self.each.values() for offset in of_topic.values()]
        return LATEST in each if each else self.times is None and self.place == "latest"

    def check_passed(self, now: datetime) -> None:
        """WrongOption for a time to come, up to which there is nothing to look for."""
        if isinstance(self.place, datetime) and self.place > now:
            raise WrongOption(
                f"option {self.option}={self.place.isoformat()} has not come yet: "
                f"it is {now.isoformat(timespec='seconds')} by this machine's clock"
            )
        now_ms = now.timestamp() * 1000
        for topic, of_topic in (self.times or {}).items():
            for name, time_ms in of_topic.items():
                if time_ms > now_ms:
                    raise WrongOption(
                        f"option {self.option}: {time_ms} of topic {topic}, queue {name} has not come yet: it is "
                        f"{now_ms:.0f} by this machine's clock"
                    )

    def check_identities(self, identities: Identities) -> None:
        """WrongOption if the offsets are of another topic than there is."""
        for topic, identity in identities.items():
            known = self.identities.get(topic, "")
            if known and identity and known != identity:
                raise WrongOption(
                    f"option {self.option}: the offsets of topic {topic} are of an earlier one, which was deleted "
                    f'before this one was created (identity {known}, now {identity}); without "{IDENTITIES}" they '
                    "count all the same"
                )

    def find_offsets(self, reader: OffsetReader, queues: QueuesByTopic, ends: Offsets) -> Offsets:
        """The offset in every queue, of which it is known where they end, by the names of `named`."""
        if self.times is not None:
            return self._offsets_by_time(reader, queues, ends)
        if self.each is None:
            return ends if self.place == "latest" else offsets_at(reader, queues, self.place)
        found: dict[Place, Offsets] = {
            "earliest": offsets_at(reader, self._of_place(EARLIEST, queues), "earliest"),
            "latest": ends,
        }
        return {
            topic: {name: _resolve_offset(self.each[topic][name], found, topic, name) for name in of_topic}
            for topic, of_topic in queues.items()
        }

    def _of_place(self, number: int, queues: QueuesByTopic) -> QueuesByTopic:
        assert self.each is not None
        wanted = {
            topic: {name: queue for name, queue in of_topic.items() if self.each[topic][name] == number}
            for topic, of_topic in queues.items()
        }
        return {topic: of_topic for topic, of_topic in wanted.items() if of_topic}

    def _offsets_by_time(self, reader: OffsetReader, queues: QueuesByTopic, ends: Offsets) -> Offsets:
        assert self.times is not None
        offsets: Offsets = {topic: {} for topic in queues}
        for time_ms in sorted({time_ms for of_topic in self.times.values() for time_ms in of_topic.values()}):
            of_time = {
                topic: {name: queue for name, queue in of_topic.items() if self.times[topic][name] == time_ms}
                for topic, of_topic in queues.items()
            }
            for topic, found in offsets_at(reader, of_time, _time_of(self.option, time_ms)).items():
                offsets[topic] |= found
        for topic, of_topic in offsets.items() if self.needs_match else ():
            for name, offset in of_topic.items():
                if offset >= ends[topic][name]:
                    raise WrongOption(
                        f"option {self.option}: topic {topic}, queue {name} has no message at or after "
                        f"{self.times[topic][name]}; to begin at its end set the option {self.option}Strategy to latest"
                    )
        return offsets

    def _named_offsets(self, given: Offsets, queues: QueuesByTopic) -> Offsets:
        for topic in given.keys() ^ queues.keys():
            problem = "is not subscribed to" if topic in given else "is missing"
            raise WrongOption(
                f"option {self.option}: topic {topic} {problem}; give offsets of all topics, of no others"
            )
        named = {topic: {whole_name(name, queues[topic]): at for name, at in given[topic].items()} for topic in queues}
        for topic, of_topic in queues.items():
            for name in named[topic].keys() ^ of_topic.keys():
                problem = "does not exist" if name in named[topic] else "is missing"
                hint = "" if self.each is None else " (-2 is the earliest offset, -1 the latest)"
                raise WrongOption(
                    f"option {self.option}: queue {name!r} of topic {topic} {problem}; "
                    f"there are {', '.join(sorted(of_topic))}{hint}"
                )
        return named


def _time_of(option: str, time_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise WrongOption(f"option {option}: {time_ms} is no time in milliseconds since 1970") from None


def whole_name(name: str, queues: Mapping[str, RouteQueue]) -> str:
    """`broker-0/3` for `3`, of a topic whose queues are on one broker."""
    brokers = {queue.broker for queue in queues.values()}
    return f"{next(iter(brokers))}/{name}" if name.isdigit() and len(brokers) == 1 else name


def offsets_at(reader: OffsetReader, queues: QueuesByTopic, place: Place) -> Offsets:
    """The offset of one place in every queue; the requests run at the same time."""
    flat = [(topic, name, queue) for topic, of_topic in queues.items() for name, queue in of_topic.items()]
    found = reader.offsets([queue for _, _, queue in flat], place)
    offsets: Offsets = {topic: {} for topic in queues}
    for (topic, name, _), offset in zip(flat, found, strict=True):
        offsets[topic][name] = offset
    return offsets


def starting_places(reader: OptionReader, default: Literal["earliest", "latest"], *, stream: bool) -> ReadPlaces:
    """Return where to begin; a stream that has a checkpoint continues from there instead."""
    return _read_places(reader, "starting", default, allowed=("earliest", "latest") if stream else ("earliest",))


def ending_places(reader: OptionReader) -> ReadPlaces:
    return _read_places(reader, "ending", "latest", allowed=("latest",))


def _read_places(
    reader: OptionReader, side: str, default: Literal["earliest", "latest"], *, allowed: tuple[str, ...]
) -> ReadPlaces:
    offsets, time = reader.read_text(f"{side}Offsets"), reader.read_text(f"{side}Timestamp")
    by_time = reader.read_text(f"{side}OffsetsByTimestamp")
    options = (f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp")
    given = [name for name, value in zip(options, (offsets, time, by_time), strict=True) if value is not None]
    if len(given) > 1:
        raise WrongOption(f"options {' and '.join(given)} exclude each other")
    strategy = reader.read_text("startingOffsetsByTimestampStrategy") if side == "starting" else None
    if strategy is not None and by_time is None:
        raise WrongOption("option startingOffsetsByTimestampStrategy means nothing without startingOffsetsByTimestamp")
    if by_time is not None:
        option = f"{side}OffsetsByTimestamp"
        times, identities = _parsed_offsets(option, by_time, least=0)
        needs_match = side == "starting" and (
            reader.read_choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "error"
        )
        return ReadPlaces(times=times, option=option, identities=identities, needs_match=needs_match)
    if time is not None:
        return ReadPlaces(parsed_time(f"{side}Timestamp", time), option=f"{side}Timestamp")
    if offsets is None:
        return ReadPlaces(default)
    if offsets.startswith("{"):
        each, identities = _parsed_offsets(f"{side}Offsets", offsets)
        return ReadPlaces(each=each, option=f"{side}Offsets", identities=identities)
    if offsets.lower() in allowed:
        return ReadPlaces(cast("Place", offsets.lower()))
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


def _parsed_offsets(option: str, text: str, *, least: int = EARLIEST) -> tuple[Offsets, Identities]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongOption(f"option {option} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise WrongOption(f"option {option} is not an object of topics and queues")
    identities = content.pop(IDENTITIES, {})
    if not isinstance(identities, dict) or not all(isinstance(each, str) for each in identities.values()):
        raise WrongOption(f"option {option}: the value of {IDENTITIES} is not an object of topics and identities")
    each: Offsets = {}
    for topic, of_topic in content.items():
        if not isinstance(of_topic, dict):
            raise WrongOption(f"option {option}: the value of topic {topic} is not an object of queues")
        each[topic] = {}
        for name, offset in of_topic.items():
            if not isinstance(offset, int) or isinstance(offset, bool) or not least <= offset < _MAX:
                what = "offset" if least < 0 else "time in milliseconds since 1970"
                raise WrongOption(f"option {option}: {offset!r} is no {what} (topic {topic}, queue {name!r})")
            each[topic][name] = offset
    return each, identities


def _resolve_offset(offset: int, found: Mapping[Place, Offsets], topic: str, name: str) -> int:
    place = _PLACES.get(offset)
    return offset if place is None else found[place][topic][name]
