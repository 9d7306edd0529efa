"""The options of a write, which are checked once, on the driver."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_ternmq.options import ConnectionOptions, OptionReader, WrongOption, connection_of, kafka_names
from ternmq.producing.send_batches import BATCH_MESSAGES_MAX
from ternmq_common.errors import MessagingError
from ternmq_common.names import check_topic_name

SINK_OPTIONS = (
    "topic",
    "columnNames",
    "keyAs",
    "ignoreSourceColumns",
    "maxInFlight",
    "batchSize",
    "rowsPerSecond",
    "idSeed",
    "deliveryTimeoutMs",
)
MAX_IN_FLIGHT = 4
# As Kafka's producers: long enough for a broker that is restarted.
DELIVERY_TIMEOUT_MS = 120_000
# A paced write sends a tenth of a second's rows at a time: larger requests would come in bursts.
_PACED_REQUESTS_PER_SECOND = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Travels to the executors.

    topic                the topic of all rows; None: the column `topic` names it
    kafka_names          columns may have the names of Spark's sink for Kafka
    groups_by_key        Kafka's key is the message group, of FIFO topics; else it is a key to search by
    ignores_source       columns that only the source knows are left out
    max_in_flight        requests of one task that may wait for their answers at a time
    batch_size           messages of one request
    rows_per_second      how fast the tasks of one machine send together
    id_seed              what message ids are derived from in place of the id of the query
    delivery_timeout_s   how long a request is repeated that fails for a passing reason
    """

    connection: ConnectionOptions
    topic: str | None = None
    kafka_names: bool = False
    groups_by_key: bool = False
    ignores_source: bool = False
    max_in_flight: int = MAX_IN_FLIGHT
    batch_size: int = BATCH_MESSAGES_MAX
    rows_per_second: float | None = None
    id_seed: str | None = None
    delivery_timeout_s: float = DELIVERY_TIMEOUT_MS / 1000


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of one write. Raises WrongOption, which names the invalid option."""
    reader = OptionReader(options, SINK_OPTIONS)
    rows_per_second = reader.read_rate("rowsPerSecond")
    has_kafka_names = kafka_names(reader)
    if reader.read_text("keyAs") is not None and not has_kafka_names:
        raise WrongOption("option keyAs is about Kafka's column key: set columnNames to kafka with it")
    return SinkOptions(
        connection=connection_of(reader),
        topic=_read_topic(reader),
        kafka_names=has_kafka_names,
        groups_by_key=reader.read_choice("keyAs", ("keys", "message_group")) == "message_group",
        ignores_source=reader.read_flag("ignoreSourceColumns", False),
        max_in_flight=_read_number(reader, "maxInFlight", MAX_IN_FLIGHT),
        batch_size=_batch_size(reader, rows_per_second),
        rows_per_second=rows_per_second,
        id_seed=reader.read_text("idSeed"),
        delivery_timeout_s=_read_number(reader, "deliveryTimeoutMs", DELIVERY_TIMEOUT_MS) / 1000,
    )


def _read_topic(reader: OptionReader) -> str | None:
    """Option `topic`, or what was given to `save` and `start`."""
    name = reader.read_text("topic") or reader.read_text("path")
    if name is not None:
        try:
            check_topic_name(name)
        except MessagingError as error:
            raise WrongOption(f"option topic={name!r}: {error.message}") from None
    return name


def _batch_size(reader: OptionReader, rows_per_second: float | None) -> int:
    size = _read_number(reader, "batchSize", BATCH_MESSAGES_MAX)
    if size > BATCH_MESSAGES_MAX:
        raise WrongOption(f"option batchSize={size} is above {BATCH_MESSAGES_MAX}")
    if rows_per_second is None:
        return size
    return max(1, min(size, int(rows_per_second / _PACED_REQUESTS_PER_SECOND)))


def _read_number(reader: OptionReader, name: str, default: int) -> int:
    value = reader.read_number(name, default)
    assert value is not None
    return value
