"""`ternmq top`: shows rates of topics and lags of groups, refreshed at an interval."""

import contextlib
import fnmatch
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ternmq_command.server.diagnosis.rates import TrafficSnapshot, compute_rates, sum_column
from ternmq_command.server.diagnosis.top_screen import ScreenPart, lay_out_screen
from ternmq_command.terminal.failures import CallBroken, CallRefused, ServerUnreachable, WrongUsage
from ternmq_command.terminal.name_suggestions import list_names
from ternmq_command.terminal.options import DurationParam, endpoint_option, json_lines_option
from ternmq_command.terminal.output import format_age, format_table, iso_datetime, print_json_line
from ternmq_command.terminal.printing import echo, echo_lines

if TYPE_CHECKING:
    from ternmq_command.calls.admin import AdminClient

LOOKED_AT_MAX = 200
INTERVAL_MIN = timedelta(milliseconds=100)
Rates = dict[str, list[dict[str, object]]]


@click.command()
@click.option("--interval", type=DurationParam(), default="1s", show_default=True, help="How often to refresh.")
@click.option("--topic", "topics", default="*", show_default=True, metavar="PATTERN", help="Only these topics: 'ord*'.")
@click.option("--group", "groups", default="*", show_default=True, metavar="PATTERN", help="Only these groups.")
@click.option("--once", is_flag=True, help="Print the rates of one interval and end.")
@endpoint_option
@json_lines_option
def command(interval: timedelta, topics: str, groups: str, once: bool, endpoint: str, as_json: bool) -> None:
    """Watch messages in and out of topics, and the lags of groups, until Ctrl-C or q.

    In are messages stored, out are messages that groups finished, per second; the busiest topics and the groups with
    the largest lag come first. They share the screen, on which long names are cut. Without a terminal, tables of all
    topics and groups follow each other. At most 200 topics and 200 groups are queried: choose some with --topic and
    --group where there are more.

    \b
    Examples:
      ternmq top
      ternmq top --interval 5s --topic 'orders*'
      ternmq top --once
      ternmq top --once --json | jq '.groups[] | select(.lag > 1000)'
    """
    from ternmq_command.calls.admin import AdminClient

    if interval < INTERVAL_MIN:
        raise WrongUsage(f"--interval is at least {INTERVAL_MIN.total_seconds():g} s")
    with AdminClient(endpoint) as admin:
        watch = _RateWatch(lambda: _take_snapshot(admin, topics, groups), interval.total_seconds())
        if once or as_json or not sys.stdout.isatty():
            _print_rates(watch, once=once, as_json=as_json)
        else:
            _show_screen(watch, endpoint)


class _RateWatch:
    """Keeps the last snapshot and the rates since the one before.

    `lost` is why the last snapshot failed, None if it did not; `refused` is what the server refused in the last one
    that succeeded.
    """

    def __init__(self, take_snapshot: Callable[[], TrafficSnapshot], interval_s: float) -> None:
        self._take_snapshot = take_snapshot
        self.interval_s = interval_s
        self._before = take_snapshot()
        self.now: Rates = compute_rates(self._before, self._before)
        self.left_out, self.refused = self._before.left_out, self._before.refused
        self.lost: str | None = None

    def refresh_rates(self) -> None:
        """Take a snapshot and compute the rates; a server that does not answer now may be back the next time."""
        try:
            look = self._take_snapshot()
        except (ServerUnreachable, CallBroken) as failure:
            self.lost = failure.what
            return
        self.now, self.left_out, self.refused = compute_rates(self._before, look), look.left_out, look.refused
        self._before, self.lost = look, None


