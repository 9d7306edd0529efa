"""Questions between processes: about their clients by way of a broker, about themselves within one server."""

from typing import TYPE_CHECKING, Protocol

from ternmq_proxy.operations.admin.clients.client_list import CLIENTS, answer_clients
from ternmq_proxy.operations.admin.clients.consumers import RUNNING_INFO, answer_running_info
from ternmq_proxy.operations.admin.clients.subscriptions import (
    SUBSCRIBERS,
    SUBSCRIPTIONS,
    answer_subscribers,
    answer_subscriptions,
)
from ternmq_proxy.operations.admin.groups.group_description import MEMBERS, answer_members
from ternmq_proxy.operations.admin.servers.proxies import PROXY, answer_proxy
from ternmq_proxy.operations.admin.servers.server_status import STATS, answer_stats
from ternmq_proxy.operations.by_queue.group_ways import WAY, answer_way

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from ternmq_proxy.services import Services


class QuestionHandler(Protocol):
    """Answers one question of another process."""

    def __call__(self, argument: str, /, services: "Services") -> "Awaitable[bytes]": ...


ABOUT_CLIENTS: "Mapping[str, QuestionHandler]" = {
    CLIENTS: answer_clients,
    MEMBERS: answer_members,
    RUNNING_INFO: answer_running_info,
    SUBSCRIBERS: answer_subscribers,
    SUBSCRIPTIONS: answer_subscriptions,
    WAY: answer_way,
}
ABOUT_ITSELF: "Mapping[str, QuestionHandler]" = {PROXY: answer_proxy, STATS: answer_stats}


async def answer_proxies(question: str, argument: str, services: "Services") -> bytes | None:
    """Return the answer to another proxy's question, None if the question is unknown here."""
    answer = ABOUT_CLIENTS.get(question)
    if answer is not None:
        return await answer(argument, services=services)
    by_front = services.process.front_answers.get(question)
    return None if by_front is None else await by_front(argument)
