"""What the other processes of this server say to a question, as the answers that they would give themselves."""

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError

from ternmq_protos.v2.admin_pb2 import (
    DescribeSubscriptionResponse,
    GetConsumerRunningInfoResponse,
    GetProxyRuntimeStatsResponse,
    ListSubscriptionResponse,
)
from ternmq_runtime.workers.place import BROKER

if TYPE_CHECKING:
    from ternmq_proxy.services import Services

Answer = TypeVar(
    "Answer",
    DescribeSubscriptionResponse,
    GetConsumerRunningInfoResponse,
    GetProxyRuntimeStatsResponse,
    ListSubscriptionResponse,
)


async def told_elsewhere(
    kind: type[Answer], question: str, argument: str, services: "Services"
) -> tuple[list[Answer], list[str]]:
    """The answers, and the names of the processes that gave none. The one that is the broker has no clients, and is
    not heard."""
    answers: list[Answer] = []
    silent: list[str] = []
    for process, data in (await services.process.siblings.ask(question, argument)).items():
        if process == BROKER:
            continue
        told = None if data is None else _parsed(kind, data)
        if told is None:
            silent.append(process)
        else:
            answers.append(told)
    return answers, silent


def _parsed(kind: type[Answer], data: bytes) -> Answer | None:
    try:
        return kind.FromString(data)
    except DecodeError:  # of another version, while it is replaced
        return None
