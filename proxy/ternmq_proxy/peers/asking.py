"""Asks other processes a question, and decodes their answers.

Questions about clients go, by way of a broker, to all processes that serve clients of the same brokers: those of this
server, and in a cluster those of all other proxies. Questions about the server go to its other processes.
"""

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError
from msgspec import MsgspecError

from ternmq_common.errors import MessagingError
from ternmq_runtime.workers.worker_place import BROKER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ternmq_proxy.services import Services

Answer = TypeVar("Answer")
ALL_OTHERS = "all others"


async def ask_others(
    read: "Callable[[bytes], Answer]", question: str, argument: str, services: "Services"
) -> tuple[list[Answer], list[str]]:
    """Return the answers about clients, and the names of proxies without an answer; one entry about all, with the
    reason, if none could be reached."""
    try:
        raw_answers = await services.messages.ask_proxies(question, argument)
    except MessagingError as error:
        return [], [f"{ALL_OTHERS} ({error.message})"]
    return _read_all(read, ((each.proxy, each.data) for each in raw_answers))


async def ask_siblings(
    read: "Callable[[bytes], Answer]", question: str, services: "Services"
) -> tuple[list[Answer], list[str]]:
    """Return the answers of the other processes of this server. The broker's process serves no clients, and is left
    out."""
    raw_answers = await services.process.siblings.ask_all(question)
    return _read_all(read, ((process, data) for process, data in raw_answers.items() if process != BROKER))


def _read_all(
    read: "Callable[[bytes], Answer]", raw_answers: "Iterable[tuple[str, bytes | None]]"
) -> tuple[list[Answer], list[str]]:
    answers: list[Answer] = []
    heard, silent = set[str](), dict[str, None]()
    for process, data in raw_answers:
        answer = None if data is None else _read(read, data)
        if answer is None:
            silent[process] = None
        else:
            answers.append(answer)
            heard.add(process)
    # A proxy that came back may have a dead stream beside its new one.
    return answers, [process for process in silent if process not in heard]


def _read(read: "Callable[[bytes], Answer]", data: bytes) -> Answer | None:
    try:
        return read(data)
    except (DecodeError, MsgspecError):  # of another version, while it is replaced
        return None
