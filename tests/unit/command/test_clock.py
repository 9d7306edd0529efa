"""`ternmq clock`: what time it is at a server, and letting it pass."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from ternmq_command.calls.server_time import clock_advance
from ternmq_command.server.clock import format_ahead
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

NO_TEST_CLOCK = (
    "ternmq: the server at {} has no test clock, so its time can't be moved; start one with `ternmq up --test-clock`\n"
)


def test_time_passes_at_the_server(call_server: Call, server: AdminServer) -> None:
    first = json.loads(call_server("clock", "advance", "2h", "--json").stdout)
    assert server.ahead == timedelta(hours=2)
    assert first["ahead_s"] == pytest.approx(7200, abs=60)
    assert first["test_clock"] is True
    second = json.loads(call_server("clock", "advance", "1h30m", "--json").stdout)
    assert server.ahead == timedelta(hours=3.5)
    assert datetime.fromisoformat(second["now"]) - datetime.fromisoformat(first["now"]) >= timedelta(hours=1.5)


def test_the_servers_time_is_shown_in_both_zones(
    call_server: Call, server: AdminServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "XYZ-05:30")
    time.tzset()
    server.ahead = timedelta(days=2, hours=3)
    try:
        shown = json.loads(call_server("clock", "show", "--json").stdout)
        people = call_server("clock", "show").stdout.splitlines()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (shown["now"][-1], shown["local"][-6:]) == ("Z", "+05:30")
    assert datetime.fromisoformat(shown["now"]) == datetime.fromisoformat(shown["local"])
    assert [line.split()[0] for line in people] == ["now", "local", "ahead", "test"]
    assert people[2] == "ahead       2d3h ahead of this machine's"
    assert people[3] == "test clock  yes"


@pytest.mark.parametrize(
    ("ahead", "text"),
    [
        (timedelta(hours=2, milliseconds=-4), "2h ahead of this machine's"),
        (timedelta(milliseconds=-400), "the same as this machine's"),
        (timedelta(seconds=-90), "1m30s behind this machine's"),
    ],
)
def test_what_asking_takes_is_not_shown_as_a_difference(ahead: timedelta, text: str) -> None:
    assert format_ahead(ahead) == text


def test_a_server_without_a_test_clock_says_how_to_get_one(call_server: Call, server: AdminServer) -> None:
    server.test_clock = False
    refused = call_server("clock", "advance", "2h")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == NO_TEST_CLOCK.format(server.endpoint)
    shown = call_server("clock", "show")
    assert shown.exit_code == 0
    assert "test clock  no (start the server with `ternmq up --test-clock` to have one)\n" in shown.stdout
    assert json.loads(call_server("clock", "show", "--json").stdout)["test_clock"] is False


def test_a_server_that_is_too_old_to_tell_its_time_is_named(call_server: Call, server: AdminServer) -> None:
    server.ahead = None
    shown = call_server("clock", "show")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr == f"ternmq: the server at {server.endpoint} does not report its time; its version is too old\n"


def test_another_refusal_is_told_in_the_servers_words(call_server: Call) -> None:
    result = call_server("clock", "advance", "36500d")
    assert (result.exit_code, result.stderr) == (1, "ternmq: BAD_REQUEST: that is too far\n")


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        ("soon", "a duration like"),
        ("-2h", "no such option"),
        ("0s", "by must be more than 0"),
        ("40000d", "at most 36500d is allowed"),
        ("9" * 400, "at most 36500d is allowed"),
    ],
)
def test_time_goes_forward_by_a_duration(call_server: Call, server: AdminServer, by: str, problem: str) -> None:
    result = call_server("clock", "advance", by)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert problem in result.stderr.lower()
    assert server.ahead == timedelta(0)


@pytest.mark.parametrize(("test_clock", "hours"), [(True, 5), (False, 0)])
def test_only_a_clock_that_tests_move_counts_for_messages(server: AdminServer, test_clock: bool, hours: int) -> None:
    """A server whose clock is just wrong is treated as by every other client."""
    server.ahead, server.test_clock = timedelta(hours=5), test_clock
    assert round(clock_advance(server.endpoint) / timedelta(hours=1)) == hours


def test_the_time_is_not_that_of_the_asking(server: AdminServer) -> None:
    before = datetime.now(UTC)
    ahead = clock_advance(server.endpoint)
    assert abs(ahead) <= datetime.now(UTC) - before
