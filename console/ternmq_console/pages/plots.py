"""Shows figures of the last hours as plots, and as numbers for browsers without the script."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.responses import Response

from ternmq_console.pages.base.answering import page
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.base.rendering import size

if TYPE_CHECKING:
    from starlette.requests import Request

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking

HOURS = (1, 3, 6)
# The fewest values that are drawn, for a server that was just started: ten minutes.
SHOWN_MIN = 60
_HOUR_S = 3600


# Units of the axis; values of other units are formatted with their unit.
_AXIS_UNITS = {"messages/s", "calls/s", "ms", "s", "cores"}


class Chart(NamedTuple):
    """A chart, whose `series` are drawn together and have the same unit."""

    title: str
    series: tuple[str, ...]


SERVER_CHARTS = (
    Chart("Messages", ("in", "out", "acknowledged")),
    Chart("Calls", ("calls", "failed_calls")),
    Chart("Time that calls take", ("call_p50_ms", "call_p99_ms", "send_p99_ms", "sync_p99_ms")),
    Chart("Connections", ("connections",)),
    Chart("Clients with a Telemetry stream", ("clients",)),
    Chart("Polls that wait on brokers", ("polls",)),
    Chart("Open transactions", ("transactions",)),
    Chart("Commit log", ("log_bytes",)),
    Chart("Disk that is used", ("disk_used",)),
    Chart("Memory of the process", ("memory",)),
    Chart("CPU of the process", ("cpu",)),
)
TOPIC_CHARTS = (Chart("Messages", ("in", "out", "acknowledged")),)
GROUP_CHARTS = (Chart("Lag", ("lag",)), Chart("Age of the oldest unfinished message", ("oldest",)))
LABELS = {
    "failed_calls": "failed",
    "call_p50_ms": "calls, half of them below",
    "call_p99_ms": "calls, 99 % below",
    "send_p99_ms": "sends, 99 % below",
    "sync_p99_ms": "syncs of the disk, 99 % below",
    "log_bytes": "commit log",
    "disk_used": "used",
    "cpu": "CPU",
}


class Numbers(NamedTuple):
    """The numbers of one series as text: its last value, and mean and maximum of the shown hours."""

    label: str
    last: str
    mean: str
    highest: str


class Drawn(NamedTuple):
    """A chart with values, for the template."""

    caption: str
    unit: str
    series: str
    labels: str
    numbers: list[Numbers]


class Plots(NamedTuple):
    """The plots of a page: its charts, the path of the values for the script, and the number of hours."""

    charts: list[Drawn]
    source: str
    hours: int


async def plots_of(
    request: "Request", asking: "Asking", charts: tuple[Chart, ...], query: str = "", **of: str
) -> Plots | None:
    """Build the plots of a topic, a group or, with neither, the server; None if the user lacks the right.

    `query` names the topic or group for the script.
    """
    hours = hours_of(request)
    history = await asking.ask_if_allowed("GetHistory", **of)
    if history is None:
        return None
    known = {each.name: each for each in history.series}
    steps = _steps(history, hours)
    drawn = [_drawn(chart, known, steps) for chart in charts if any(name in known for name in chart.series)]
    return Plots(drawn, f"/console/plots?{query}&hours={hours}", hours)


def hours_of(request: "Request") -> int:
    """Return the requested number of hours; the first of HOURS if it is none of them."""
    asked = request.query_params.get("hours", "")
    return next((hours for hours in HOURS if str(hours) == asked), HOURS[0])


def _steps(history: "Message", hours: int) -> int:
    step_s = history.step.seconds + history.step.nanos / 1e9
    return math.ceil(hours * _HOUR_S / step_s) if step_s else 0


def _drawn(chart: Chart, known: "dict[str, Message]", steps: int) -> Drawn:
    there = [name for name in chart.series if name in known]
    unit = known[there[0]].unit
    return Drawn(
        f"{chart.title}, in {unit}" if unit in _AXIS_UNITS else chart.title,
        unit,
        " ".join(there),
        "|".join(LABELS.get(name, name) for name in there),
        [_numbers(name, list(known[name].values)[-steps:], unit) for name in there],
    )


def _numbers(name: str, values: list[float], unit: str) -> Numbers:
    there = [value for value in values if value >= 0]
    last, mean, highest = (there[-1], sum(there) / len(there), max(there)) if there else (None, None, None)
    return Numbers(LABELS.get(name, name), value_text(last, unit), value_text(mean, unit), value_text(highest, unit))


def value_text(value: float | None, unit: str) -> str:
    """Format a value for people, with its unit unless that is in the caption."""
    if value is None:
        return "unknown"
    if unit == "bytes":
        return size(round(value))
    if unit == "share":
        return f"{100 * value:.1f} %"
    number = f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
    return number if unit in _AXIS_UNITS else f"{number} {unit}"


async def rates(request: "Request", asking: "Asking") -> Response:
    """Show the plots of the server."""
    return await page(
        request, asking, "plots/rates.html", title="Rates", grafana=asking.grafana,
        plots=await plots_of(request, asking, SERVER_CHARTS),
    )  # fmt: skip


async def values(request: "Request", asking: "Asking") -> Response:
    """Return the values of a topic, a group or the server, for the script."""
    of: dict[str, Any] = {}
    for kind in ("topic", "group"):
        if name := request.query_params.get(kind):
            of = {kind: name}
    history = await asking.ask("GetHistory", **of)
    shown = {each.name: list(each.values)[-_steps(history, hours_of(request)) :] for each in history.series}
    first = min(map(_known_from, shown.values()), default=0)
    told = {
        "step": history.step.seconds,
        "end": history.end.seconds,
        "series": {name: [None if value < 0 else value for value in each[first:]] for name, each in shown.items()},
    }
    return Response(msgspec.json.encode(told), media_type="application/json")


def _known_from(values: list[float]) -> int:
    """Return the index of the first known value, so that at least SHOWN_MIN values remain."""
    known = next((place for place, value in enumerate(values) if value >= 0), len(values))
    return max(0, min(known, len(values) - SHOWN_MIN))


FEATURE = Feature(homes=(("/rates", "Rates"),), shown={"/rates": rates, "/plots": values}, done={})
