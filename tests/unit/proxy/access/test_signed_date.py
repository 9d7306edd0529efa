"""Dates of signatures: both forms of the official clients, and what is of now."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.limits import HOUR_MS, MINUTE_MS
from ternmq_proxy.access.signed_date import parse_date

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def is_of_noon(text: str, window_ms: int, *, local_time: bool = True) -> bool:
    date = parse_date(text)
    return date is not None and date.accepted_span(NOON_MS, window_ms, local_time=local_time) is not None


@pytest.mark.parametrize(
    "text",
    [
        "20261123T120000Z",
        "2026-11-23T12:00:00Z",
        "2026-11-23T13:00:00.123456789+01:00",
        "2026-11-23T06:30:00-05:30",
    ],
)
def test_both_forms_say_the_moment(text: str) -> None:
    assert is_of_noon(text, 1000, local_time=False)


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "20261123T120000", "20261323T120000Z", "2026-11-23T12:00:00", "2026-11-23", "1795435200",
        "20261123T120000Z ", "\u0662\u0660261123T120000Z", "2026-11-23T12:00:00+99:00", "20261123T246060Z",
    ],
)  # fmt: skip
def test_anything_else_is_no_date(text: str) -> None:
    assert parse_date(text) is None


@given(quarter_hours=st.integers(-12 * 4, 14 * 4), off_s=st.integers(-60, 60), window_s=st.integers(60, 15 * 60))
def test_local_time_of_every_zone_is_of_now(quarter_hours: int, off_s: int, window_s: int) -> None:
    text = (NOON + timedelta(minutes=15 * quarter_hours, seconds=off_s)).strftime("%Y%m%dT%H%M%SZ")
    assert is_of_noon(text, window_s * 1000)


def test_a_date_between_the_zones_is_not_of_now() -> None:
    text = (NOON + timedelta(hours=3, minutes=7)).strftime("%Y%m%dT%H%M%SZ")
    assert not is_of_noon(text, 5 * MINUTE_MS)
    assert is_of_noon(text, 15 * MINUTE_MS)  # whose windows touch


@pytest.mark.parametrize("hours", [-12.3, 14.3, -24, 48])
def test_no_zone_is_further_away(hours: float) -> None:
    text = (NOON + timedelta(hours=hours)).strftime("%Y%m%dT%H%M%SZ")
    assert not is_of_noon(text, 15 * MINUTE_MS)


def test_local_time_counts_for_no_date_that_says_its_zone_and_not_where_it_is_off() -> None:
    assert not is_of_noon("2026-11-23T15:00:00Z", 15 * MINUTE_MS)
    assert is_of_noon("20261123T150000Z", 15 * MINUTE_MS)
    assert not is_of_noon("20261123T150000Z", HOUR_MS, local_time=False)
