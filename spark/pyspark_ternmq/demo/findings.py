"""The findings in the charts' titles, computed from the tables' rows only."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import date

Row = Mapping[str, Any]

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LEGAL_FORMS = ("Inc.", "Co.", "Corporation")
PUNCTUAL_MINUTES = 15
"""A departure that is less late than this is punctual, as in the statistics of the US."""
FEW_FLIGHTS_MOST = 1000
PEAK_PROMINENCE = 0.1
"""An hour is a peak if it exceeds its neighbours by this share of the busiest one; less is noise of a schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyProfile:
    """Departures of a mean day, by hour: of each weekday that the data has, and of each airport over all days."""

    hours: Sequence[int]
    by_weekday: Mapping[int, Sequence[float]]
    by_origin: Mapping[str, Sequence[float]]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "HourlyProfile":
        days: set[date] = {row["scheduled_hour"].date() for row in rows}
        days_of = Counter(day.weekday() for day in days)
        flown = [row for row in rows if row["departed"]]
        present = {row["scheduled_hour"].hour for row in flown}
        hours = range(min(present, default=0), max(present, default=-1) + 1)
        weekdays, origins = Counter[tuple[int, int]](), Counter[tuple[str, int]]()
        for row in flown:
            hour = row["scheduled_hour"]
            weekdays[hour.weekday(), hour.hour] += row["departed"]
            origins[row["origin"], hour.hour] += row["departed"]
        return cls(
            hours=hours,
            by_weekday={day: [weekdays[day, hour] / days_of[day] for hour in hours] for day in sorted(days_of)},
            by_origin={
                origin: [origins[origin, hour] / len(days) for hour in hours]
                for origin in sorted({row["origin"] for row in flown})
            },
        )

    @property
    def hourly_totals(self) -> Sequence[float]:
        """Departures of a mean day, by hour."""
        return [sum(values) for values in zip(*self.by_origin.values(), strict=True)]


def hourly_finding(profile: HourlyProfile) -> str:
    """When most flights depart, and which weekday has the fewest."""
    finding = f"Departures peak at {_join_words([f'{hour}:00' for hour in find_peaks(profile)])}"
    a_day = {day: sum(values) for day, values in profile.by_weekday.items()}
    if len(a_day) < len(WEEKDAYS):
        return finding
    quietest = min(a_day, key=a_day.__getitem__)
    others = sum(count for day, count in a_day.items() if day != quietest) / (len(a_day) - 1)
    fewer = 1 - a_day[quietest] / others
    return f"{finding}; {WEEKDAYS[quietest]} has {fewer:.0%} fewer than other days"


def find_peaks(profile: HourlyProfile) -> Sequence[int]:
    """The hours that stand out from those around them.

    By how much is a summit's prominence: its height above the lowest hour on the way to a busier one, where before the
    first hour and after the last one nothing departs. Of several hours that are alike the first one counts.
    """
    totals = profile.hourly_totals
    needed = PEAK_PROMINENCE * max(totals, default=0.0)
    return [
        hour
        for place, (hour, height) in enumerate(zip(profile.hours, totals, strict=True))
        if height
        - max(
            _lowest_until(reversed(totals[:place]), height, is_alike_busier=True),
            _lowest_until(totals[place + 1 :], height, is_alike_busier=False),
        )
        > needed
    ]


def _lowest_until(heights: Iterable[float], height: float, *, is_alike_busier: bool) -> float:
    lowest = height
    for other in heights:
        if other > height or (is_alike_busier and other == height):
            return lowest
        lowest = min(lowest, other)
    return 0.0


def _join_words(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def carrier_finding(rows: Sequence[Row]) -> str:
    """Between which carriers the late departures differ most."""
    flown = [row for row in compared_first(rows) if row["flights"] >= few_flights(rows)]
    if not flown:
        return "No flight departed"
    worst, best = flown[0], flown[-1]
    late, early = (format_minutes(each["p90_delay_minutes"]) for each in (worst, best))
    delays = f"departs {late} minutes late or more; at {display_name(best)}, {early}"
    return f"One in ten {display_name(worst)} flights {delays}"


def compared_first(rows: Sequence[Row]) -> Sequence[Row]:
    """The carriers that flew, the latest first; those with few flights, which are not compared, after all others."""
    few = few_flights(rows)
    flown = [row for row in rows if row["departed"]]
    return sorted(flown, key=lambda row: (row["flights"] < few, -row["p90_delay_minutes"]))


def few_flights(rows: Sequence[Row]) -> int:
    """A carrier with fewer has percentiles that a few bad days make."""
    return min(FEW_FLIGHTS_MOST, sum_rows(rows) // 100)


def route_finding(rows: Sequence[Row], shown: Sequence[Row]) -> str:
    """The busiest route, and how much of the traffic the shown ones have."""
    first = shown[0]
    busiest = f"{first['origin']} to {first['dest']} is the busiest route"
    if len(shown) == len(rows):
        return f"{busiest}, with {first['flights']:,} of {sum_rows(rows):,} flights"
    share = sum_rows(shown) / sum_rows(rows)
    return f"{busiest}; the top {len(shown)} of {len(rows)} have {share:.0%} of all flights"


def display_name(row: Row) -> str:
    """A carrier's name without the legal form: `United Air Lines` for United Air Lines Inc."""
    name = str(row["carrier_name"])
    for form in LEGAL_FORMS:
        name = name.removesuffix(f" {form}")
    return name


def sum_rows(rows: Iterable[Row]) -> int:
    return sum(row["flights"] for row in rows)


def format_minutes(value: float) -> str:
    """Whole minutes, or tenths of less than one, with a real minus sign: 51, or 0.5."""
    text = f"{value:.0f}" if abs(value) >= 1 or value == 0 else f"{value:.1f}"
    return text.replace("-", "\N{MINUS SIGN}")
