"""Settings of Spark that a pipeline needs in any session."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's default, INT96, says neither that it is UTC nor what the least and the greatest are, so that no engine can
# skip a file by it, and some can't read it.
PARQUET_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


@contextmanager
def session_settings(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for a block; the caller's session has its own back afterwards.

    A query that is started in it keeps them.
    """
    # None if it is not set; Spark's own annotation says text always.
    before: dict[str, Any] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