def _take_snapshot(admin: "AdminClient", topics: str, groups: str) -> TrafficSnapshot:
    from ternmq.admin import groups as group_calls
    from ternmq.admin import topics as topic_calls

    look = TrafficSnapshot(time.monotonic())
    for name in _select_names(list_names(admin, "topic"), topics, look):
        with _tolerating_refusals(look):
            look.add_topic(admin.send_call(topic_calls.describe_topic(name)))
    for name in _select_names(list_names(admin, "group"), groups, look):
        with _tolerating_refusals(look):
            look.add_group(admin.send_call(group_calls.describe_group(name)))
    return look


def _select_names(names: list[str], pattern: str, look: TrafficSnapshot) -> list[str]:
    wanted = fnmatch.filter(names, pattern)
    look.left_out += len(wanted[LOOKED_AT_MAX:])
    return wanted[:LOOKED_AT_MAX]


@contextlib.contextmanager
def _tolerating_refusals(look: TrafficSnapshot) -> Iterator[None]:
    """Keep a refusal, for example while a broker is away, and go on with the next name; ignore a deleted one."""
    try:
        yield
    except CallRefused as refusal:
        if not refusal.word.endswith("NOT_FOUND"):
            look.refused = refusal.message


def _print_rates(watch: _RateWatch, *, once: bool, as_json: bool) -> None:
    while True:
        time.sleep(watch.interval_s)
        watch.refresh_rates()
        if watch.lost is not None:
            if once:
                raise CallBroken(watch.lost)
            echo(f"ternmq: {watch.lost}; trying again", err=True)
        elif as_json:
            print_json_line(_rates_record(watch))
        else:
            echo_lines("\n".join([*_format_lines(watch), ""]))
        if once:
            return


def _rates_record(watch: _RateWatch) -> dict[str, object]:
    now = iso_datetime(datetime.now(UTC), timespec="milliseconds")
    return {"time": now, **watch.now, "left_out": watch.left_out, "refused": watch.refused}


def _show_screen(watch: _RateWatch, endpoint: str) -> None:
    from ternmq_command.terminal.screen import TerminalScreen

    with TerminalScreen.open_screen() as screen:
        while True:
            head = [f"ternmq top  {endpoint}  every {watch.interval_s:g} s, q to quit", *_head_lines(watch)]
            screen.draw_lines(lay_out_screen(head, _screen_parts(watch), *screen.size()))
            if screen.wait_for_quit(watch.interval_s):
                return
            watch.refresh_rates()


def _format_lines(watch: _RateWatch) -> list[str]:
    """Return all rows with whole names, for output that is no screen."""
    lines = _head_lines(watch)
    for part in _screen_parts(watch):
        lines += ["", *(format_table(part.rows).split("\n") if part.rows else [part.nothing])]
    return lines


def _screen_parts(watch: _RateWatch) -> tuple[ScreenPart, ScreenPart]:
    topics, groups = watch.now["topics"], watch.now["groups"]
    return ScreenPart(list(map(_table_row, topics)), "no topics"), ScreenPart(
        list(map(_table_row, groups)), "no groups"
    )


def _head_lines(watch: _RateWatch) -> list[str]:
    topics, groups = watch.now["topics"], watch.now["groups"]
    into, out, lag = sum_column(topics, "in_per_s"), sum_column(topics, "out_per_s"), sum_column(groups, "lag")
    lines = [f"{iso_datetime(datetime.now(UTC))}  in {into:,.1f}/s  out {out:,.1f}/s  lag {lag:,.0f}"]
    if watch.lost is not None:
        lines.append(f"{watch.lost}; trying again")
    if watch.refused is not None:
        lines.append(f"some figures are missing: {watch.refused}")
    if watch.left_out:
        lines.append(f"{watch.left_out} more were not queried; name topics with --topic, groups with --group")
    return lines


def _table_row(row: dict[str, object]) -> dict[str, object]:
    shown = {name.replace("_per_s", "/s"): value for name, value in row.items() if name != "lag_s"}
    if "lag" in row:
        age = row["lag_s"]
        shown["oldest"] = format_age(age) if isinstance(age, float) and row["lag"] else None
    return shown
