"""What the titles of the demo's charts say."""

from datetime import datetime, timedelta

import pytest

from pyspark_ternmq.demo.findings import (
    HourlyProfile,
    Row,
    carrier_finding,
    compared_first,
    display_name,
    few_flights,
    find_peaks,
    format_minutes,
    hourly_finding,
    route_finding,
)

MONDAY = datetime(2013, 1, 7)  # noqa: DTZ001 - New York's clock


def hour_row(day: int, hour: int, departed: int, origin: str = "JFK") -> Row:
    return {"scheduled_hour": MONDAY + timedelta(days=day, hours=hour), "origin": origin, "departed": departed}


def carrier(name: str, flights: int, p90: float) -> Row:
    return {"carrier_name": name, "flights": flights, "departed": flights, "p90_delay_minutes": p90}


def route(origin: str, dest: str, flights: int) -> Row:
    return {"origin": origin, "dest": dest, "flights": flights}


def test_a_profile_is_the_mean_of_the_days_of_each_weekday() -> None:
    two_mondays = [hour_row(0, 8, 10), hour_row(7, 8, 20), hour_row(7, 10, 2, "EWR"), hour_row(1, 8, 4)]
    profile = HourlyProfile.of(two_mondays)
    assert list(profile.hours) == [8, 9, 10]
    assert profile.by_weekday == {0: [15, 0, 1], 1: [4, 0, 0]}
    assert profile.by_origin["JFK"] == pytest.approx([34 / 3, 0, 0])
    assert profile.hourly_totals == pytest.approx([34 / 3, 0, 2 / 3])


def test_an_hour_in_which_all_flights_were_cancelled_is_no_hour_of_the_profile() -> None:
    assert list(HourlyProfile.of([hour_row(0, 1, 0), hour_row(0, 8, 3)]).hours) == [8]


@pytest.mark.parametrize(
    ("departures", "hours"),
    [
        ({5: 5, 6: 70, 7: 62, 8: 73, 11: 43, 15: 64, 16: 61, 17: 65, 21: 29}, [6, 8, 11, 17, 21]),
        ({5: 5, 6: 70, 7: 62, 8: 73, 9: 55, 10: 43, 11: 64, 12: 61, 13: 65, 14: 29}, [6, 8, 13]),
        ({8: 10, 9: 10, 10: 2, 11: 10}, [8, 11]),
        ({8: 10, 9: 9, 10: 10}, [8]),
        ({8: 3}, [8]),
    ],
    ids=["empty hours part", "a small rise is none", "alike, side by side", "alike, hardly parted", "one hour"],
)
def test_peaks_are_the_hours_that_stand_out(departures: dict[int, int], hours: list[int]) -> None:
    assert find_peaks(HourlyProfile.of([hour_row(0, hour, count) for hour, count in departures.items()])) == hours


def test_the_heading_tells_all_peaks() -> None:
    profile = HourlyProfile.of([hour_row(0, hour, count) for hour, count in ((6, 7), (7, 5), (8, 9), (9, 3), (17, 8))])
    assert hourly_finding(profile) == "Departures peak at 6:00, 8:00 and 17:00"
    assert (
        hourly_finding(HourlyProfile.of([hour_row(0, 6, 5), hour_row(0, 8, 9)])) == "Departures peak at 6:00 and 8:00"
    )


def test_the_quietest_day_is_told_if_there_are_all_days() -> None:
    week = [hour_row(day, 9, 60 if day == 5 else 80) for day in range(7)]
    assert hourly_finding(HourlyProfile.of(week)) == "Departures peak at 9:00; Saturday has 25% fewer than other days"


def test_carriers_with_few_flights_are_not_compared() -> None:
    rows = [carrier("Rare Air Inc.", 3, 500.0), carrier("Late Air Inc.", 900, 77.4), carrier("Good Air Co.", 800, 5.0)]
    assert few_flights(rows) == 17
    assert carrier_finding(rows) == "One in ten Late Air flights departs 77 minutes late or more; at Good Air, 5"


def test_carriers_are_told_apart_by_how_late_they_are_in_whatever_order_the_rows_come() -> None:
    rows = [carrier("Good Air", 800, 5.0), carrier("Rare Air", 3, 500.0), carrier("Late Air", 900, 77.4)]
    assert [row["carrier_name"] for row in compared_first(rows)] == ["Late Air", "Good Air", "Rare Air"]
    assert carrier_finding(rows) == carrier_finding(rows[::-1])


def test_of_many_flights_a_carrier_with_a_thousand_has_enough() -> None:
    assert few_flights([carrier("Air", 10_000_000, 1.0)]) == 1000


def test_the_top_routes_are_told_with_their_share() -> None:
    rows = [route("JFK", "LAX", 60), route("JFK", "BOS", 30), route("LGA", "BOS", 10)]
    assert route_finding(rows, rows[:2]) == "JFK to LAX is the busiest route; the top 2 of 3 have 90% of all flights"
    assert route_finding(rows, rows) == "JFK to LAX is the busiest route, with 60 of 100 flights"


@pytest.mark.parametrize(
    ("whole", "short"),
    [
        ("United Air Lines Inc.", "United Air Lines"),
        ("US Airways Inc.", "US Airways"),
        ("AirTran Airways Corporation", "AirTran Airways"),
        ("Envoy Air", "Envoy Air"),
    ],
)
def test_a_carrier_is_called_without_its_legal_form(whole: str, short: str) -> None:
    assert display_name({"carrier_name": whole}) == short


@pytest.mark.parametrize(("value", "text"), [(51.4, "51"), (0.5, "0.5"), (0.0, "0"), (-2.0, "\N{MINUS SIGN}2")])
def test_minutes_are_whole_unless_they_are_less_than_one(value: float, text: str) -> None:
    assert format_minutes(value) == text
