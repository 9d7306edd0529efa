"""A job that reads, writes and streams with credentials, and then waits for a line: so that a test can look into its
pages. Arguments: endpoint, topic, folder."""

import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.spark import QUICK_SETTINGS

SECRETS = {"accessKey": "my-access-key", "secretKey": "hush-hush", "sessionToken": "just-once"}


def main(endpoint: str, topic: str, folder: Path) -> None:
    shown = QUICK_SETTINGS | {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
    }
    spark = SparkSession.builder.master("local[1]").appName("secrets").config(map=shown).getOrCreate()
    given = {"endpoint": endpoint, **SECRETS}
    frame = spark.read.format("ternmq").options(**given).load(topic)
    frame.select("body").write.format("ternmq").mode("append").options(**given, topic=topic).save()
    stream = spark.readStream.format("ternmq").options(**given, startingOffsets="earliest").load(topic)
    writer = stream.select("body").writeStream.format("ternmq").options(**given, topic=f"{topic}-copy")
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    try:
        spark.read.format("ternmq").options(**given, nosuch="option").load(topic).collect()
    except PySparkException as refused:
        print(refused, file=sys.stderr)
    print(spark.sparkContext.uiWebUrl, flush=True)
    sys.stdin.readline()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
