"""Shows figures of the last hours as plots, and as numbers for browsers without the script."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.responses import Response

from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.page_response import render_page
from ternmq_console.pages.base.rendering import format_size

if TYPE_CHECKING:
    from starlette.requests import Request

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

HOURS = (1, 3, 6)
# The fewest values that are drawn, for a server that was just started: ten minutes.
SHOWN_MIN = 60
_HOUR_S = 3600


# Units of the axis; values of other units are formatted with their unit.
_AXIS_UNITS = {"messages/s", "calls/s", "ms", "s", "cores"}


class ChartSpec(NamedTuple):
    """A chart, whose `series` are drawn together and have the same unit."""

    title: str
    series: tuple[str, ...]


SERVER_CHARTS = (
    ChartSpec("Messages", ("in", "out", "acknowledged")),
    ChartSpec("Calls", ("calls", "failed_calls")),
    ChartSpec("Time that calls take", ("call_p50_ms", "call_p99_ms", "send_p99_ms", "sync_p99_ms")),
    ChartSpec("Connections", ("connections",)),
    ChartSpec("Clients with a Telemetry stream", ("clients",)),
    ChartSpec("Polls that wait on brokers", ("polls",)),
    ChartSpec("Open transactions", ("transactions",)),
    ChartSpec("Commit log", ("log_bytes",)),
    ChartSpec("Disk that is used", ("disk_used",)),
    ChartSpec("Memory of the process", ("memory",)),
    ChartSpec("CPU of the process", ("cpu",)),
)
TOPIC_CHARTS = (ChartSpec("Messages", ("in", "out", "acknowledged")),)
GROUP_CHARTS = (ChartSpec("Lag", ("lag",)), ChartSpec("Age of the oldest unfinished message", ("oldest",)))
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


class SeriesNumbers(NamedTuple):
    """The numbers of one series as text: its last value, and mean and maximum of the shown hours."""

    label: str
    last: str
    mean: str
    highest: str


class DrawnChart(NamedTuple):
    """A chart with values, for the template."""

    caption: str
    unit: str
    series: str
    labels: str
    numbers: list[SeriesNumbers]


class PagePlots(NamedTuple):
    """The plots of a page: its charts, the path of the values for the script, and the number of hours."""

    charts: list[DrawnChart]
    source: str
    hours: int


async def build_plots(
    request: "Request", asking: "PageContext", charts: tuple[ChartSpec, ...], query: str = "", **of: str
) -> PagePlots | None:
    """Build the plots of a topic, a group or, with neither, the server; None if the user lacks the right.

    `query` names the topic or group for the script.
    """
    hours = read_hours(request)
    history = await asking.call_if_allowed("GetHistory", **of)
    if history is None:
        return None
    known = {each.name: each for each in history.series}
    steps = _count_steps(history, hours)
    drawn = [_draw_chart(chart, known, steps) for chart in charts if any(name in known for name in chart.series)]
    return PagePlots(drawn, f"/console/plots?{query}&hours={hours}", hours)


def read_hours(request: "Request") -> int:
    """Return the requested number of hours; the first of HOURS if it is none of them."""
    hours_text = request.query_params.get("hours", "")
    return next((hours for hours in HOURS if str(hours) == hours_text), HOURS[0])


def _count_steps(history: "Message", hours: int) -> int:
    step_s = history.step.seconds + history.step.nanos / 1e9
    return math.ceil(hours * _HOUR_S / step_s) if step_s else 0


def _draw_chart(chart: ChartSpec, known: "dict[str, Message]", steps: int) -> DrawnChart:
    there = [name for name in chart.series if name in known]
    unit = known[there[0]].unit
    return DrawnChart(
        f"{chart.title}, in {unit}" if unit in _AXIS_UNITS else chart.title,
        unit,
        " ".join(there),
        "|".join(LABELS.get(name, name) for name in there),
        [_series_numbers(name, list(known[name].values)[-steps:], unit) for name in there],
    )


def _series_numbers(name: str, values: list[float], unit: str) -> SeriesNumbers:
    there = [value for value in values if value >= 0]
    last, mean, highest = (there[-1], sum(there) / len(there), max(there)) if there else (None, None, None)
    return SeriesNumbers(
        LABELS.get(name, name), value_text(last, unit), value_text(mean, unit), value_text(highest, unit)
    )


def value_text(value: float | None, unit: str) -> str:
    """Format a value for people, with its unit unless that is in the caption."""
    if value is None:
        return "unknown"
    if unit == "bytes":
        return format_size(round(value))
    if unit == "share":
        return f"{100 * value:.1f} %"
    number = f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
    return number if unit in _AXIS_UNITS else f"{number} {unit}"


async def show_rates(request: "Request", asking: "PageContext") -> Response:
    """Show the plots of the server."""
    return await render_page(
        request, asking, "plots/rates.html", title="Rates", grafana=asking.grafana,
        plots=await build_plots(request, asking, SERVER_CHARTS),
    )  # fmt: skip


async def send_values(request: "Request", asking: "PageContext") -> Response:
    """Return the values of a topic, a group or the server, for the script."""
    of: dict[str, Any] = {}
    for kind in ("topic", "group"):
        if name := request.query_params.get(kind):
            of = {kind: name}
    history = await asking.call_server("GetHistory", **of)
    shown = {each.name: list(each.values)[-_count_steps(history, read_hours(request)) :] for each in history.series}
    first = min(map(_known_from, shown.values()), default=0)
    content = {
        "step": history.step.seconds,
        "end": history.end.seconds,
        "series": {name: [None if value < 0 else value for value in each[first:]] for name, each in shown.items()},
    }
    return Response(msgspec.json.encode(content), media_type="application/json")


def _known_from(values: list[float]) -> int:
    """Return the index of the first known value, so that at least SHOWN_MIN values remain."""
    known = next((place for place, value in enumerate(values) if value >= 0), len(values))
    return max(0, min(known, len(values) - SHOWN_MIN))


FEATURE = PageFeature(homes=(("/rates", "Rates"),), shown={"/rates": show_rates, "/plots": send_values}, done={})
