"""The admin service on the server itself: who is connected, how it is, its log levels, its own report."""

import asyncio
import logging
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ternmq_common.server_settings import ProxySettings
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.fronts.grpc.activities.admin import server as admin_server
from ternmq_proxy.operations.admin.clients.client_list import LIMIT_MAX, TOPICS_MAX
from ternmq_proxy.server_process import ServerProcess
from tests.support.embedded import Embedded, RawClient, code
from tests.support.two_proxies import CALL, Cluster
from tests.system.conftest import SERVER_LOOP
from tests.system.test_telemetry import consumer, filtered, producer

pytestmark = SERVER_LOOP


async def listed(client: RawClient, **fields: object) -> admin_pb2.ListClientsResponse:
    answer = await client.admin("ListClients", **fields)
    assert code(answer) == "OK", answer.status.message
    assert isinstance(answer, admin_pb2.ListClientsResponse)
    return answer


# --- clients


async def test_a_client_is_listed_with_what_it_said_of_itself_and_where_it_is(client: RawClient) -> None:
    group = f"g-{client.client_id}"
    await client.configure(consumer(group, subscriptions=[filtered(pb.TAG, "*")]))
    (found,) = (await listed(client, group=group)).clients
    assert (found.client_id, found.group, found.client_type) == (client.client_id, group, pb.PUSH_CONSUMER)
    assert (found.language, found.version, found.hostname) == ("RUST", "5.0", "host")
    assert (list(found.topics), found.topic_count) == (["orders"], 1)
    host, _, port = found.address.rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0
    age_ms = await client.server_ms() - found.since.ToMilliseconds()
    assert 0 <= age_ms < 60_000


async def test_a_producer_is_found_by_its_topic_and_gone_with_its_good_bye(client: RawClient) -> None:
    topic = f"t-{client.client_id}"
    await client.configure(producer(topics=[{"name": topic}]))
    (found,) = (await listed(client, topic=topic)).clients
    assert (found.client_id, found.client_type, list(found.topics)) == (client.client_id, pb.PRODUCER, [topic])
    await client.call("NotifyClientTermination")
    assert not (await listed(client, topic=topic)).clients


async def test_of_many_topics_the_first_are_told_and_how_many_there_are(client: RawClient) -> None:
    topics = [{"name": f"{client.client_id}-{number:02}"} for number in range(TOPICS_MAX + 5)]
    await client.configure(producer(topics=topics))
    (found,) = (await listed(client, topic=topics[-1]["name"])).clients
    assert list(found.topics) == [topic["name"] for topic in topics[:TOPICS_MAX]]
    assert found.topic_count == len(topics)


async def test_clients_come_page_by_page_each_once(server: Embedded) -> None:
    many = [RawClient(server.grpc) for _ in range(5)]
    group = f"g-{many[0].client_id}"
    try:
        await asyncio.gather(*(each.configure(consumer(group)) for each in many))
        seen, page, sizes = [], "", []
        while True:
            answer = await listed(many[0], group=group, limit=2, page=page)
            seen += [each.client_id for each in answer.clients]
            sizes.append(len(answer.clients))
            if not (page := answer.next_page):
                break
    finally:
        await asyncio.gather(*(each.channel.close() for each in many))
    assert seen == sorted(each.client_id for each in many)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("fields", [{"limit": LIMIT_MAX + 1}, {"limit": -1}, {"page": "x" * 300}, {"group": "x" * 300}])
async def test_what_can_not_be_a_question_for_clients_is_refused(client: RawClient, fields: dict[str, object]) -> None:
    assert code(await client.admin("ListClients", **fields)) == "BAD_REQUEST"


# --- status


async def test_the_status_of_a_stack_in_one_process_names_server_registry_and_broker(
    client: RawClient, server: Embedded
) -> None:
    answer = await client.admin("GetStatus")
    assert [(each.kind, each.well, each.said) for each in answer.components] == [
        ("server", True, ""),
        ("registry", True, ""),
        ("broker", True, ""),
    ]
    assert answer.components[0].name == server.settings.broker_name
    assert answer.version


async def test_the_status_of_a_cluster_tells_of_brokers_and_of_the_registry_that_are_away(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        for name in ("a", "b"):
            cluster.broker(name)
        cluster.stop_broker("b")
        proxy = await cluster.proxy()
        proxy.process = ServerProcess(kind="proxy", server="p", name="p", settings=ProxySettings(registry="sqlite://"))
        before = await admin_server.get_status(admin_pb2.GetStatusRequest(), CALL, proxy.services)
        assert [(each.kind, each.name, each.well) for each in before.components] == [
            ("proxy", "p", True),
            ("registry", "registry", True),
            ("broker", "a", True),
            ("broker", "b", False),
        ]
        proxy.registry.is_out = True
        with pytest.raises(Exception, match="refused"):
            await proxy.directory.refresh_snapshot()
        after = await admin_server.get_status(admin_pb2.GetStatusRequest(), CALL, proxy.services)
        assert [(each.well, each.said) for each in after.components if each.kind == "registry"] == [
            (False, "connection refused")
        ]
    finally:
        cluster.close()


# --- log levels


@pytest.mark.usefixtures("log_levels")
async def test_log_levels_change_at_once_and_the_log_says_by_whom(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await client.admin("UpdateLogLevels", levels="error,ternmq_proxy=debug,hpack=info")
    assert [each.levels for each in answer.processes] == ["error,ternmq_proxy=debug,hpack=info"]
    assert logging.getLogger("ternmq_proxy.catalog.catalog").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("ternmq_broker.broker").isEnabledFor(logging.WARNING)
    assert logging.getLogger("hpack").isEnabledFor(logging.INFO)
    said = next(record.getMessage() for record in caplog.records if "log levels" in record.getMessage())
    assert "error,ternmq_proxy=debug,hpack=info" in said
    assert client.client_id in said
    await client.admin("UpdateLogLevels", levels="info")
    told = await client.admin("GetLogLevels")
    assert [each.levels for each in told.processes] == ["info"]
    assert not logging.getLogger("ternmq_proxy.catalog.catalog").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("hpack").isEnabledFor(logging.INFO)


@pytest.mark.usefixtures("log_levels")
@pytest.mark.parametrize("levels", ["loud", "", "ternmq_nothing=debug", "info," + "x" * 2000])
async def test_levels_that_are_none_are_refused_and_nothing_changes(client: RawClient, levels: str) -> None:
    before = await client.admin("GetLogLevels")
    assert code(await client.admin("UpdateLogLevels", levels=levels)) == "BAD_REQUEST"
    assert (await client.admin("GetLogLevels")).processes == before.processes


async def test_what_siblings_ask_is_not_answered_at_the_address_that_all_can_reach(server: Embedded) -> None:
    def get(path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://{server.http}{path}", timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    for question in ("log-levels/", "change-log-levels/error%0Aus", "report/", "clients/"):
        assert await asyncio.to_thread(get, f"/inside/{question}") == 404


# --- its own report


async def test_a_server_reports_its_settings_threads_and_tasks(client: RawClient, server: Embedded) -> None:
    answer = await client.admin("GetDiagnostics")
    (process,) = answer.processes
    assert process.process == server.settings.broker_name
    assert process.settings["data_dir"] == str(server.settings.data_dir)
    assert "thread MainThread" in process.threads
    assert process.tasks == sum(process.tasks_by_kind.values()) > 0
    assert process.pid > 0
