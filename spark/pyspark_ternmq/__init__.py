"""TernMQ as a data source of Spark, in pure Python: `spark.read.format("ternmq")` and its three sisters.

    spark.readStream.format("ternmq").options(endpoint="127.0.0.1:8081", subscribe="orders").load()

Spark imports every installed module whose name begins with `pyspark_` and registers its `DefaultSource`, so nothing has
to be registered. `pyspark_ternmq.pipelines` has what the command `ternmq pipeline` runs.
"""

from pyspark_ternmq.data_source import TernmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
