"""From Arrow batches to messages and from messages to requests; pure, and the hot path of the sink.

Nulls are what is not there: no keys, no tag, no properties; null keys in an array and null values in a map are left
out. Only `body` and `topic` have to be there.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import pyarrow as pa

from pyspark_ternmq.sink.columns import Columns
from pyspark_ternmq.sink.errors import null_row, row_failed
from pyspark_ternmq.sink.ids import DerivedIds
from ternmq import ClientError, Message

_MICROS_PER_MS = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """Messages of one topic that are sent together.

    `lane` is a number that all requests with the same message groups share: they are sent one after the other; None
    where there is no order to keep. `rows` are the numbers of the rows in the partition.
    """

    topic: str
    lane: int | None
    messages: Sequence[Message]
    message_ids: Sequence[str]
    rows: Sequence[int]

    def part(self, places: Sequence[int]) -> "Request":
        """The messages at these places."""
        return Request(
            self.topic,
            self.lane,
            [self.messages[place] for place in places],
            [self.message_ids[place] for place in places],
            [self.rows[place] for place in places],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """Makes the requests of one task."""

    columns: Columns
    topic: str | None
    partition: int
    ids: DerivedIds
    lanes: int
    request_rows: int

    def requests(self, batch: pa.RecordBatch, first_row: int) -> Iterator[Request]:
        """The requests for one batch; WriteFailed names a row that is no message."""
        messages = self._messages(batch, first_row)
        message_ids = self._message_ids(batch, first_row)
        for (topic, lane), places in self._grouped(messages).items():
            for start in range(0, len(places), self.request_rows):
                part = places[start : start + self.request_rows]
                yield Request(
                    topic,
                    lane,
                    [messages[place] for place in part],
                    [message_ids[place] for place in part],
                    [first_row + place for place in part],
                )

    def _messages(self, batch: pa.RecordBatch, first_row: int) -> list[Message]:
        topics = repeat(self.topic) if self.topic is not None else self._required(batch, "topic", first_row)
        messages: list[Message] = []
        append = messages.append
        # strict=False, since absent columns repeat for ever.
        for topic, body, tag, keys, properties, group, delivery_ms in zip(
            topics,
            self._required(batch, "body", first_row),
            self._texts(batch, "tag"),
            self._keys(batch),
            self._properties(batch),
            self._texts(batch, "message_group"),
            self._delivery_times_ms(batch),
            strict=False,
        ):
            try:
                append(Message(topic, body, tag, keys, properties, group, delivery_ms))
            except ClientError as error:
                raise row_failed(error, topic=topic, row=first_row + len(messages), partition=self.partition) from None
        return messages

    def _message_ids(self, batch: pa.RecordBatch, first_row: int) -> list[str]:
        derived = self.ids.of_rows(first_row, batch.num_rows)
        given = self._column(batch, "message_id")
        if given is None or given.null_count == len(given):
            return derived
        return [own if own is not None else other for own, other in zip(given.to_pylist(), derived, strict=True)]

    def _grouped(self, messages: Iterable[Message]) -> dict[tuple[str, int | None], list[int]]:
        """The places of the messages, by topic and lane."""
        grouped: dict[tuple[str, int | None], list[int]] = {}
        for place, message in enumerate(messages):
            group = message.message_group
            key = (message.topic, None if group is None else hash(group) % self.lanes)
            places = grouped.get(key)
            if places is None:
                places = grouped[key] = []
            places.append(place)
        return grouped

    # The columns, each as one Python value for a row.

    def _column(self, batch: pa.RecordBatch, name: str) -> Any | None:  # noqa: ANN401 - pyarrow's arrays have no types
        place = self.columns.places.get(name)
        return None if place is None else batch.column(place)

    def _required(self, batch: pa.RecordBatch, name: str, first_row: int) -> list[Any]:
        column = self._column(batch, name)
        assert column is not None
        if column.null_count:
            row = first_row + column.is_null().index(True).as_py()
            raise null_row(name, row=row, partition=self.partition)
        if name == "body":
            column = _as_bytes(column)
        values: list[Any] = column.to_pylist()
        return values

    def _texts(self, batch: pa.RecordBatch, name: str) -> Iterable[str | None]:
        column = self._column(batch, name)
        return repeat(None) if column is None else column.to_pylist()

    def _keys(self, batch: pa.RecordBatch) -> Iterable[Sequence[str]]:
        column = self._column(batch, "keys")
        if column is None:
            return repeat(())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return [() if key is None else (key,) for key in column.to_pylist()]
        values = column.values.to_pylist()
        if column.values.null_count:
            return [[key for key in values[start:end] if key is not None] for start, end in _ranges(column)]
        return [values[start:end] for start, end in _ranges(column)]

    def _properties(self, batch: pa.RecordBatch) -> Iterable[dict[str, str]]:
        column = self._column(batch, "properties")
        if column is None:
            return repeat({})
        keys, items = column.keys.to_pylist(), column.items.to_pylist()
        if not column.items.null_count:
            return [dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in _ranges(column)]
        return [
            {key: item for key, item in zip(keys[start:end], items[start:end], strict=True) if item is not None}
            for start, end in _ranges(column)
        ]

    def _delivery_times_ms(self, batch: pa.RecordBatch) -> Iterable[int | None]:
        """Milliseconds since 1970, rounded down, as the wire has them."""
        column = self._column(batch, "delivery_timestamp")
        if column is None:
            return repeat(None)
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if value is None else value // _MICROS_PER_MS for value in micros]


def _as_bytes(column: Any) -> Any:  # noqa: ANN401
    """Text as its UTF-8, which is how Arrow keeps it."""
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_large_string(column.type):
        return column.cast(pa.large_binary())
    return column


def _ranges(column: Any) -> list[tuple[int, int]]:  # noqa: ANN401
    """Where the elements of each list or map are among the values of the column; nowhere for a null."""
    offsets = column.offsets.to_pylist()
    ranges = list(pairwise(offsets))
    if column.null_count:
        return [one if valid else (0, 0) for one, valid in zip(ranges, column.is_valid().to_pylist(), strict=True)]
    return ranges
