"""The numbers by which records and ids name the place of a message, in the field of its log offset.

Number   5 bits of the broker's name, then 48 bits of offset. So any proxy finds the message, and a client gives it back
         as it is. Clients in JavaScript keep 53 bits of it.
"""

import functools
from collections.abc import Sequence
from typing import Final

from ternmq_common.binary.checksum import crc32

_OFFSET_BITS: Final = 48
OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_NAMES: Final = 31


def first_number(broker: str) -> int:
    """Return the number of the first place in a broker's log."""
    return _number_of_name(broker) << _OFFSET_BITS


def number_of_place(broker: str, log_offset: int) -> int:
    """Return the number of a place in a broker's log."""
    return first_number(broker) | log_offset & OFFSET_MASK


def find_place(number: int, brokers: Sequence[str]) -> list[tuple[str, int]]:
    """Return the brokers, of these, that the number may name, with the offset in their logs: one, unless two names have
    the same number."""
    return [(broker, number & OFFSET_MASK) for broker in brokers if _number_of_name(broker) == number >> _OFFSET_BITS]


@functools.lru_cache(maxsize=1024)
def _number_of_name(broker: str) -> int:
    """Return the number that a name ends with, or a hash, within a few bits; never 0, which is no place."""
    digits = broker[len(broker.rstrip("0123456789")) :]
    return (int(digits[-9:]) if digits else crc32(broker.encode())) % _NAMES + 1
