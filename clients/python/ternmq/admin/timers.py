"""Pending timers, that is delayed messages that wait, and their admin call."""

from dataclasses import dataclass
from datetime import datetime

from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import check_text
from ternmq.admin.requests.words import read_moment
from ternmq_protos.admin_v1 import admin_pb2

PAGE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTimer:
    """A delayed message: it will be in queue `queue_id` of its topic at `due`. `size` is its stored size in bytes; a
    producer can recall it by `recall_handle`."""

    topic: str
    broker: str
    queue_id: int
    message_id: str
    tag: str
    keys: tuple[str, ...]
    stored: datetime | None
    due: datetime | None
    size: int
    recall_handle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerPage:
    """Some timers; there may be more although it has none. `next_page` is empty at the end."""

    timers: tuple[WaitingTimer, ...]
    next_page: str


def list_timers(*, topic: str = "", page: str = "", limit: int = PAGE) -> AdminCall[TimerPage]:
    """List one page, for each broker by time; `page` is `next_page` of the page before."""
    request = admin_pb2.ListTimersRequest(topic=check_text("topic", topic), limit=limit, page=page)
    return AdminCall(request, _read_page)


def _read_page(answer: admin_pb2.ListTimersResponse) -> TimerPage:
    return TimerPage(timers=tuple(map(_read_timer, answer.timers)), next_page=answer.next_page)


def _read_timer(timer: admin_pb2.Timer) -> WaitingTimer:
    return WaitingTimer(
        topic=timer.topic,
        broker=timer.broker,
        queue_id=timer.queue_id,
        message_id=timer.message_id,
        tag=timer.tag,
        keys=tuple(timer.keys),
        stored=read_moment(timer.stored),
        due=read_moment(timer.due),
        size=timer.bytes,
        recall_handle=timer.recall_handle,
    )
