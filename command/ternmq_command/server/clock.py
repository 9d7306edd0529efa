"""`ternmq clock`: shows a server's clock, and moves a test clock ahead."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.failures import CallRefused, CommandFailure, WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import DurationParam, endpoint_option, json_option
from ternmq_command.terminal.output import format_age, format_record, iso_datetime, print_json
from ternmq_command.terminal.printing import echo_lines

if TYPE_CHECKING:
    from ternmq_command.calls.server_time import ServerTime


@click.group(cls=NearestGroup)
def command() -> None:
    """Show a server's clock, or move it ahead.

    Time can be moved where the server was started with `ternmq up --test-clock`: for tests of delays, retries and
    transactions that need not wait for them.

    \b
    Examples:
      ternmq clock show
      ternmq clock advance 2h
    """


@command.command()
@endpoint_option
@json_option
def show(endpoint: str, as_json: bool) -> None:
    """Show the server's time, how far it is ahead of this machine's, and whether it can be moved.

    \b
    Examples:
      ternmq clock show
      ternmq clock show --json | jq .ahead_s
    """
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.calls.server_time import call_with_time, server_now

    with AdminClient(endpoint) as admin:
        info, time = call_with_time(lambda: admin.send_call(broker_calls.server_info()), server_now)
    if time is None:
        raise CommandFailure(f"the server at {endpoint} does not report its time; its version is too old")
    _print_time(time, test_clock=info.test_clock, as_json=as_json)


@command.command()
@click.argument("by", type=DurationParam())
@endpoint_option
@json_option
def advance(by: timedelta, endpoint: str, as_json: bool) -> None:
    """Move the server's clock ahead by BY: 90s, 1h30m, 3d. All that becomes due happens now.

    Delayed messages are delivered, invisible durations end, producers get transaction checks. It is one jump: what
    would have happened several times in between happens once. The clock goes on from there, and can't be moved back.

    Times that applications set come from their own clocks: after an advance of two hours, a message that one of them
    sends for in one hour is due at once. `ternmq send --delay` takes that into account.

    \b
    Examples:
      ternmq clock advance 2h
      ternmq clock advance 1h30m --endpoint broker.example:8081
      ternmq clock advance 3d --json | jq -r .now
    """
    from ternmq_command.calls.server_time import call_with_time

    if not by:
        raise WrongUsage("BY must be more than 0; `ternmq clock show` shows the time")
    _, time = call_with_time(lambda: _advance_clock(endpoint, by), lambda now: now)
    assert time is not None, "the call is not older than the field"
    _print_time(time, test_clock=True, as_json=as_json)


def _advance_clock(endpoint: str, by: timedelta) -> datetime:
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import AdminClient
    from ternmq_protos.v2 import definition_pb2

    with AdminClient(endpoint) as admin:
        try:
            return admin.send_call(broker_calls.advance_clock(by))
        except CallRefused as refusal:
            if refusal.code != definition_pb2.FORBIDDEN:
                raise
            raise CommandFailure(
                f"the server at {endpoint} has no test clock, so its time can't be moved; "
                "start one with `ternmq up --test-clock`"
            ) from None


def _print_time(time: "ServerTime", *, test_clock: bool, as_json: bool) -> None:
    record = {
        "now": iso_datetime(time.now, timespec="milliseconds"),
        "local": time.now.astimezone().isoformat(timespec="milliseconds"),
        "ahead_s": round(time.ahead.total_seconds(), 3),
        "test_clock": test_clock,
    }
    if as_json:
        print_json(record)
        return
    echo_lines(
        format_record(
            {
                "now": record["now"],
                "local": record["local"],
                "ahead": format_ahead(time.ahead),
                "test_clock": True if test_clock else "no (start the server with `ternmq up --test-clock` to have one)",
            }
        )
    )


def format_ahead(ahead: timedelta) -> str:
    """Format how far the server's clock is from this machine's; less than a second may be the call's own time."""
    seconds = round(ahead.total_seconds())
    if not seconds:
        return "the same as this machine's"
    return f"{format_age(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} this machine's"
