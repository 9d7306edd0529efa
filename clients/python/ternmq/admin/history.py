"""Figures of the last hours, and their admin call."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import check_text
from ternmq.admin.requests.words import read_moment
from ternmq_protos.admin_v1 import admin_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values of one figure in `unit`, the oldest first; None where the value is unknown."""

    name: str
    unit: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Series of values, each for one `step`; the last value is that of the step before `end`. A figure that was never
    above 0 is not among the `series`."""

    step: timedelta
    end: datetime | None
    series: tuple[Series, ...]


def history(*, topic: str = "", group: str = "") -> AdminCall[History]:
    """Return the figures of the last hours: of a topic, of a group, or of the server."""
    if topic and group:
        raise ValueError("a history is of a topic or of a group, not of both")
    request = admin_pb2.GetHistoryRequest()
    if topic:
        request.topic = check_text("topic", topic)
    if group:
        request.group = check_text("group", group)
    return AdminCall(request, _read_history)


def _read_history(answer: admin_pb2.GetHistoryResponse) -> History:
    series = tuple(
        Series(name=each.name, unit=each.unit, values=tuple(None if value < 0 else value for value in each.values))
        for each in answer.series
    )
    return History(step=answer.step.ToTimedelta(), end=read_moment(answer.end), series=series)
