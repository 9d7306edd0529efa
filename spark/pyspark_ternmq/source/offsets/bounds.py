"""Checks that the range of a batch exists; pure.

An empty range is no error: an empty topic, a time after the last message, a range whose end is its start. An offset
that no queue has reached is an error, and so is an end below the start: the caller would take 0 rows for an answer.
"""

import logging
from collections.abc import Iterator

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.source.offsets.places import Offsets, ReadPlaces

_log = logging.getLogger(__name__)


def checked_range(
    first: ReadPlaces, last: ReadPlaces, start: Offsets, stop: Offsets, ends: Offsets, *, strict: bool
) -> tuple[Offsets, Offsets]:
    """Return where to start and stop; `ends` are the ends of the queues. A requested range that does not exist raises
    WrongOption if `strict`, else it is logged."""
    for problem in (*find_beyond(first, ends), *find_beyond(last, ends), *_find_reversed(first, last, start, stop)):
        if strict:
            raise WrongOption(f"{problem}. To read what there is set the option failOnDataLoss to false")
        _log.warning("%s; there is less to read, or nothing", problem)
    stopped = {
        topic: {name: min(offset, ends[topic][name]) for name, offset in of_topic.items()}
        for topic, of_topic in stop.items()
    }
    started = {
        topic: {name: min(offset, stopped[topic][name]) for name, offset in of_topic.items()}
        for topic, of_topic in start.items()
    }
    return started, stopped


def find_beyond(places: ReadPlaces, ends: Offsets) -> Iterator[str]:
    """Yield a problem for each offset beyond the end of its queue."""
    for topic, of_topic in ends.items():
        for name, end in of_topic.items():
            named = places.offset_named(topic, name)
            if named is not None and named > end:
                yield (
                    f"option {places.option}: offset {named} is not there, topic {topic}, queue {name} ends at {end}: "
                    "the offset is wrong, the topic was created again, or its broker lost messages"
                )


def _find_reversed(first: ReadPlaces, last: ReadPlaces, start: Offsets, stop: Offsets) -> Iterator[str]:
    for topic, of_topic in stop.items():
        for name, offset in of_topic.items():
            begin = start[topic][name]
            if last.offset_named(topic, name) is None or begin <= offset:
                continue
            gone = "" if first.offset_named(topic, name) is not None else ", as what was before is not there any more"
            yield (
                f"option {last.option}: topic {topic}, queue {name} is to be read up to {offset}, and from {begin} on"
                f"{gone}"
            )
