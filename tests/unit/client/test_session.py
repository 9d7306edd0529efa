"""Sessions and housekeeping: handshakes, commands, reconnections, heartbeats."""

import grpc
import pytest

import ternmq
from ternmq import Producer, SimpleConsumer, Timing
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import TOPIC, ScriptedServer


async def test_the_first_command_is_the_settings(server: ScriptedServer) -> None:
    async with SimpleConsumer(server.endpoint, "g", {TOPIC: "*"}) as consumer:
        pass
    settings = server.requests["Telemetry"][0].settings
    assert (settings.client_type, settings.subscription.group.name) == (pb.SIMPLE_CONSUMER, "g")
    assert (settings.user_agent.language, settings.request_timeout.seconds) == (pb.PYTHON, 3)
    assert settings.access_point.addresses[0].port == server.port
    assert server.metadata["Telemetry"][0]["x-mq-client-id"] == consumer.client_id


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, ternmq.BadRequest),
        (rpc.TelemetryCommand(status=pb.Status(code=pb.UNAUTHORIZED)), ternmq.Unauthorized),
        (grpc.StatusCode.UNAVAILABLE, ternmq.ConnectionFailed),
    ],
)
async def test_refused_settings_stop_the_start(
    server: ScriptedServer, refusal: grpc.StatusCode | rpc.TelemetryCommand, error: type[ternmq.ClientError]
) -> None:
    server.script("Telemetry", *[refusal] * 3)
    with pytest.raises(error):
        await SimpleConsumer(server.endpoint, "g", {TOPIC: "*"}).start()


async def test_a_broken_session_is_opened_again(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC], timing=Timing(settings_s=1e6)) as producer:
        server.script("Telemetry", grpc.StatusCode.UNAVAILABLE)
        await producer._send_settings()
        await server.asked("Telemetry", 3)
    assert all(command.HasField("settings") for command in server.requests["Telemetry"])


async def test_settings_are_told_again_and_again(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC], timing=Timing(settings_s=0.001)):
        await server.asked("Telemetry", 4)


async def test_heartbeats_are_regular_and_a_forgotten_client_introduces_itself_again(server: ScriptedServer) -> None:
    forgotten = rpc.HeartbeatResponse(status=pb.Status(code=pb.UNRECOGNIZED_CLIENT_TYPE))
    server.script("Heartbeat", forgotten)
    async with SimpleConsumer(server.endpoint, "g", {TOPIC: "*"}, timing=Timing(heartbeat_s=0.001)):
        heartbeats = await server.asked("Heartbeat", 3)
        await server.asked("Telemetry", 2)
    assert (heartbeats[0].group.name, heartbeats[0].client_type) == ("g", pb.SIMPLE_CONSUMER)


async def test_a_route_that_cannot_be_refreshed_stays(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC], timing=Timing(route_refresh_s=0.001)) as producer:
        gone = rpc.QueryRouteResponse(status=pb.Status(code=pb.TOPIC_NOT_FOUND))
        server.script("QueryRoute", *[gone] * 1000)
        await server.asked("QueryRoute", 4)
        await producer.send(ternmq.Message(TOPIC, b"x"))


async def test_a_refreshed_route_brings_new_brokers(server: ScriptedServer) -> None:
    async with (
        ScriptedServer() as other,
        Producer(server.endpoint, topics=[TOPIC], timing=Timing(route_refresh_s=0.001)) as producer,
    ):
        server.brokers = {"broker-b": other.port}
        await other.asked("Telemetry")
        await server.asked("QueryRoute", len(server.requests["QueryRoute"]) + 2)
        await producer.send(ternmq.Message(TOPIC, b"x"))
        assert len(other.requests["SendMessage"]) == 1
    assert len(other.requests["NotifyClientTermination"]) == 1


async def test_one_broker_of_several_may_be_away(server: ScriptedServer, unused_tcp_port: int) -> None:
    server.brokers = {"broker-a": server.port, "broker-b": unused_tcp_port}
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        for _ in range(8):
            await producer.send(ternmq.Message(TOPIC, b"x"))
    assert len(server.requests["SendMessage"]) == 8


async def test_an_operator_gets_the_stacks(server: ScriptedServer) -> None:
    command = rpc.PrintThreadStackTraceCommand(nonce="n")
    async with Producer(server.endpoint, topics=[TOPIC]):
        server.commands.put_nowait(rpc.TelemetryCommand(print_thread_stack_trace_command=command))
        _, answer = await server.asked("Telemetry", 2)
    assert (answer.status.code, answer.thread_stack_trace.nonce) == (pb.OK, "n")
    assert "MainThread" in answer.thread_stack_trace.thread_stack_trace


async def test_a_command_that_comes_before_the_settings_is_served(server: ScriptedServer) -> None:
    command = rpc.PrintThreadStackTraceCommand(nonce="n")
    server.commands.put_nowait(rpc.TelemetryCommand(print_thread_stack_trace_command=command))
    async with Producer(server.endpoint, topics=[TOPIC]):
        _, answer = await server.asked("Telemetry", 2)
    assert answer.thread_stack_trace.nonce == "n"


async def test_commands_that_mean_nothing_to_a_producer_are_harmless(server: ScriptedServer) -> None:
    verify = rpc.VerifyMessageCommand(nonce="n")
    orphan = rpc.RecoverOrphanedTransactionCommand(transaction_id="t")
    async with Producer(server.endpoint, topics=[TOPIC]):
        server.commands.put_nowait(rpc.TelemetryCommand(recover_orphaned_transaction_command=orphan))
        server.commands.put_nowait(rpc.TelemetryCommand(verify_message_command=verify))
        _, answer = await server.asked("Telemetry", 2)
    assert (answer.status.code, answer.verify_message_result.nonce) == (pb.NOT_IMPLEMENTED, "n")
