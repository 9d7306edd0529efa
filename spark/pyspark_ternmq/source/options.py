"""The options of a read, checked together."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql.types import StructType

from pyspark_ternmq.options import ConnectionOptions, OptionReader, WrongOption, connection_of, kafka_names
from pyspark_ternmq.schema import checked_columns
from pyspark_ternmq.source.delay import MAX_DELAY_MS
from pyspark_ternmq.source.offsets.places import ReadPlaces, ending_places, starting_places
from pyspark_ternmq.source.topics import TopicSelection, subscription_of
from ternmq import ClientError, SqlFilter, TagFilter
from ternmq.messages.filters import Filter
from ternmq_common.errors import MessagingError
from ternmq_common.names import check_group_name

BATCH_OPTIONS = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "columnNames",
    "includeHeaders",
    "pushFilters",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "tag",
    "filter",
)
STREAM_OPTIONS = (
    *(name for name in BATCH_OPTIONS if not name.startswith("ending") and name != "pushFilters"),
    "minOffsetsPerTrigger",
    "maxOffsetsPerTrigger",
    "maxTriggerDelay",
    "group",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How messages are read, wherever that happens; travels to the executors."""

    connection: ConnectionOptions
    schema: StructType
    columns: tuple[str, ...]
    passing: Filter | None
    fail_on_data_loss: bool


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read. A stream commits its progress to `group`. A micro-batch waits until it would have
    `min_offsets_per_trigger`, for `max_trigger_delay_ms` at most."""

    reading: Reading
    subscription: TopicSelection
    start: ReadPlaces
    end: ReadPlaces
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None = None
    group: str | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_DELAY_MS


def batch_options(options: Mapping[str, str], schema: StructType) -> SourceOptions:
    """WrongOption for what can't be; a batch reads all there is by default."""
    reader = OptionReader(options, BATCH_OPTIONS)
    start, end = starting_places(reader, "earliest", stream=False), ending_places(reader)
    if isinstance(start.place, datetime) and isinstance(end.place, datetime) and start.place > end.place:
        raise WrongOption("option endingTimestamp is before startingTimestamp: there is nothing between them")
    return SourceOptions(
        reading=_read_reading(reader, schema),
        subscription=subscription_of(reader),
        start=start,
        end=end,
        min_partitions=reader.read_number("minPartitions"),
        max_records_per_partition=reader.read_number("maxRecordsPerPartition"),
    )


def takes_filters(options: Mapping[str, str]) -> bool:
    """Whether conditions of the query go to the broker."""
    return OptionReader(options, BATCH_OPTIONS).read_flag("pushFilters", False)


def stream_options(options: Mapping[str, str], schema: StructType) -> SourceOptions:
    """WrongOption for what can't be; a stream begins at the end of the queues by default."""
    for name in options:
        if name.lower() in {"endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"}:
            raise WrongOption(f"a stream has no end: option {name} is for spark.read; see Trigger.AvailableNow")
    reader = OptionReader(options, STREAM_OPTIONS)
    least, most = reader.read_number("minOffsetsPerTrigger"), reader.read_number("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise WrongOption(f"option minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}")
    max_delay_ms = reader.duration_ms("maxTriggerDelay")
    if max_delay_ms is not None and least is None:
        raise WrongOption("option maxTriggerDelay means nothing without minOffsetsPerTrigger")
    return SourceOptions(
        reading=_read_reading(reader, schema),
        subscription=subscription_of(reader),
        start=starting_places(reader, "latest", stream=True),
        end=ReadPlaces("latest"),
        min_partitions=reader.read_number("minPartitions"),
        max_records_per_partition=reader.read_number("maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        group=_read_group(reader),
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=MAX_DELAY_MS if max_delay_ms is None else max_delay_ms,
    )


def _read_reading(reader: OptionReader, schema: StructType) -> Reading:
    has_kafka_names = kafka_names(reader)
    if reader.read_text("includeHeaders") is not None and not has_kafka_names:
        raise WrongOption("option includeHeaders is about Kafka's column headers: set columnNames to kafka with it")
    reader.read_flag("includeHeaders", False)
    return Reading(
        connection=connection_of(reader),
        schema=schema,
        columns=checked_columns(schema, kafka_names=has_kafka_names),
        passing=_read_filter(reader),
        fail_on_data_loss=reader.read_flag("failOnDataLoss", True),
    )


def _read_group(reader: OptionReader) -> str | None:
    name = reader.read_text("group")
    if name is not None:
        try:
            check_group_name(name)
        except MessagingError as error:
            raise WrongOption(f"option group: {error.message}") from None
    return name


def _read_filter(reader: OptionReader) -> Filter | None:
    tag, condition = reader.read_text("tag"), reader.read_text("filter")
    if tag is not None and condition is not None:
        raise WrongOption("options tag and filter exclude each other: a filter can say TAGS = 'a'")
    try:
        if condition is not None:
            return SqlFilter(condition)
        return None if tag is None or tag == "*" else TagFilter(tag)
    except ClientError as error:
        raise WrongOption(f"option {'tag' if condition is None else 'filter'}: {error.message}") from None
