"""Message ids that come out the same when a task runs again: after a failure, or from the checkpoint.

    byte 0       01, the version of RocketMQ's ids
    bytes 1-12   a keyed hash of seed, partition, epoch and the upper half of the row number, where others have MAC
                 address, process id and time
    bytes 13-16  the lower 32 bits of the row number, where others have the sequence

The hash is made once for a task, not for each row. Its 95 bits keep tasks apart (10^9 tasks collide with a probability
below 10^-10); in the first byte of the MAC address the bit for group addresses is set, which no machine's own address
has.
"""

from hashlib import blake2b

_KEY = b"ternmq spark message id"
_GROUP_ADDRESS = 1 << 88
_ROW_BITS = 32
_ROW_MASK = (1 << _ROW_BITS) - 1


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
            prefix = self._prefix(high)
            ids += [f"{prefix}{number & _ROW_MASK:08X}" for number in range(row, stop)]
            row = stop
        return ids

    def _prefix(self, high: int) -> str:
        # The seed is last, since it alone may hold any character.
        text = f"{self._partition} {self._epoch} {high} {self._seed}"
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12, key=_KEY).digest()
        return f"01{int.from_bytes(digest) | _GROUP_ADDRESS:024X}"
