"""Topics into a lake of Parquet files, each message exactly once; what is late or malformed is kept beside it.

    from pyspark_ternmq.pipelines import lake
    connection = Connection(endpoint="127.0.0.1:8081")
    report = lake.run(spark, lake.LakeOptions(connection=connection, topics=["orders"], out="/data/lake"))

Flow        source -> classified -> deduplicated -> one Parquet write for each micro-batch -> commit (`commits.py`).
Columns     those of the source without `topic`, which is the name of a folder; `json`, `avro` or `protobuf` if there
            is a schema; and `reason`, which says why a row is in `late` or `malformed` and is null in `data`.
Ids         are remembered in Spark's state store, by default in the memory of Java. For windows of many millions, the
            session is to have, from the first run on, the setting spark.sql.streaming.stateStore.providerClass =
            org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
Formats     plain Parquet; or Delta or Iceberg tables `data`, `late` and `malformed` of the same files (`tables/`).
Restart     with the same `checkpoint` and `out`, after any end: no row is lost, none comes twice. A new checkpoint
            begins again, and brings what is there a second time. A checkpoint is for one process at a time (`Locked`).
"""

from pyspark_ternmq.pipelines.lake.commits import LakeBroken
from pyspark_ternmq.pipelines.lake.compaction import run as compact
from pyspark_ternmq.pipelines.lake.job import TooManyMalformed, run
from pyspark_ternmq.pipelines.lake.lock import Locked, LockLost
from pyspark_ternmq.pipelines.lake.options import CompactionOptions, CompactionReport, LakeOptions, LakeReport
from pyspark_ternmq.pipelines.lake.tables.marker import WrongFormat

__all__ = [
    "CompactionOptions",
    "CompactionReport",
    "LakeBroken",
    "LakeOptions",
    "LakeReport",
    "LockLost",
    "Locked",
    "TooManyMalformed",
    "WrongFormat",
    "compact",
    "run",
]
