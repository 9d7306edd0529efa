"""Writes an archive of the classes that Spark loads when it starts: `python -m tests.support.spark_classes`.

With the archive the start of Spark takes half of the processor time. Java uses it with the jars of one virtual
environment only, and starts without it otherwise, so that each checkout has its own.
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.spark import CLASS_ARCHIVE, SETTINGS, TIERED_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    """Start Spark, use what most tests use, and have Java write the archive at its end."""
    if CLASS_ARCHIVE.exists():
        return
    from pyspark.sql import SparkSession

    CLASS_ARCHIVE.parent.mkdir(exist_ok=True)
    # Java lists each class that it leaves out.
    options = f"{TIERED_JAVA} -XX:ArchiveClassesAtExit={CLASS_ARCHIVE} -Xlog:disable"
    settings = SETTINGS | {"spark.driver.extraJavaOptions": options}
    session = SparkSession.builder.master("local[2]").appName("classes").config(map=settings).getOrCreate()
    gateway = session.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    with tempfile.TemporaryDirectory() as folder:
        use_session(session, Path(folder))
    session.stop()
    java.stdin.close()
    java.wait()
    assert CLASS_ARCHIVE.exists()


def use_session(session: "SparkSession", folder: Path) -> None:
    """Write, read and group rows, in a batch and in a stream."""
    rows = session.range(100).selectExpr("id", "cast(id % 3 as string) as name")
    rows.groupBy("name").count().write.parquet(f"{folder}/rows")
    read = session.readStream.schema("name string, count long").parquet(f"{folder}/rows")
    written = read.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    written.trigger(availableNow=True).start(f"{folder}/copy").awaitTermination()
    assert session.read.parquet(f"{folder}/copy").count() > 0


if __name__ == "__main__":
    main()
