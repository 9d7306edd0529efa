"""The data source that Spark finds under the name `ternmq`: it creates readers and writers, and imports their modules
only then.

Spark imports this in workers that only ask for the name, too: the client library comes with the first reader or writer.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_ternmq.schema import schema_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class TernmqDataSource(DataSource):
    """Reads topics of TernMQ, and writes to them. Options and schema are described in docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "ternmq"

    def schema(self) -> "StructType":
        return schema_of(self.options)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from pyspark_ternmq.refusals import in_one_line
        from pyspark_ternmq.source.batch import TopicReader
        from pyspark_ternmq.source.options import takes_filters
        from pyspark_ternmq.source.pushdown import FilteringTopicReader

        with in_one_line():
            return (FilteringTopicReader if takes_filters(self.options) else TopicReader)(self.options, schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 - Spark's name
        from pyspark_ternmq.options import WrongOption
        from pyspark_ternmq.source.stream import RefusedReader, TopicStreamReader

        try:
            return TopicStreamReader(self.options, schema)
        except WrongOption as refusal:
            return RefusedReader(refusal)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from pyspark_ternmq.refusals import in_one_line
        from pyspark_ternmq.sink.writer import batch_writer

        with in_one_line():
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802
        from pyspark_ternmq.refusals import in_one_line
        from pyspark_ternmq.sink.writer import stream_writer

        with in_one_line():
            return stream_writer(self.options, schema, overwrite)
