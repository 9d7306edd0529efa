"""Marks of the consumption journal: lines that count lost messages and purges, beside those of progress.

Lost      `["lost", group, topic, queue id, messages]`: so many messages of the queue were removed before the group had
          read them. A later line of the same queue replaces it; 0 removes it.
Purged    `["purged", topic, queue id, below]`: an operator's purge removed all messages below that offset. A later line
          replaces it likewise.
"""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_broker.store.journal import journal_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.journal.journal_lines import Fields

_LOST, _PURGED = "lost", "purged"


class LostMark(NamedTuple):
    """The number of messages that a group lost in a queue. The lite topics of a topic count together, as its queue
    0.
    """

    group: str
    topic: str
    queue_id: int
    messages: int


class PurgeMark(NamedTuple):
    """The offset below which the last purge emptied a queue."""

    topic: str
    queue_id: int
    below: int


Mark = LostMark | PurgeMark


def key_of(mark: Mark) -> tuple[str | int, ...]:
    """Return the key by which a later mark replaces this one."""
    return (type(mark).__name__, *mark[:-1])


def line_of(mark: Mark) -> bytes:
    return journal_lines.encode_line([_LOST if isinstance(mark, LostMark) else _PURGED, *mark])


def mark_of(fields: "Fields") -> Mark | None:
    """Return the mark that the fields are; None if they are no such line."""
    if len(fields) == 5 and fields[0] == _LOST:
        _, group, topic, queue_id, number = fields
        if isinstance(group, str) and isinstance(topic, str) and _is_count(queue_id) and _is_count(number):
            return LostMark(group, topic, queue_id, number)  # type: ignore[arg-type]  # `_is_count` narrows nothing
    elif len(fields) == 4 and fields[0] == _PURGED:
        _, topic, queue_id, number = fields
        if isinstance(topic, str) and _is_count(queue_id) and _is_count(number):
            return PurgeMark(topic, queue_id, number)  # type: ignore[arg-type]
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


class JournalMarks:
    """The current marks, each with its line."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str | int, ...], tuple[Mark, bytes]] = {}
        self.bytes = 0

    def put_mark(self, mark: Mark, line: bytes) -> None:
        key = key_of(mark)
        _, before = self._lines.pop(key, (None, b""))
        self.bytes -= len(before)
        if mark[-1]:
            self._lines[key] = mark, line
            self.bytes += len(line)

    def forget_group(self, group: str, topic: str | None = None) -> None:
        """Remove what a group lost, in one topic or in all."""
        gone = [
            mark
            for mark, _ in self._lines.values()
            if isinstance(mark, LostMark) and mark.group == group and topic in (None, mark.topic)
        ]
        for mark in gone:
            self.put_mark(mark._replace(messages=0), b"")

    def clear(self) -> None:
        self._lines.clear()
        self.bytes = 0

    def mark_lines(self) -> "Iterable[bytes]":
        return [line for _, line in self._lines.values()]

    def all_marks(self) -> list[Mark]:
        return [mark for mark, _ in self._lines.values()]
