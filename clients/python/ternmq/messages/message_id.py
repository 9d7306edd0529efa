"""Message ids of version 1: 17 bytes, written as 34 upper-case hexadecimal characters, big endian.

    byte 0       version 1
    bytes 1-6    MAC address, random where there is none
    bytes 7-8    low 16 bits of the process id
    bytes 9-12   seconds since 2021-01-01T00:00:00Z
    bytes 13-16  sequence in the process

The sequence begins anywhere: containers share MAC addresses and process ids, and would repeat each other's ids if each
began at 0 in the same second.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

EPOCH_2021_S = 1_609_459_200
_MAX = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class MessageIdParts:
    """The parts of a message id of version 1."""

    mac: int
    process: int
    seconds: int
    sequence: int


class MessageIdGenerator:
    """Generates ids; one per process. Any thread: `next_ids` holds a lock for an addition."""

    def __init__(
        self, *, mac: int | None = None, first_sequence: int | None = None, now_s: Callable[[], float] = time.time
    ) -> None:
        self._mac = mac
        self._sequence = int.from_bytes(os.urandom(4)) if first_sequence is None else first_sequence
        self._now_s = now_s
        self._lock = threading.Lock()
        self._process = -1
        self._prefix = ""

    def next_ids(self, count: int) -> list[str]:
        """Return `count` new ids that differ only in the sequence."""
        process = os.getpid()
        if process != self._process:  # also after a fork, whose child must not repeat its parent's ids
            self._prefix = f"01{self._mac_address():012X}{process & 0xFFFF:04X}"
            self._process = process
        with self._lock:
            first = self._sequence
            self._sequence = (first + count) & _MAX
        shared = f"{self._prefix}{(int(self._now_s()) - EPOCH_2021_S) & _MAX:08X}"
        return [f"{shared}{number & _MAX:08X}" for number in range(first, first + count)]

    def _mac_address(self) -> int:
        if self._mac is None:
            import uuid

            self._mac = uuid.getnode()
        return self._mac


def parse_message_id(text: str) -> MessageIdParts | None:
    """Return the parts of an id of version 1; None for an id of another form, which is just as valid."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    if len(raw) != 17 or raw[0] != 1:
        return None
    return MessageIdParts(
        mac=int.from_bytes(raw[1:7]),
        process=int.from_bytes(raw[7:9]),
        seconds=int.from_bytes(raw[9:13]),
        sequence=int.from_bytes(raw[13:17]),
    )


MESSAGE_IDS = MessageIdGenerator()
