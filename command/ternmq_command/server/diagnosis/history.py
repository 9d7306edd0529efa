"""`ternmq history`: prints a server's figures of the last six hours."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import iso_or_none, print_json, print_records

if TYPE_CHECKING:
    from ternmq.admin.history import History, Series
    from ternmq_command.terminal.output import Record

_MINUTES_10 = timedelta(minutes=10)


@click.command()
@click.option("--topic", default="", help="Rates of this topic.")
@click.option("--group", default="", help="The lag of this consumer group.")
@endpoint_option
@json_option
def command(topic: str, group: str, endpoint: str, as_json: bool) -> None:
    """Print a server's figures of the last six hours: of the server, of a topic, or of a group.

    The table has the last value, and the mean and maximum of the last ten minutes and of all; figures that were never
    above 0 are left out. --json prints all values, one for each ten seconds, null where none is known. They are kept in
    memory, and lost when the process ends.

    \b
    Examples:
      ternmq history
      ternmq history --topic orders
      ternmq history --group billing --json | jq '.series[] | select(.name == "lag") | .values | max'
    """
    from ternmq.admin import history as history_calls
    from ternmq_command.calls.admin import send_call

    if topic and group:
        raise WrongUsage("give --topic or --group, not both")
    found = send_call(endpoint, history_calls.history(topic=topic, group=group))
    if as_json:
        print_json(_history_record(found))
    else:
        print_records(
            [_series_row(each, found.step) for each in found.series], as_json=False, nothing="nothing was above 0 yet"
        )


def _history_record(history: "History") -> dict[str, object]:
    return {
        "step_s": history.step.total_seconds(),
        "end": iso_or_none(history.end),
        "series": [{"name": each.name, "unit": each.unit, "values": list(each.values)} for each in history.series],
    }


def _series_row(series: "Series", step: timedelta) -> "Record":
    known = [value for value in series.values if value is not None]
    late = [value for value in series.values[-(_MINUTES_10 // step) :] if value is not None]
    return {
        "figure": series.name,
        "unit": series.unit,
        "last": _round_first(known[-1:]),
        "mean_10min": _round_first([sum(late) / len(late)] if late else []),
        "max_10min": _round_first([max(late)] if late else []),
        "mean": _round_first([sum(known) / len(known)] if known else []),
        "max": _round_first([max(known)] if known else []),
    }


def _round_first(values: list[float]) -> float | None:
    return round(values[0], 3) if values else None
