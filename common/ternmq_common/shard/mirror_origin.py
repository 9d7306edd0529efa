"""The origin of a message that `ternmq mirror` copied: its property `TERNMQ_MIRROR`.

Form   stored / born / host / queue id / offset / broker / topic / clusters
       Times are in milliseconds since the epoch, all of the source; `host` is where the message was born. Clusters are
       separated by ";", the one that it was copied from first, then those before it.

The message is stored with the times and the host of its birth at the source. A client that sends this property claims
what any producer may say of its own messages.
"""

from typing import Final, NamedTuple

from ternmq_common.printable import find_name_problem

MIRROR_PROPERTY: Final = "TERNMQ_MIRROR"
TEXT_CHARACTERS_MAX = 2000
CLUSTERS_MAX = 8
"""A message that came through more clusters is not believed."""
_DIGITS_MAX = 19
_INT64_MAX = 2**63 - 1
_PARTS = 8


class Origin(NamedTuple):
    """The place and times of a message at its source."""

    stored_ms: int
    born_ms: int
    born_host: str
    queue_id: int
    queue_offset: int
    broker: str
    topic: str
    clusters: tuple[str, ...]


def encode_origin(origin: Origin) -> str:
    """Return the value of the property."""
    return "/".join(
        (
            str(origin.stored_ms),
            str(origin.born_ms),
            origin.born_host,
            str(origin.queue_id),
            str(origin.queue_offset),
            origin.broker,
            origin.topic,
            ";".join(origin.clusters),
        )
    )


def parse_origin(text: str) -> Origin | None:
    """Return what a property says, None for one that no mirror wrote."""
    parts = text.split("/")
    if len(parts) != _PARTS or len(text) > TEXT_CHARACTERS_MAX:
        return None
    numbers = [_parse_number(part) for part in (parts[0], parts[1], parts[3], parts[4])]
    clusters = tuple(parts[7].split(";"))
    if (
        any(number < 0 for number in numbers)
        or not all((parts[5], parts[6], *clusters))
        or len(clusters) > CLUSTERS_MAX
    ):
        return None
    if any(find_name_problem(part) for part in (parts[2], parts[5], parts[6], *clusters) if part):
        return None
    return Origin(numbers[0], numbers[1], parts[2], numbers[2], numbers[3], parts[5], parts[6], clusters)


def _parse_number(text: str) -> int:
    """Return a number of at most 63 bits, -1 for anything else."""
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        return -1
    number = int(text)
    return number if number <= _INT64_MAX else -1
