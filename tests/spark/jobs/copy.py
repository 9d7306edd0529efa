"""A job that copies a topic to another one, through Spark's source and sink, and ends when it has all that is there.

Arguments: endpoint, topic to read, topic to write, folder of the checkpoint, messages of a micro-batch.
"""

import sys

from pyspark.sql import SparkSession

from tests.support.spark import QUICK_SETTINGS


def main(endpoint: str, origin: str, target: str, checkpoint: str, rows: str) -> None:
    # A task whose Python worker was killed is tried again; without the second number local mode never does.
    spark = SparkSession.builder.master("local[2,4]").appName("copy").config(map=QUICK_SETTINGS).getOrCreate()
    given = {"endpoint": endpoint, "startingOffsets": "earliest", "maxOffsetsPerTrigger": rows}
    frame = spark.readStream.format("ternmq").options(**given).load(origin)
    copied = frame.select("body", "keys", "tag", "properties")
    writer = copied.writeStream.format("ternmq").options(endpoint=endpoint, topic=target)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
