"""Heartbeat: a client says that it lives (`overview.md, Heartbeats and termination`)."""

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, code
from tests.support.lite import make_lite_group, make_lite_topic
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group

pytestmark = SERVER_LOOP
LITE = [pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER]
CONSUMERS = [pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER, *LITE]


async def members(client: RawClient, group: str) -> list[str]:
    described = await client.admin("DescribeGroup", name=group)
    assert code(described) == "OK"
    return list(described.client_ids)


async def test_a_producer_with_settings_is_kept(client: RawClient) -> None:
    await client.configure(pb.Settings(client_type=pb.PRODUCER, publishing={}))
    assert code(await client.call("Heartbeat", client_type=pb.PRODUCER)) == "OK"


@pytest.mark.parametrize("kind", CONSUMERS)
async def test_a_consumer_with_settings_is_kept(client: RawClient, group: str, kind: "pb.ClientType") -> None:
    if kind in LITE:
        group = await make_lite_group(client, await make_lite_topic(client))
    else:
        await create_group(client, name=group)
    await client.configure(pb.Settings(client_type=kind, subscription={"group": {"name": group}}))
    assert code(await client.call("Heartbeat", group={"name": group}, client_type=kind)) == "OK"
    assert await members(client, group) == [client.client_id]


async def test_the_group_of_the_settings_stands_for_one_that_is_left_out(client: RawClient, group: str) -> None:
    await create_group(client, name=group)
    await client.configure(pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": group}}))
    assert code(await client.call("Heartbeat", client_type=pb.PUSH_CONSUMER)) == "OK"
    assert await members(client, group) == [client.client_id]


@pytest.mark.parametrize("kind", CONSUMERS)
async def test_a_consumer_that_the_server_forgot_in_a_restart_is_taken_as_it_describes_itself(
    client: RawClient, group: str, kind: "pb.ClientType"
) -> None:
    await create_group(client, name=group)
    assert code(await client.call("Heartbeat", group={"name": group}, client_type=kind)) == "OK"
    assert await members(client, group) == [client.client_id]


async def test_a_producer_that_the_server_forgot_is_taken_too(client: RawClient) -> None:
    assert code(await client.call("Heartbeat", client_type=pb.PRODUCER)) == "OK"


async def test_an_unknown_client_of_no_type_is_not_recognized(client: RawClient, group: str) -> None:
    assert code(await client.call("Heartbeat", group={"name": group})) == "UNRECOGNIZED_CLIENT_TYPE"


async def test_the_type_in_the_settings_decides_and_not_that_of_the_heartbeat(client: RawClient) -> None:
    await client.configure(pb.Settings(client_type=pb.PRODUCER, publishing={}))
    # As a consumer it would need a group.
    assert code(await client.call("Heartbeat", client_type=pb.PUSH_CONSUMER)) == "OK"


async def test_settings_of_no_type_make_a_client_that_is_not_recognized(client: RawClient) -> None:
    await client.configure(pb.Settings(publishing={}))
    assert code(await client.call("Heartbeat", client_type=pb.PRODUCER)) == "UNRECOGNIZED_CLIENT_TYPE"


@pytest.mark.parametrize("name", ["", " ", "a b", "x" * 121, "CID_RMQ_SYS_mine"])
async def test_an_illegal_group_is_refused(client: RawClient, name: str) -> None:
    request = rpc.HeartbeatRequest(group={"name": name}, client_type=pb.SIMPLE_CONSUMER)
    assert code(await client.call("Heartbeat", request)) == "ILLEGAL_CONSUMER_GROUP"


async def test_a_missing_group_is_not_found_without_auto_create(strict: RawClient, group: str) -> None:
    request = rpc.HeartbeatRequest(group={"name": group}, client_type=pb.SIMPLE_CONSUMER)
    assert code(await strict.call("Heartbeat", request)) == "CONSUMER_GROUP_NOT_FOUND"


async def test_a_telemetry_stream_that_has_ended_changes_nothing(client: RawClient, group: str) -> None:
    await client.configure(pb.Settings(client_type=pb.SIMPLE_CONSUMER, subscription={"group": {"name": group}}))
    for _ in range(2):
        assert code(await client.call("Heartbeat", group={"name": group}, client_type=pb.SIMPLE_CONSUMER)) == "OK"
