"""A declarative pipeline: a topic as a streaming table, a view that counts its rows, and a topic with a copy."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
endpoint = spark.conf.get("endpoint")


@dp.table
def orders() -> DataFrame:
    """The messages of the topic, each once: its offsets are in the checkpoint of the table."""
    messages = spark.readStream.format("ternmq").options(endpoint=endpoint, startingOffsets="earliest").load("orders")
    return messages.selectExpr("message_id", "tag", "CAST(body AS STRING) AS body", "store_timestamp")


@dp.materialized_view
def orders_by_tag() -> DataFrame:
    """How many messages each tag has."""
    return spark.read.table("orders").groupBy("tag").count()


dp.create_sink("copies", "ternmq", {"endpoint": endpoint, "topic": "copies"})


@dp.append_flow(target="copies")
def copy_orders() -> DataFrame:
    """The rows of the table as messages of another topic, at least once."""
    return spark.readStream.table("orders").select("body", "tag")
