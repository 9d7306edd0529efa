"""Of Telemetry streams that clients drop nothing stays but the client, until it expires."""

import asyncio
import gc
import uuid
from collections import Counter
from pathlib import Path

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.access.control import RightsWatch
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.streams.telemetry_stream import TelemetryStream
from ternmq_rpc.grpc_http2.server_machine import ServerMachine
from ternmq_rpc.grpc_stream.call_connection import CallConnection
from ternmq_rpc.grpc_stream.served_call import ServedCall
from tests.support.embedded import Embedded, local_settings
from tests.support.http2_wire import (
    END_HEADERS,
    PREFACE,
    FrameParser,
    Kind,
    block,
    call_fields,
    frame,
    message,
    settings,
)
from tests.support.until import until

PATH = "/apache.rocketmq.v2.MessagingService/Telemetry"
KINDS = (CallConnection, ServerMachine, ServedCall, TelemetryStream, Call, RightsWatch)
DROPS = 20


def alive() -> Counter[str]:
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, KINDS))


async def open_and_drop(address: str, *, with_settings: bool, reset: bool) -> None:
    """One connection with one stream, which is dropped once the server has answered."""
    client_id = uuid.uuid4().hex
    fields = call_fields(PATH, ("x-mq-client-id", client_id))
    asked = frame(Kind.HEADERS, END_HEADERS, 1, block(fields))
    if with_settings:
        entry = {"topic": {"name": "orders"}, "expression": {"expression": "*"}}
        told = pb.Settings(
            client_type=pb.PUSH_CONSUMER,
            subscription={"group": {"name": "buyers"}, "subscriptions": [entry]},
            user_agent={"hostname": client_id},
        )
        asked += frame(Kind.DATA, 0, 1, message(rpc.TelemetryCommand(settings=told).SerializeToString()))
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE + settings({}) + asked)
    frames, parser = set[int](), FrameParser()
    async with asyncio.timeout(20):
        while (Kind.DATA if with_settings else Kind.HEADERS) not in frames:
            data = await reader.read(1 << 16)
            assert data, "the server has closed"
            frames |= {each.kind for each in parser.feed(data)}
    if reset:
        writer.transport.abort()
    else:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("with_settings", [False, True])
@pytest.mark.parametrize("reset", [False, True])
async def test_what_was_opened_and_dropped_is_gone(tmp_path: Path, *, with_settings: bool, reset: bool) -> None:
    async with Embedded(local_settings(tmp_path)) as server:
        await open_and_drop(server.grpc, with_settings=with_settings, reset=reset)
        await until(lambda: not alive()["TelemetryStream"])
        gc.collect()
        before = alive()
        gc.disable()
        try:
            for _ in range(DROPS):
                await open_and_drop(server.grpc, with_settings=with_settings, reset=reset)
            async with asyncio.timeout(20):
                await until(lambda: alive() <= before)
        finally:
            gc.enable()
