"""The server's side of a Telemetry stream, with a transport that the test plays."""

import asyncio
from functools import partial

import pytest

from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.fronts.grpc.activities.telemetry import serialize_command
from ternmq_proxy.fronts.grpc.streams.telemetry_stream import TelemetryStream
from ternmq_proxy.processors.client_commands import DropLiteTopic
from ternmq_rpc.grpc_http2.messages import StreamBroken

COMMANDS = [DropLiteTopic(str(number)) for number in range(5)]
WRITTEN = [
    rpc.TelemetryCommand(notify_unsubscribe_lite_command=rpc.NotifyUnsubscribeLiteCommand(lite_topic=str(number)))
    for number in range(5)
]
SERIALIZE = partial(serialize_command, store_host="127.0.0.1:8081")


class Transport:
    """Plays a call: what is written is gone once `open` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.written: list[rpc.TelemetryCommand] = []
        self.began = asyncio.Event()
        self.broken = False

    def write_messages(self, *messages: bytes) -> None:
        if self.broken:
            raise StreamBroken("the client is gone")
        self.written += map(rpc.TelemetryCommand.FromString, messages)

    async def wait_drained(self) -> None:
        self.began.set()
        await self.open.wait()
        if self.broken:
            raise StreamBroken("the client is gone")


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def stream(transport: Transport) -> TelemetryStream:
    return TelemetryStream(transport, SERIALIZE)


async def test_writes_go_in_their_order(transport: Transport, stream: TelemetryStream) -> None:
    transport.open.clear()
    writes = [asyncio.ensure_future(stream.push_command(command)) for command in COMMANDS[:3]]
    answer = asyncio.ensure_future(stream.send_answer(WRITTEN[3]))
    await transport.began.wait()
    transport.open.set()
    assert await asyncio.gather(*writes) == [True, True, True]
    await answer
    assert transport.written == WRITTEN[:4]


async def test_nothing_is_sent_once_the_stream_is_closed(transport: Transport, stream: TelemetryStream) -> None:
    stream.close()
    assert not await stream.push_command(COMMANDS[0])
    assert transport.written == []


async def test_a_command_on_its_way_when_the_client_goes_counts_as_not_sent(
    transport: Transport, stream: TelemetryStream
) -> None:
    transport.open.clear()
    pushing = asyncio.ensure_future(stream.push_command(COMMANDS[0]))
    await transport.began.wait()
    transport.broken = True
    transport.open.set()
    assert not await pushing


async def test_a_write_that_fails_counts_as_not_sent(transport: Transport, stream: TelemetryStream) -> None:
    transport.broken = True
    assert not await stream.push_command(COMMANDS[0])
    with pytest.raises(StreamBroken):
        await stream.send_answer(WRITTEN[1])


async def test_a_client_that_stopped_reading_is_waited_for_once(transport: Transport) -> None:
    stream = TelemetryStream(transport, SERIALIZE, push_s=0.01)
    transport.open.clear()
    assert not await stream.push_command(COMMANDS[0])
    for command in COMMANDS[1:3]:
        assert not await stream.push_command(command)
    answer = asyncio.ensure_future(stream.send_answer(WRITTEN[3]))
    transport.open.set()
    await answer
    # The late one came after all, those after it were given to others; now it can be asked again.
    assert transport.written == [WRITTEN[0], WRITTEN[3]]
    assert await stream.push_command(COMMANDS[4])
