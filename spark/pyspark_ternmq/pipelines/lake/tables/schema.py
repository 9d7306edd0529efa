"""The columns of a lake's tables: those of its files, and those that parts of it are found by."""

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_ternmq.pipelines.lake.classification import PARTITION, TAKEN
from pyspark_ternmq.pipelines.lake.tables.evolution import make_nullable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TYPES = {"topic": pa.string(), "date": pa.date32(), "hour": pa.int32()}


def table_schema(rows: "DataFrame") -> pa.Schema:
    """Return the table's schema in Arrow. All is nullable: columns that a run lacks, and fields that come later."""
    kept = StructType([field for field in rows.schema if field.name not in {*PARTITION, TAKEN}])
    fields = to_arrow_schema(kept, timezone="UTC")
    return make_nullable(pa.schema([*fields, *(pa.field(name, kind) for name, kind in _TYPES.items())]))
