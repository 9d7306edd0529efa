"""Times as people type them, how old things are, and tables of unknown length."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from ternmq_command.terminal.output import STREAM_PAGE, format_age, print_stream
from ternmq_command.terminal.time_parsing import parse_exact_time, parse_time
from ternmq_common.resources.resource_settings import Beginning

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-08-01T10:30:00Z", datetime(2026, 8, 1, 10, 30, tzinfo=UTC)),
        ("2026-08-01T10:30:00.250+02:00", datetime(2026, 8, 1, 8, 30, 0, 250_000, tzinfo=UTC)),
        ("20260801T103000Z", datetime(2026, 8, 1, 10, 30, tzinfo=UTC)),
        ("2h", NOW - timedelta(hours=2)),
        ("-2h", NOW - timedelta(hours=2)),
        (" 1d12h ", NOW - timedelta(hours=36)),
        ("500ms", NOW - timedelta(milliseconds=500)),
    ],
)
def test_a_time_is_iso_8601_or_how_long_ago(text: str, moment: datetime) -> None:
    assert parse_time(text, now=NOW) == moment


def test_a_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", BERLIN)
    time.tzset()
    try:
        summer = timezone(timedelta(hours=2))
        assert parse_time("2026-08-01T12:00", now=NOW) == datetime(2026, 8, 1, 12, tzinfo=summer)
        assert parse_time("2026-08-01", now=NOW) == datetime(2026, 8, 1, tzinfo=summer)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text", ["", "soon", "12", "12:00", "2026", "1785585600000", "2026-13-01", "9999999d", "0001-01-01"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a time"):
        parse_time(text, now=NOW)


@pytest.mark.parametrize("text", ["2026-08-01T10:30:00.250+02:00", " 20260801T083000.250Z "])
def test_an_exact_time_is_iso_8601(text: str) -> None:
    assert parse_exact_time(text) == datetime(2026, 8, 1, 8, 30, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "2h", "-2h", "soon", "12", "0001-01-01", "1969-12-31T00:00Z"])
def test_an_exact_time_is_not_how_long_ago(text: str) -> None:
    with pytest.raises(ValueError, match="a time"):
        parse_exact_time(text)


def test_what_can_not_be_shown_as_a_time_is_shown_as_it_is() -> None:
    assert Beginning().to_text("9" * 30) == "9" * 30


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0s"), (0.4, "0.4s"), (12.9, "12s"), (60, "1m"), (303, "5m3s"), (11_533, "3h12m"), (86_430, "1d")],
)
def test_an_age_has_two_units_at_most(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


def test_a_stream_is_printed_while_it_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    def records() -> Iterator[dict[str, object]]:
        for number in range(STREAM_PAGE + 1):
            if number == STREAM_PAGE:
                assert len(capsys.readouterr().out.splitlines()) == STREAM_PAGE + 1
            yield {"number": number, "a_name": "x"}

    assert print_stream(records(), as_json=False) == STREAM_PAGE + 1
    assert capsys.readouterr().out == "   256  x\n"


def test_columns_of_later_pages_stand_below_those_of_earlier_ones(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["short"] * STREAM_PAGE + ["s", "a longer name"]
    print_stream(({"name": name, "size": 1} for name in names), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[1]) == ("NAME   SIZE", "short     1")
    assert lines[-2:] == ["s                 1", "a longer name     1"]


def test_a_stream_of_nothing_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_stream([], as_json=False) == 0
    assert capsys.readouterr().out == ""
