"""Timed messages that wait."""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.shard.model import WaitingTimer
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_proxy.access.needs import TOPIC_GET
from ternmq_proxy.operations.admin.named import find_topic
from ternmq_proxy.processors.sending.stored_form import MessageNames, read_names

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_LISTED_DEFAULT = 64
_LISTED_MAX = 500


class ListedTimer(NamedTuple):
    """A timed message, what it is called, and the handle by which it can be recalled."""

    timer: WaitingTimer
    names: MessageNames
    recall_handle: str


async def list_timers(
    topic_name: str, page: str, limit: int, call: "Call", services: "Services"
) -> tuple[list[ListedTimer], str]:
    """Return a page of timed messages, each broker's by their times, and where the next one begins, empty at the end.
    An empty topic is all that the caller may see; a limit of 0 is the usual one."""
    asked = [(TOPIC_GET, topic_name)] if topic_name else []
    services.access.require_all("ListTimers", call, *asked)
    topic = (await find_topic(topic_name, services)).name if topic_name else ""
    limit = min(max(1, limit or _LISTED_DEFAULT), _LISTED_MAX)
    found = await services.messages.inspecting.timers(topic=topic, start=page, limit=limit)
    may = services.access.has_right
    visible = [each for each in found.timers if may(call, TOPIC_GET, each.queue.topic)]
    return [_list_timer(each, services) for each in visible], found.following


def _list_timer(timer: WaitingTimer, services: "Services") -> ListedTimer:
    names = read_names(timer.system)
    handle = RecallHandle(timer.queue.topic, timer.queue.broker, timer.due_ms, names.message_id)
    return ListedTimer(timer, names, handle.encode_handle(services.handles.keys))
