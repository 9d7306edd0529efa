"""The options of the lake pipeline, which are checked once, and the report at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from pyspark_ternmq.pipelines.connection import PipelineConnection

if TYPE_CHECKING:
    from pyspark_ternmq.decoding.columns import BodyFormat
    from pyspark_ternmq.decoding.schema_registry.subject import AvroOfSubject

MIB = 1024 * 1024
EventTime = Literal["born", "stored"]
Format = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[Format, ...] = ("parquet", "delta", "iceberg")
NO_ICEBERG_COMPACTION = (
    "Iceberg tables are compacted by an engine of their catalog, such as Spark's rewrite_data_files: PyIceberg can't"
)
MALFORMED_MIN = 10
# Options of the source that the pipeline sets by itself.
OWN_SOURCE_OPTIONS = ("subscribe", "startingoffsets", "maxoffsetspertrigger", "tag", "filter", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """The options of a compaction: its partitions, and the size of files."""

    older_than: timedelta = timedelta(hours=1)
    """How long ago a partition's hour must have ended."""
    target_bytes: int = 128 * MIB
    """How large a merged file may become; files of half that size are left alone."""
    min_files: int = 4
    """How many small files a partition must have."""
    retention: timedelta = timedelta(days=7)
    """Delta only: how long files that were replaced are kept, for readers of older versions."""
    storage_options: Mapping[str, str] = field(default_factory=dict)
    """Delta only: as for the lake itself."""

    def __post_init__(self) -> None:
        if self.target_bytes < 1:
            raise ValueError(f"target_bytes={self.target_bytes} must be at least 1")
        if self.min_files < 2:
            raise ValueError(f"min_files={self.min_files} must be at least 2: one file is compact")
        if self.retention < timedelta(0):
            raise ValueError("retention must not be negative")


@dataclass(slots=True, kw_only=True)
class CompactionReport:
    """The result of one run: removed small files, and added larger ones."""

    partitions: int = 0
    removed: int = 0
    added: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOptions:
    """Topics into a folder. Paths are any that Hadoop can write: local ones, `hdfs://`, `s3a://`."""

    connection: PipelineConnection
    topics: Sequence[str]
    out: str
    checkpoint: str | None = None
    """Where the pipeline's progress is; `_checkpoint` in `out` by default."""
    starting: str = "earliest"
    """`startingOffsets` of the source; of the first run only."""
    max_offsets_per_trigger: int | None = None
    tag: str | None = None
    filter: str | None = None
    group: str | None = None
    """A consumer group to which the pipeline commits its progress, so that its lag is visible."""
    source_options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source."""
    event_time: EventTime = "born"
    """The time that says which date and hour a row belongs to."""
    dedup_window: timedelta = timedelta(hours=1)
    """How long a message's id is remembered; 0 keeps duplicates."""
    lateness: timedelta = timedelta(hours=1)
    """How long after its birth a message may be stored and still be `data`; with `event_time="born"` only."""
    json_schema: str | None = None
    """Types of the body's JSON, such as `id long, amount decimal(10,2)`; they become a column `json`."""
    decoding: "BodyFormat | AvroOfSubject | None" = None
    """Instead: bodies are Avro or Protobuf, and become a column `avro` or `protobuf`. The schema of a subject is looked
    up once, and kept in the lake."""
    max_malformed: float = 0.5
    """The share of a batch that may be malformed; a batch with more fails, and nothing of it is written. With
    `trigger` fewer than MALFORMED_MIN malformed rows are none: one message alone would end a quiet pipeline."""
    trigger: timedelta | None = None
    """How often to look for new messages, for ever; without it the pipeline takes what is there and ends."""
    compaction: CompactionOptions | None = None
    """Compact after the run, and with `trigger` every `compact_every_batches`; None leaves all files as they are."""
    compact_every_batches: int = 100
    format: Format = "parquet"
    """The form of the folder for other engines: plain files, Delta tables, or Iceberg tables of a catalog."""
    storage_options: Mapping[str, str] = field(default_factory=dict)
    """For `delta`: delta-rs's own, such as `aws_endpoint`; Spark has settings of its own for the same store."""
    catalog: str | None = None
    """For `iceberg`: the name of a catalog in PyIceberg's configuration."""
    catalog_options: Mapping[str, str] = field(default_factory=dict)
    """PyIceberg's own for that catalog, such as `uri`; they count more than its configuration."""
    namespace: str = "lake"
    """For `iceberg`: the tables are `<namespace>.data`, `<namespace>.late` and `<namespace>.malformed`."""

    def __post_init__(self) -> None:
        self._check_format()
        if not self.topics or not all(self.topics):
            raise ValueError("at least one topic is needed, and none may be empty")
        if self.event_time not in ("born", "stored"):
            raise ValueError(f"event_time={self.event_time!r} must be 'born' or 'stored'")
        if min(self.dedup_window, self.lateness) < timedelta(0):
            raise ValueError("dedup_window and lateness must not be negative")
        if self.json_schema is not None and self.decoding is not None:
            raise ValueError("bodies have one format: a schema of JSON, of Avro or of Protobuf")
        if not 0 <= self.max_malformed <= 1:
            raise ValueError(f"max_malformed={self.max_malformed} must be a share, from 0 to 1")
        if self.compact_every_batches < 1:
            raise ValueError(f"compact_every_batches={self.compact_every_batches} must be at least 1")
        for name in self.source_options:
            if name.lower() in OWN_SOURCE_OPTIONS:
                raise ValueError(f"{name} has a parameter of its own")

    def _check_format(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"format={self.format!r} must be one of {', '.join(FORMATS)}")
        if self.storage_options and self.format != "delta":
            raise ValueError("storage_options are for format 'delta'")
        if (self.catalog is not None) != (self.format == "iceberg"):
            raise ValueError("format 'iceberg' needs a catalog, and no other format has one")
        if self.catalog_options and self.catalog is None:
            raise ValueError("catalog_options are for a catalog")
        if self.compaction is not None and self.format == "iceberg":
            raise ValueError(NO_ICEBERG_COMPACTION)

    @property
    def checkpoint_folder(self) -> str:
        return self.checkpoint or f"{self.out.rstrip('/')}/_checkpoint"


@dataclass(slots=True, kw_only=True)
class LakeReport:
    """The result of one run. `rows` went into `data`; all that came in is rows + late + malformed + duplicates."""

    rows: int = 0
    late: int = 0
    malformed: int = 0
    duplicates: int = 0
    batches: int = 0
    files: int = 0
    compacted_files: int = 0
    """Small files that compaction replaced."""
