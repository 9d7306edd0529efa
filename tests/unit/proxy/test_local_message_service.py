"""The embedded stack's MessageService passes the conformance tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ternmq_common.clock import MovableClock
from ternmq_common.server_settings import FlushMode, ServerSettings
from ternmq_common.shard.model import ConsumerGroup
from ternmq_proxy.message_service.interface import MessageService
from ternmq_proxy.message_service.local import LocalMessageService
from tests.support.in_flight_conformance import InFlightConformance
from tests.support.lite_conformance import LiteConformance
from tests.support.message_service_conformance import MessageServiceConformance, Restart
from tests.support.room_conformance import RoomConformance
from tests.support.waiting_conformance import WaitingConformance


class Stack:
    """One local service after another on the same data."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._service: LocalMessageService | None = None
        self.groups: dict[str, ConsumerGroup] = {}
        self.clock = MovableClock()

    def rules(self, group: str) -> ConsumerGroup:
        return self.groups.get(group) or ConsumerGroup(name=group)

    async def start(self) -> MessageService:
        self._service = await LocalMessageService.open_store(self._settings, self.rules, self.clock)
        return self._service

    async def restart(self) -> MessageService:
        await self.stop()
        return await self.start()

    async def stop(self) -> None:
        assert self._service is not None
        await self._service.close()


@pytest.fixture(params=list(FlushMode))
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> ServerSettings:
    return ServerSettings(data_dir=tmp_path, flush=request.param, transaction_check_max=3)


@pytest.fixture
async def stack(settings: ServerSettings) -> AsyncIterator[Stack]:
    stack = Stack(settings)
    await stack.start()
    yield stack
    await stack.stop()


@pytest.fixture
def service(stack: Stack) -> MessageService:
    assert stack._service is not None
    return stack._service


@pytest.fixture
def restarted(stack: Stack) -> Restart:
    return stack.restart


class TestLocalMessageService(MessageServiceConformance):
    pass


class TestLocalMessageServiceWithMessagesThatWait(WaitingConformance):
    pass


class TestLocalMessageServiceWithLimitsOfWhatIsInFlight(InFlightConformance):
    pass


class TestLocalMessageServiceWithLiteTopics(LiteConformance):
    pass


class TestLocalMessageServiceForClientsThatDoNotRead(RoomConformance):
    pass
