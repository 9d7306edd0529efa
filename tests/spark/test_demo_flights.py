"""The tables of the demo's second part, where the flights of 2013 have no example: see tests/e2e/test_demo_spark.py."""

from typing import TYPE_CHECKING

from pyspark_ternmq.demo import flights

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "row long, carrier string, origin string, dest string, dep_delay int, distance int"


def made(spark: "SparkSession", *rows: tuple[int, str, str, str, int | None]) -> "DataFrame":
    return spark.createDataFrame([(*row, 100) for row in rows], SCHEMA)


def test_a_flight_in_two_messages_counts_once(spark: "SparkSession") -> None:
    messages = made(spark, (1, "XX", "JFK", "LAX", 5), (1, "XX", "JFK", "LAX", 5), (2, "XX", "JFK", "LAX", 7))
    assert sorted(flights.flight_numbers(messages)) == [1, 1, 2]
    (route,) = flights.busiest_routes(flights.each_once(messages), {}).collect()
    assert (route.flights, route.departed, route.mean_delay_minutes) == (2, 2, 6.0)


def test_a_carrier_that_never_departed_comes_last_and_a_code_without_a_name_stands_for_itself(
    spark: "SparkSession",
) -> None:
    rows = made(spark, (1, "AA", "JFK", "LAX", None), (2, "XX", "JFK", "LAX", -4), (3, "XX", "JFK", "LAX", 16))
    late, grounded = flights.delays_by_carrier(rows, {"AA": "American Airlines Inc."}).collect()
    assert (late.carrier, late.carrier_name, late.median_delay_minutes) == ("XX", "XX", 6.0)
    assert (late.p90_delay_minutes, late.punctual_share) == (14.0, 0.5)
    assert (grounded.carrier_name, grounded.flights, grounded.departed) == ("American Airlines Inc.", 1, 0)
    assert grounded.p90_delay_minutes is None
