"""What tests with Spark have in common: settings of a session, messages to read, and rows that were read."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq import Message
from ternmq.blocking import Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # A Python worker that takes long to start on a busy machine is no bug.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}
# For jobs of a few rows: most of their processor time is Java's, which compiles what is hardly run. Without its second
# compiler a session takes two thirds of it; a benchmark needs both.
TIERED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Written by `spark_classes.py`. Without it the start of a session takes twice the processor time.
CLASS_ARCHIVE = Path(__file__).parents[2] / "build" / "spark-classes.jsa"
QUICK_JAVA = f"{TIERED_JAVA} -XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:disable -Xlog:all=error:stderr"
QUICK_SETTINGS = SETTINGS | {"spark.driver.extraJavaOptions": QUICK_JAVA}


def send_bodies(endpoint: str, topic: str, bodies: Iterable[str], *, together: int = 10) -> None:
    """Send messages with these bodies, so many in one request: all of a request are in one queue."""
    messages = [Message(topic, body.encode()) for body in bodies]
    with Producer(endpoint, [topic]) as producer:
        for start in range(0, len(messages), together):
            producer.send_many(messages[start : start + together])


def bodies_of(frame: "DataFrame") -> list[str]:
    """The bodies of all rows, sorted."""
    return sorted(bytes(row.body).decode() for row in frame.select("body").collect())
