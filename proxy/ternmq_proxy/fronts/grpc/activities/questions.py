"""Questions between processes: about their clients by way of a broker, about themselves within one server."""

from typing import TYPE_CHECKING, Protocol

from ternmq_proxy.fronts.grpc.activities.admin.clients import CLIENTS, answer_clients
from ternmq_proxy.fronts.grpc.activities.admin.groups import MEMBERS, answer_members
from ternmq_proxy.fronts.grpc.activities.admin.proxies import PROXY, answer_proxy
from ternmq_proxy.fronts.grpc.activities.published_admin.running_info import RUNNING_INFO, answer_running_info
from ternmq_proxy.fronts.grpc.activities.published_admin.server import STATS, answer_stats
from ternmq_proxy.fronts.grpc.activities.published_admin.subscribers import (
    SUBSCRIBERS,
    SUBSCRIPTIONS,
    answer_subscribers,
    answer_subscriptions,
)

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
}
ABOUT_ITSELF: "Mapping[str, QuestionHandler]" = {PROXY: answer_proxy, STATS: answer_stats}


async def answer_proxies(question: str, argument: str, services: "Services") -> bytes | None:
    """Return the answer to another proxy's question, None if the question is unknown here."""
    answer = ABOUT_CLIENTS.get(question)
    return None if answer is None else await answer(argument, services=services)
