"""Collects pulled messages of one queue, and builds record batches from them (`message_columns.py`)."""

from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_ternmq.source.message_columns import MessageColumns, RowColumns
from pyspark_ternmq.source.wire_fields import NotScannable
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from ternmq_common.pulled_rows import PulledRows

_LOG_APPEND_TIME = 1  # Kafka's number for timestamps that the broker sets


class ColumnBuilder:
    """Collects messages of one queue and builds record batches from them.

    `rows` messages with `bytes` bytes, as they were received, wait for the next batch. Servers give all messages in
    one form; if they come in both, as while a server is replaced, those by column become responses.
    """

    def __init__(self, schema: "StructType", topic: str, queue: str) -> None:
        # Spark compares the schema of each batch with this one.
        self._schema = to_arrow_schema(schema, timezone="UTC")
        broker, _, queue_id = queue.rpartition("/")
        self._topic = pb.Resource(name=topic).SerializeToString()
        self._queue_id = int(queue_id)
        self._constants: dict[str, object] = {
            "topic": topic,
            "broker": broker,
            "queue_id": int(queue_id),
            "partition": int(queue_id),
            "timestampType": _LOG_APPEND_TIME,
        }
        self._responses: list[bytes] = []
        self._parts: list[PulledRows] = []
        self.rows = 0
        self.bytes = 0

    def add_responses(self, responses: "Sequence[bytes]") -> None:
        """Add messages: serialized `PullMessageResponse`s, each with one message."""
        if responses:
            self._turn_to_responses()
        self._responses += responses
        self.rows += len(responses)
        self.bytes += sum(map(len, responses))

    def add_rows(self, rows: "PulledRows") -> None:
        """Add messages that came by column."""
        self._parts.append(rows)
        self.rows += rows.count
        self.bytes += len(rows.data)
        if self._responses:
            self._turn_to_responses()

    def build_batch(self) -> pa.RecordBatch:
        """All that was collected; nothing waits afterwards. DecodeError if a message is no protobuf."""
        count = self.rows
        try:
            columns = RowColumns(self._parts) if self._parts else MessageColumns.of_responses(self._responses)
            arrays = self._build_arrays(columns)
        except (NotScannable, pa.ArrowInvalid):
            # Legal messages that our own servers don't send, or illegal ones: protobuf's own decoder knows.
            self._turn_to_responses()
            columns = MessageColumns.of_responses([_rewrite_response(response) for response in self._responses])
            arrays = self._build_arrays(columns)
        self._responses, self._parts, self.rows, self.bytes = [], [], 0, 0
        assert all(len(array) == count for array in arrays)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _turn_to_responses(self) -> None:
        for part in self._parts:
            self._responses += part.as_responses(self._topic, self._queue_id)
        self._parts = []

    def _build_arrays(self, messages: MessageColumns) -> list[pa.Array]:
        return [
            pa.repeat(pa.scalar(self._constants[field.name], field.type), messages.count)
            if field.name in self._constants
            else messages.column(field.name, field.type)
            for field in self._schema
        ]


def _rewrite_response(response: bytes) -> bytes:
    """The same message as protobuf writes it: each field once, each key of a map once, no unknown fields."""
    parsed = rpc.PullMessageResponse.FromString(response)
    if not parsed.HasField("message"):
        raise DecodeError("a response of PullMessage has no message")
    parsed.DiscardUnknownFields()
    return parsed.SerializeToString()
