"""The MessageService of a cluster passes the conformance tests, with one broker and with two."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ternmq_common.server_settings import FlushMode
from ternmq_proxy.message_service.interface import MessageService
from tests.support.cluster import InProcessCluster
from tests.support.in_flight_conformance import InFlightConformance
from tests.support.lite_conformance import LiteConformance
from tests.support.message_service_conformance import MessageServiceConformance, Restart
from tests.support.room_conformance import RoomConformance
from tests.support.waiting_conformance import WaitingConformance

pytestmark = pytest.mark.slow


@pytest.fixture(params=[(1, FlushMode.SYNC), (2, FlushMode.ASYNC)], ids=["one broker", "two brokers"])
async def stack(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    brokers, flush = request.param
    cluster = InProcessCluster(tmp_path, brokers=brokers, flush=flush)
    await cluster.start()
    yield cluster
    await cluster.stop()


@pytest.fixture
def service(stack: InProcessCluster) -> MessageService:
    return stack.service


@pytest.fixture
def restarted(stack: InProcessCluster) -> Restart:
    return stack.restart


class TestClusterMessageService(MessageServiceConformance):
    pass


class TestClusterMessageServiceWithMessagesThatWait(WaitingConformance):
    pass


class TestClusterMessageServiceWithLimitsOfWhatIsInFlight(InFlightConformance):
    pass


class TestClusterMessageServiceWithLiteTopics(LiteConformance):
    pass


class TestClusterMessageServiceForClientsThatDoNotRead(RoomConformance):
    pass
