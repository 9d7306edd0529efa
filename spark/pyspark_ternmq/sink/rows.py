"""Builds messages from Arrow batches, and requests from messages; for rows that `plain_rows.py` can't encode.

A null means that the message has no such part: no keys, no tag, no properties. Null keys in an array and null values
in a map are left out. Only `body` and `topic` are required.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import pyarrow as pa

from pyspark_ternmq.sink.columns import RowColumns
from pyspark_ternmq.sink.errors import not_text, null_row, row_failed
from pyspark_ternmq.sink.ids import DerivedIds
from ternmq import ClientError, Message

_MICROS_PER_MS = 1000


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Messages of one topic that are sent together.

    `lane` is a number that all requests with the same message groups, or of the same queue, share: they are sent one
    after the other; None where there is no order to keep. `queue` is the one that the rows chose: `broker/queue id`,
    `queue id`, or empty. `rows` are the numbers of the rows in the partition.
    """

    topic: str
    queue: str
    lane: int | None
    messages: Sequence[Message]
    message_ids: Sequence[str]
    rows: Sequence[int]

    def take_part(self, places: Sequence[int]) -> "RowRequest":
        """The messages at these places."""
        return RowRequest(
            self.topic,
            self.queue,
            self.lane,
            [self.messages[place] for place in places],
            [self.message_ids[place] for place in places],
            [self.rows[place] for place in places],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """Builds the requests of one task."""

    columns: RowColumns
    topic: str | None
    partition: int
    ids: DerivedIds
    lanes: int
    request_rows: int
    groups_by_key: bool = False

    def read_requests(self, batch: pa.RecordBatch, first_row: int) -> Iterator[RowRequest]:
        """The requests for one batch; WriteFailed names a row that is no message."""
        messages = self._build_messages(batch, first_row)
        message_ids = self._message_ids(batch, first_row)
        for (topic, queue, lane), places in self._group_places(messages, self._chosen_queues(batch, first_row)).items():
            for start in range(0, len(places), self.request_rows):
                part = places[start : start + self.request_rows]
                yield RowRequest(
                    topic,
                    queue,
                    lane,
                    [messages[place] for place in part],
                    [message_ids[place] for place in part],
                    [first_row + place for place in part],
                )

    def _build_messages(self, batch: pa.RecordBatch, first_row: int) -> list[Message]:
        topics = repeat(self.topic) if self.topic is not None else self._required_values(batch, "topic", first_row)
        messages: list[Message] = []
        append = messages.append
        # strict=False, since absent columns repeat for ever.
        for topic, body, tag, keys, properties, group, delivery_ms, priority in zip(
            topics,
            self._required_values(batch, "body", first_row),
            self._optional_values(batch, "tag"),
            self._message_keys(batch, first_row),
            self._message_properties(batch, first_row),
            self._message_groups(batch, first_row),
            self._delivery_times_ms(batch),
            self._optional_values(batch, "priority"),
            strict=False,
        ):
            try:
                append(Message(topic, body, tag, keys, properties, group, delivery_ms, priority))
            except ClientError as error:
                raise row_failed(error, topic=topic, row=first_row + len(messages), partition=self.partition) from None
        return messages

    def _message_ids(self, batch: pa.RecordBatch, first_row: int) -> list[str]:
        derived = self.ids.of_rows(first_row, batch.num_rows)
        given = self._find_column(batch, "message_id")
        if given is None or given.null_count == len(given):
            return derived
        return [own if own is not None else other for own, other in zip(given.to_pylist(), derived, strict=True)]

    def _group_places(
        self, messages: Iterable[Message], queues: Iterable[str]
    ) -> dict[tuple[str, str, int | None], list[int]]:
        """The places of the messages, by topic, queue and lane."""
        grouped: dict[tuple[str, str, int | None], list[int]] = {}
        for place, (message, queue) in enumerate(zip(messages, queues, strict=False)):
            order = message.message_group or queue or None
            key = (message.topic, queue, None if order is None else hash(order) % self.lanes)
            places = grouped.get(key)
            if places is None:
                places = grouped[key] = []
            places.append(place)
        return grouped

    # The columns, each as one Python value for a row.

    def _find_column(self, batch: pa.RecordBatch, name: str) -> Any | None:  # noqa: ANN401 - pyarrow's arrays have no types
        place = self.columns.places.get(name)
        return None if place is None else batch.column(place)

    def _required_values(self, batch: pa.RecordBatch, name: str, first_row: int) -> list[Any]:
        column = self._find_column(batch, name)
        assert column is not None
        if column.null_count:
            row = first_row + column.is_null().index(True).as_py()
            raise null_row(name, row=row, partition=self.partition)
        if name == "body":
            column = _as_bytes(column)
        values: list[Any] = column.to_pylist()
        return values

    def _chosen_queues(self, batch: pa.RecordBatch, first_row: int) -> Iterable[str]:
        """The queue that each row chose; empty for those that did not."""
        numbers = self._find_column(batch, "queue_id")
        if numbers is None:
            return repeat("")
        brokers = self._find_column(batch, "broker")
        if brokers is None:
            return ["" if number is None else str(number) for number in numbers.to_pylist()]
        queues: list[str] = []
        for broker, number in zip(brokers.to_pylist(), numbers.to_pylist(), strict=True):
            if number is None and broker is not None:
                raise null_row("queue_id", row=first_row + len(queues), partition=self.partition, why="it has a broker")
            queues.append("" if number is None else str(number) if broker is None else f"{broker}/{number}")
        return queues

    def _message_groups(self, batch: pa.RecordBatch, first_row: int) -> Iterable[str | None]:
        if self.groups_by_key and "key" in self.columns.places:
            return self._decode_texts(batch.column(self.columns.places["key"]), "key", first_row)
        return self._optional_values(batch, "message_group")

    def _decode_texts(self, column: Any, name: str, first_row: int) -> list[str | None]:  # noqa: ANN401
        """Bytes as the text that they are; WriteFailed names a row where they are none."""
        try:
            texts: list[str | None] = column.cast(
                pa.string() if pa.types.is_binary(column.type) else pa.large_string()
            ).to_pylist()
        except pa.ArrowInvalid:
            for number, value in enumerate(column.to_pylist()):
                if isinstance(value, bytes) and not _is_utf8(value):
                    raise not_text(name, row=first_row + number, partition=self.partition) from None
            raise
        return texts

    def _optional_values(self, batch: pa.RecordBatch, name: str) -> Iterable[Any]:
        column = self._find_column(batch, name)
        return repeat(None) if column is None else column.to_pylist()

    def _message_keys(self, batch: pa.RecordBatch, first_row: int) -> Iterable[Sequence[str]]:
        if "key" in self.columns.places and not self.groups_by_key:
            texts = self._decode_texts(batch.column(self.columns.places["key"]), "key", first_row)
            return [() if key is None else (key,) for key in texts]
        column = self._find_column(batch, "keys")
        if column is None:
            return repeat(())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return [() if key is None else (key,) for key in column.to_pylist()]
        values = column.values.to_pylist()
        if column.values.null_count:
            return [[key for key in values[start:end] if key is not None] for start, end in _list_ranges(column)]
        return [values[start:end] for start, end in _list_ranges(column)]

    def _message_properties(self, batch: pa.RecordBatch, first_row: int) -> Iterable[dict[str, str]]:
        headers = self._find_column(batch, "headers")
        if headers is not None:
            return self._of_headers(headers, first_row)
        column = self._find_column(batch, "properties")
        if column is None:
            return repeat({})
        keys, items = column.keys.to_pylist(), column.items.to_pylist()
        if not column.items.null_count:
            return [dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in _list_ranges(column)]
        return [
            {key: item for key, item in zip(keys[start:end], items[start:end], strict=True) if item is not None}
            for start, end in _list_ranges(column)
        ]

    def _of_headers(self, column: Any, first_row: int) -> list[dict[str, str]]:  # noqa: ANN401
        """Kafka's headers as properties; of a name that comes twice the last counts."""
        found: list[dict[str, str]] = []
        for row, headers in enumerate(column.to_pylist(), first_row):
            properties: dict[str, str] = {}
            for header in headers or ():
                name, value = (header or {}).get("key"), (header or {}).get("value")
                if name is not None and value is not None:
                    try:
                        properties[name] = value.decode() if isinstance(value, bytes) else value
                    except UnicodeDecodeError:
                        raise not_text(f"headers, {name!r}", row=row, partition=self.partition) from None
            found.append(properties)
        return found

    def _delivery_times_ms(self, batch: pa.RecordBatch) -> Iterable[int | None]:
        """Milliseconds since 1970, rounded down, as the wire has them."""
        column = self._find_column(batch, "delivery_timestamp")
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


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _list_ranges(column: Any) -> list[tuple[int, int]]:  # noqa: ANN401
    """Return the range of each list's or map's elements among the values of the column; an empty range for a null."""
    offsets = column.offsets.to_pylist()
    ranges = list(pairwise(offsets))
    if column.null_count:
        return [one if valid else (0, 0) for one, valid in zip(ranges, column.is_valid().to_pylist(), strict=True)]
    return ranges
