"""TernMQ as a data source of Spark, in pure Python: `spark.read.format("ternmq")` and its three sisters.

    spark.readStream.format("ternmq").options(endpoint="127.0.0.1:8081", subscribe="orders").load()

Spark imports every installed module whose name begins with `pyspark_` and registers its `DefaultSource`, so nothing has
to be registered. Importing it before the session is created makes Spark's workers use this Python (`worker_python.py`),
which matters where no virtual environment is activated. `pyspark_ternmq.pipelines` has what the command `ternmq
pipeline` runs.
"""

from pyspark_ternmq.data_source import TernmqDataSource as DefaultSource
from pyspark_ternmq.last_line import print_refusals_last
from pyspark_ternmq.worker_python import use_this_python

__all__ = ["DefaultSource"]

use_this_python()
print_refusals_last()
