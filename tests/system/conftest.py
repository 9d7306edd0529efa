"""One server for all tests of the fronts: starting one for each would take minutes. Names are never used twice.

A module that uses it runs its tests in the server's event loop: `pytestmark = SERVER_LOOP`.
"""

import logging
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from ternmq.testing import Stack
from ternmq_common.catalog.handle_keys import HandleKeys
from ternmq_common.process.log_levels import OWN_PACKAGES
from ternmq_common.shard.model import ProxyAnswer
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.message_service.local import LocalMessageService
from ternmq_proxy.services import AnswerLimits
from ternmq_runtime.logs import log_control
from ternmq_runtime.workers.siblings import SiblingProcesses
from tests.support.command_line import CommandLine
from tests.support.embedded import Embedded, RawClient, local_settings
from tests.support.handle_keys import keys_in
from tests.support.ports import ANY_PORT

SERVER_LOOP = pytest.mark.asyncio(loop_scope="session")
# All tests use groups that are not there, of one server.
MANY = 1_000_000


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    """Creates topics and groups on first use, and holds no errors back."""
    folder = tmp_path_factory.mktemp("server")
    settings = local_settings(folder, remoting=ANY_PORT, auto_create_per_minute=MANY)
    async with Embedded(settings, AnswerLimits(error_hold_s=0.0)) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def brief_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    """Its answers hold one entry, and its calls don't go far."""
    folder = tmp_path_factory.mktemp("brief-server")
    settings = local_settings(folder)
    async with Embedded(settings, AnswerLimits(entries_max=1, span_queues_max=1, walk_steps_max=3)) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def brief(brief_server: Embedded) -> AsyncIterator[RawClient]:
    """A client of the server with brief answers."""
    async with RawClient(brief_server.grpc) as connected:
        yield connected


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def strict_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    """Creates nothing that it was not asked to create."""
    folder = tmp_path_factory.mktemp("strict-server")
    async with Embedded(local_settings(folder, auto_create=False)) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def movable_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    """Its clock goes where tests move it, never by more than hours: each begins at the time that it finds."""
    folder = tmp_path_factory.mktemp("movable-server")
    async with Embedded(local_settings(folder, test_clock=True, auto_create_per_minute=MANY)) as running:
        yield running


@pytest.fixture(scope="session")
def timed_keys(movable_server: Embedded) -> HandleKeys:
    """The keys of handles of the server whose clock can be moved."""
    return keys_in(movable_server.settings.data_dir)


@pytest_asyncio.fixture(loop_scope="session")
async def timed(movable_server: Embedded) -> AsyncIterator[RawClient]:
    """A client of the server whose clock can be moved."""
    async with RawClient(movable_server.grpc) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="session")
async def second(movable_server: Embedded) -> AsyncIterator[RawClient]:
    """Another client of that server, on a connection of its own."""
    async with RawClient(movable_server.grpc) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="session")
async def client(server: Embedded) -> AsyncIterator[RawClient]:
    async with RawClient(server.grpc) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="session")
async def other(server: Embedded) -> AsyncIterator[RawClient]:
    """A second client, on a connection of its own."""
    async with RawClient(server.grpc) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="session")
async def strict(strict_server: Embedded) -> AsyncIterator[RawClient]:
    """A client of the server that creates nothing by itself."""
    async with RawClient(strict_server.grpc) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="session")
async def topic(client: RawClient) -> str:
    """A topic with one queue, so that messages come in order."""
    return await client.create_topic(f"topic-{uuid.uuid4().hex[:12]}")


@pytest_asyncio.fixture(loop_scope="session")
async def reminders(timed: RawClient) -> str:
    """A DELAY topic with one queue, where time can be moved."""
    return await timed.create_topic(f"reminders-{uuid.uuid4().hex[:12]}", kind=pb.DELAY)


@pytest_asyncio.fixture(loop_scope="session")
async def payments(timed: RawClient) -> str:
    """A TRANSACTION topic with one queue, where time can be moved."""
    return await timed.create_topic(f"payments-{uuid.uuid4().hex[:12]}", kind=pb.TRANSACTION)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack() as running:
        yield running


@pytest.fixture
def command(stack: Stack) -> CommandLine:
    return CommandLine(stack.endpoint)


@pytest.fixture
def new_topic() -> str:
    """The name of a topic that does not exist."""
    return f"new-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    """The name of a group that does not exist yet."""
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def log_levels() -> Iterator[None]:
    """They are the tests' process's: what they were is put back."""
    names = [None, *OWN_PACKAGES, "hpack"]
    before = {name: logging.getLogger(name).level for name in names}
    yield
    log_control.apply_levels(log_control.parse_levels("info"))
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def siblings(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, bytes | None]]:
    """What other processes of the server answer, by question and their names; None of one that is silent."""
    answers: dict[str, dict[str, bytes | None]] = {}

    async def ask(self: SiblingProcesses, question: str, argument: str = "") -> dict[str, bytes | None]:
        del self, argument
        return answers.get(question, {})

    monkeypatch.setattr(SiblingProcesses, "ask_all", ask)
    return answers


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, bytes | None]]:
    """What other proxies answer, by question and their names; None of one that is silent."""
    answers: dict[str, dict[str, bytes | None]] = {}

    async def ask_proxies(self: LocalMessageService, question: str, argument: str) -> list[ProxyAnswer]:
        del self, argument
        return [ProxyAnswer(name, data) for name, data in answers.get(question, {}).items()]

    monkeypatch.setattr(LocalMessageService, "ask_proxies", ask_proxies)
    return answers
