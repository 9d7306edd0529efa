"""A search for the records that may have a certain key, in memory and in blocks."""

from typing import TYPE_CHECKING

from ternmq_broker.store.index.index_block import key_hash, own_key_hash
from ternmq_broker.store.index.key_sort import to_little_endian
from ternmq_broker.store.index.key_table import SortedKeys, do_not_pause, find_hashes

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator

    from ternmq_broker.store.disk.files import StoreFile
    from ternmq_broker.store.index.index_block import BlockHead

_COPIED_AT_ONCE = 16_384


class KeySearch:
    """Searches for the key in messages of the topic and its lite topics; reads files, so for a thread.

    `pause` is called between steps of less than a millisecond; what it raises ends the search.
    """

    def __init__(
        self,
        topic: str,
        key: str,
        lite_topics: "Callable[[], Iterable[str]]" = tuple,
        pause: "Callable[[], None]" = do_not_pause,
    ) -> None:
        """`lite_topics` returns the lite topics of the topic; it is called only for blocks of earlier versions."""
        self._topic = topic
        self._key = key
        self._wanted = key_hash(topic, key)
        self._lite_topics = lite_topics
        self._own: set[int] = set()
        self.pause = pause

    def search_memory(self, keys: "tuple[array[int], array[int]]") -> "Iterator[int]":
        """Yield log offsets from arrays of hashes and log offsets, the last first; the owner's thread may append to
        them meanwhile.
        """
        hashes, log_offsets = keys
        for end in range(len(log_offsets), 0, -_COPIED_AT_ONCE):
            begin = max(0, end - _COPIED_AT_ONCE)
            copied = to_little_endian(hashes[begin:end])
            for place in find_hashes(copied, {self._wanted}, self.pause):
                yield log_offsets[begin + place]

    def search_block(self, head: "BlockHead", file: "StoreFile") -> "Iterator[int]":
        """Yield log offsets by the keys of a block, the last first. DamagedKeys, OSError."""
        table = head.key_table
        if isinstance(table, SortedKeys):
            found = table.find_positions(file, self._wanted)
        else:
            found = table.find_positions(file, self._by_own_names(), self.pause)
        for position in found:
            yield head.base + position

    def _by_own_names(self) -> set[int]:
        if not self._own:
            self._own = {own_key_hash(topic, self._key) for topic in (self._topic, *self._lite_topics())}
        return self._own
