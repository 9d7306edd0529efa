"""The services for tools on the gRPC port: health, and reflection of everything that is served there."""

import asyncio

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.support.embedded import MESSAGING, Embedded, RawClient, local_settings
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
SERVICES = [
    "apache.rocketmq.v2.Admin",
    "apache.rocketmq.v2.MessagingService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1alpha.ServerReflection",
    "ternmq.admin.v1.Admin",
]
SERVING = health_pb2.HealthCheckResponse.SERVING


def calls_found_by_a_tool(address: str, service: str) -> dict[str, tuple[str, str]]:
    """Request and answer of each call, by nothing but what the server tells about itself; blocks."""
    with grpc.insecure_channel(address) as channel:
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        methods = pool.FindServiceByName(service).methods
    return {method.name: (method.input_type.full_name, method.output_type.full_name) for method in methods}


async def reflected(
    client: RawClient, request: reflection_pb2.ServerReflectionRequest
) -> reflection_pb2.ServerReflectionResponse:
    stream = reflection_pb2_grpc.ServerReflectionStub(client.channel).ServerReflectionInfo(iter([request]))
    answer = await stream.read()
    stream.cancel()
    assert isinstance(answer, reflection_pb2.ServerReflectionResponse)
    return answer


@pytest.mark.parametrize("service", ["", "apache.rocketmq.v2.MessagingService"])
async def test_a_server_that_serves_says_so(client: RawClient, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(client.channel)
    assert (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status == SERVING


async def test_the_health_of_an_unknown_service_is_not_found(client: RawClient) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await health_pb2_grpc.HealthStub(client.channel).Check(health_pb2.HealthCheckRequest(service="nobody"))
    assert ended.value.code() is grpc.StatusCode.NOT_FOUND


async def test_who_watches_hears_of_the_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with Embedded(local_settings(tmp_path_factory.mktemp("ending"))) as server:
        client = RawClient(server.grpc)
        watch = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    watch.cancel()
    await client.channel.close()


async def test_every_service_is_listed(client: RawClient) -> None:
    answer = await reflected(client, reflection_pb2.ServerReflectionRequest(list_services=""))
    assert sorted(service.name for service in answer.list_services_response.service) == SERVICES


@pytest.mark.parametrize("service", SERVICES)
async def test_a_tool_finds_every_call_with_all_types_that_it_needs(server: Embedded, service: str) -> None:
    found = await asyncio.to_thread(calls_found_by_a_tool, server.grpc, service)
    assert found
    if service == MESSAGING.full_name:
        assert found == {
            method.name: (method.input_type.full_name, method.output_type.full_name) for method in MESSAGING.methods
        }


async def test_an_unknown_symbol_is_an_error_of_that_lookup_only(client: RawClient) -> None:
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol="nobody.Nothing")
    answer = await reflected(client, request)
    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
