"""The published admin service on the server itself, and where it is served (`admin.md, The published service`)."""

import logging
from pathlib import Path

import grpc
import pytest
from grpc import aio

from ternmq_protos.v2 import admin_pb2 as published
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.operations.admin.servers.server_status import STATS
from tests.support.embedded import Embedded, RawClient, code, local_settings
from tests.support.ports import ANY_PORT
from tests.system.conftest import SERVER_LOOP
from tests.system.test_published_admin import told
from tests.system.test_published_admin_clients import join
from tests.system.test_telemetry import producer

pytestmark = SERVER_LOOP


async def changed(client: RawClient, level: "published.ChangeLogLevelRequest.Level") -> str:
    answer = await client.published("ChangeLogLevel", level=level)
    assert isinstance(answer, published.ChangeLogLevelResponse)
    return answer.remark


@pytest.mark.usefixtures("log_levels")
async def test_the_level_of_all_loggers_changes_and_the_remark_says_what_it_was(client: RawClient) -> None:
    await changed(client, published.ChangeLogLevelRequest.INFO)
    logger = logging.getLogger("ternmq_broker.broker")
    for level, name, number in (
        (published.ChangeLogLevelRequest.TRACE, "debug", logging.DEBUG),
        (published.ChangeLogLevelRequest.ERROR, "error", logging.ERROR),
        (published.ChangeLogLevelRequest.WARN, "warning", logging.WARNING),
        (published.ChangeLogLevelRequest.DEBUG, "debug", logging.DEBUG),
        (published.ChangeLogLevelRequest.INFO, "info", logging.INFO),
    ):
        before = logging.getLevelName(logger.getEffectiveLevel()).lower()
        assert await changed(client, level) == f"log levels were {before}, and are {name}"
        assert logger.getEffectiveLevel() == number


@pytest.mark.usefixtures("log_levels")
async def test_a_level_that_is_none_ends_the_call_since_its_answer_has_no_status(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    await changed(client, published.ChangeLogLevelRequest.INFO)
    with pytest.raises(aio.AioRpcError) as ended:
        await client.published("ChangeLogLevel", published.ChangeLogLevelRequest.FromString(b"\x08\x63"))
    assert ended.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "99" in (ended.value.details() or "")
    assert "ChangeLogLevel" in caplog.text
    assert logging.getLogger("ternmq_broker.broker").getEffectiveLevel() == logging.INFO


async def test_a_proxy_tells_its_name_version_and_how_many_clients_it_has(tmp_path: Path) -> None:
    settings = local_settings(tmp_path)
    async with Embedded(settings) as server, RawClient(server.grpc) as one, RawClient(server.grpc) as two:
        await one.create_topic("orders")
        await one.configure(producer(topics=[{"name": "orders"}]))
        await two.create_group("billing")
        await join(two, "billing", kind=pb.SIMPLE_CONSUMER)
        stats = await told(one, "GetProxyRuntimeStats")
        assert stats.proxy_name == settings.broker_name
        assert stats.version
        assert (stats.connections, stats.producers, stats.consumers) == (2, 1, 1)
        assert (stats.in_tps, stats.out_tps) == (0, 0)


async def test_the_clients_of_all_processes_of_a_server_are_counted(
    client: RawClient, siblings: dict[str, dict[str, bytes | None]]
) -> None:
    own = await told(client, "GetProxyRuntimeStats")
    elsewhere = published.GetProxyRuntimeStatsResponse(connections=5, producers=3, consumers=2)
    siblings[STATS] = {"one": elsewhere.SerializeToString(), "two": None}
    stats = await told(client, "GetProxyRuntimeStats")
    assert (stats.connections, stats.producers, stats.consumers) == (
        own.connections + 5,
        own.producers + 3,
        own.consumers + 2,
    )
    assert "two" in stats.status.message


async def test_it_is_served_at_the_listener_for_operators_alone(tmp_path: Path) -> None:
    settings = local_settings(tmp_path, admin=ANY_PORT)
    request = published.GetProxyRuntimeStatsRequest()
    async with Embedded(settings) as server, RawClient(server.grpc) as client, RawClient(server.admin) as operator:
        with pytest.raises(aio.AioRpcError) as refused:
            await client.published("GetProxyRuntimeStats", request)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert code(await operator.published("GetProxyRuntimeStats", request)) == "OK"
