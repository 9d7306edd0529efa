"""Message ids that come out the same when a task runs again: after a failure, or from the checkpoint.

    byte 0       01, the version of RocketMQ's ids
    bytes 1-12   a keyed hash of seed, partition, epoch and the upper half of the row number, where others have MAC
                 address, process id and time
    bytes 13-16  the lower 32 bits of the row number, where others have the sequence

The hash is computed once for a task, not for each row. Its 95 bits keep tasks apart (10^9 tasks collide with a
probability below 10^-10); in the first byte of the MAC address the bit for group addresses is set, which no machine's
own address has.
"""

from hashlib import blake2b

import numpy as np
import pyarrow as pa

_KEY = b"ternmq spark message id"
_GROUP_ADDRESS = 1 << 88
_ROW_BITS = 32
_ROW_MASK = (1 << _ROW_BITS) - 1
_ROW_DIGITS = _ROW_BITS // 4
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


class DerivedIds:
    """The ids of the rows of one task; the seed stands for the query or the write."""

    def __init__(self, seed: str, *, partition: int, epoch: int) -> None:
        self._seed, self._partition, self._epoch = seed, partition, epoch

    def of_rows(self, first: int, count: int) -> list[str]:
        """The ids of rows `first` to `first + count - 1`."""
        ids: list[str] = []
        row, end = first, first + count
        while row < end:
            high = row >> _ROW_BITS
            stop = min(end, (high + 1) << _ROW_BITS)
            prefix = self._id_prefix(high)
            ids += [f"{prefix}{number & _ROW_MASK:08X}" for number in range(row, stop)]
            row = stop
        return ids

    def encode_ids(self, first: int, count: int) -> pa.Array:
        """The same ids as an Arrow array of their bytes."""
        if first >> _ROW_BITS != (first + count) >> _ROW_BITS:
            return pa.array([one.encode() for one in self.of_rows(first, count)], pa.binary())
        prefix = self._id_prefix(first >> _ROW_BITS).encode()
        ids = np.empty((count, len(prefix) + _ROW_DIGITS), np.uint8)
        ids[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
        numbers = np.arange(first & _ROW_MASK, (first & _ROW_MASK) + count)
        for place in range(_ROW_DIGITS):
            ids[:, len(prefix) + place] = _DIGITS[numbers >> 4 * (_ROW_DIGITS - 1 - place) & 0xF]
        ends = np.arange(0, ids.size + 1, ids.shape[1], dtype=np.int32)
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(ids)])

    def _id_prefix(self, high: int) -> str:
        # The seed is last, since it alone may hold any character.
        text = f"{self._partition} {self._epoch} {high} {self._seed}"
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12, key=_KEY).digest()
        return f"01{int.from_bytes(digest) | _GROUP_ADDRESS:024X}"
