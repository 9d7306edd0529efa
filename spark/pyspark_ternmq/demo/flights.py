"""The flights in the lake, and the three tables that are computed from them.

Flight      one message of the lake's `data`, its body parsed by the lake pipeline as `JSON_SCHEMA` says. A message that
            was sent again after an answer that was lost has an id of its own, so `row` identifies a flight.
Time        the schedule's, in New York: what the flights say of themselves. The lake's own date and hour are those of
            the message's birth, and mean nothing here.
Departed    a flight has a departure delay if and only if it departed; the others were cancelled.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pyspark_ternmq.demo.findings import PUNCTUAL_MINUTES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

JSON_SCHEMA = ", ".join(
    (
        "year int, month int, day int, hour int, minute int",
        "sched_dep_time int, dep_time int, dep_delay int, sched_arr_time int, arr_time int, arr_delay int",
        "carrier string, flight int, tailnum string, origin string, dest string",
        "air_time int, distance int, time_hour string",
    )
)
ROW_PROPERTY = "row"
# The inputs of the tables.
COLUMNS = ("year", "month", "day", "hour", "origin", "dest", "carrier", "dep_delay", "distance")


def read_messages(spark: "SparkSession", lake: str) -> "DataFrame":
    """The data of the lake, with the number of each message's flight in `row`."""
    number = F.col("properties")[ROW_PROPERTY].cast("long").alias(ROW_PROPERTY)
    return spark.read.parquet(f"{lake}/data").select(number, *(f"json.{column}" for column in COLUMNS))


def flight_numbers(messages: "DataFrame") -> list[int]:
    """Return the number of the flight of each message."""
    column = messages.select(ROW_PROPERTY).toArrow().column(0)
    return list[int](column.to_pylist())


def each_once(messages: "DataFrame") -> "DataFrame":
    """Each flight, also if it is in several messages."""
    return messages.dropDuplicates([ROW_PROPERTY])


def hourly_departures(rows: "DataFrame") -> "DataFrame":
    """Count scheduled and departed flights for each hour of the schedule and each airport."""
    hour = F.make_timestamp_ntz("year", "month", "day", "hour", F.lit(0), F.lit(0))
    return (
        rows.groupBy(hour.alias("scheduled_hour"), "origin")
        .agg(*_count_columns(), F.avg("dep_delay").alias("mean_delay_minutes"))
        .orderBy("scheduled_hour", "origin")
    )


def delays_by_carrier(rows: "DataFrame", carrier_names: Mapping[str, str]) -> "DataFrame":
    """Compute the delays of departures for each carrier."""
    punctual = F.avg((F.col("dep_delay") < PUNCTUAL_MINUTES).cast("int"))
    delays = rows.groupBy("carrier").agg(
        *_count_columns(),
        F.avg("dep_delay").alias("mean_delay_minutes"),
        F.percentile("dep_delay", F.lit(0.5)).alias("median_delay_minutes"),
        F.percentile("dep_delay", F.lit(0.9)).alias("p90_delay_minutes"),
        punctual.alias("punctual_share"),
    )
    return _add_name(delays, "carrier", carrier_names).orderBy(F.desc_nulls_last("p90_delay_minutes"), "carrier")


def busiest_routes(rows: "DataFrame", airport_names: Mapping[str, str]) -> "DataFrame":
    """All routes, the one with the most flights first."""
    routes = rows.groupBy("origin", "dest").agg(
        *_count_columns(),
        F.avg("dep_delay").alias("mean_delay_minutes"),
        F.countDistinct("carrier").alias("carriers"),
        F.max("distance").alias("distance_miles"),
    )
    return _add_name(routes, "dest", airport_names).orderBy(F.desc("flights"), "origin", "dest")


def _count_columns() -> "tuple[Column, Column]":
    return F.count(F.lit(1)).alias("flights"), F.count("dep_delay").alias("departed")


def _add_name(table: "DataFrame", code: str, names: Mapping[str, str]) -> "DataFrame":
    """Add the name of a code beside it, or the code itself where it has none."""
    name = F.coalesce(f"{code}_known", code).alias(f"{code}_name")
    known = table.sparkSession.createDataFrame(list(names.items()), f"{code} string, {code}_known string")
    others = [F.col(column) for column in table.columns if column != code]
    return table.join(F.broadcast(known), code, "left").select(code, name, *others)
