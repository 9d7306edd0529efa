"""The options of a read, checked together."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from pyspark_ternmq.options import ConnectionOptions, OptionReader, WrongOption, connection_of
from pyspark_ternmq.schema import checked_columns
from pyspark_ternmq.source.places import Places, ending_places, starting_places
from pyspark_ternmq.source.topics import Subscription, subscription_of
from ternmq import ClientError, SqlFilter, TagFilter
from ternmq.filters import Filter

BATCH_OPTIONS = (
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "pushFilters",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "tag",
    "filter",
)
STREAM_OPTIONS = (
    *(name for name in BATCH_OPTIONS if not name.startswith("ending") and name != "pushFilters"),
    "maxOffsetsPerTrigger",
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
    """What is read, and how; `group` is told the progress of a stream."""

    reading: Reading
    subscription: Subscription
    start: Places
    end: Places
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None = None
    group: str | None = None


def batch_options(options: Mapping[str, str], schema: StructType) -> SourceOptions:
    """WrongOption for what can't be; a batch reads all there is unless it is told otherwise."""
    reader = OptionReader(options, BATCH_OPTIONS)
    return SourceOptions(
        reading=_reading(reader, schema),
        subscription=subscription_of(reader),
        start=starting_places(reader, "earliest", stream=False),
        end=ending_places(reader),
        min_partitions=reader.number("minPartitions"),
        max_records_per_partition=reader.number("maxRecordsPerPartition"),
    )


def takes_filters(options: Mapping[str, str]) -> bool:
    """Whether conditions of the query go to the broker."""
    return OptionReader(options, BATCH_OPTIONS).flag("pushFilters", False)


def stream_options(options: Mapping[str, str], schema: StructType) -> SourceOptions:
    """WrongOption for what can't be; a stream begins with what comes next unless it is told otherwise."""
    for name in options:
        if name.lower() in {"endingoffsets", "endingtimestamp"}:
            raise WrongOption(f"a stream has no end: option {name} is for spark.read; see Trigger.AvailableNow")
    reader = OptionReader(options, STREAM_OPTIONS)
    return SourceOptions(
        reading=_reading(reader, schema),
        subscription=subscription_of(reader),
        start=starting_places(reader, "latest", stream=True),
        end=Places("latest"),
        min_partitions=reader.number("minPartitions"),
        max_records_per_partition=reader.number("maxRecordsPerPartition"),
        max_offsets_per_trigger=reader.number("maxOffsetsPerTrigger"),
        group=reader.text("group"),
    )


def _reading(reader: OptionReader, schema: StructType) -> Reading:
    return Reading(
        connection=connection_of(reader),
        schema=schema,
        columns=checked_columns(schema),
        passing=_filter(reader),
        fail_on_data_loss=reader.flag("failOnDataLoss", True),
    )


def _filter(reader: OptionReader) -> Filter | None:
    tag, condition = reader.text("tag"), reader.text("filter")
    if tag is not None and condition is not None:
        raise WrongOption("options tag and filter exclude each other: a filter can say TAGS = 'a'")
    try:
        if condition is not None:
            return SqlFilter(condition)
        return None if tag is None or tag == "*" else TagFilter(tag)
    except ClientError as error:
        raise WrongOption(f"option {'tag' if condition is None else 'filter'}: {error.message}") from None
