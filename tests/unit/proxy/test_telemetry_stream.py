"""The server's side of a Telemetry stream, with a transport that the test plays."""

import asyncio
from typing import cast

import pytest
from grpc import aio

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.fronts import telemetry_stream
from ternmq_proxy.fronts.telemetry_stream import TelemetryStream

COMMANDS = [rpc.TelemetryCommand(status=pb.Status(message=str(number))) for number in range(5)]


class Transport:
    """Plays grpc: a write waits while `open` is not set; two at a time would break the stream."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.written: list[rpc.TelemetryCommand] = []
        self.began = asyncio.Event()
        self.broken = False
        self._writing = False

    async def write(self, command: rpc.TelemetryCommand) -> None:
        assert not self._writing
        self._writing = True
        self.began.set()
        try:
            await self.open.wait()
            if self.broken:
                raise aio.UsageError("the stream is finished")
            self.written.append(command)
        finally:
            self._writing = False


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def stream(transport: Transport) -> TelemetryStream:
    return TelemetryStream(cast("aio.ServicerContext", transport))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who doesn't read is given up soon."""
    monkeypatch.setattr(telemetry_stream, "PUSH_TIMEOUT_S", 0.01)


async def test_writes_stand_in_line(transport: Transport, stream: TelemetryStream) -> None:
    transport.open.clear()
    writes = [asyncio.ensure_future(stream.push(command)) for command in COMMANDS[:3]]
    answer = asyncio.ensure_future(stream.answer(COMMANDS[3]))
    await transport.began.wait()
    transport.open.set()
    assert await asyncio.gather(*writes) == [True, True, True]
    await answer
    assert sorted(command.status.message for command in transport.written) == ["0", "1", "2", "3"]


async def test_nothing_is_sent_once_the_stream_is_closed(transport: Transport, stream: TelemetryStream) -> None:
    stream.close()
    assert not await stream.push(COMMANDS[0])
    assert transport.written == []


async def test_what_stands_in_line_when_the_stream_is_closed_is_not_sent(
    transport: Transport, stream: TelemetryStream
) -> None:
    transport.open.clear()
    first, following = (asyncio.ensure_future(stream.push(command)) for command in COMMANDS[:2])
    await transport.began.wait()
    stream.close()
    transport.open.set()
    assert (await first, await following) == (True, False)
    assert transport.written == COMMANDS[:1]


async def test_a_write_that_fails_counts_as_not_sent(transport: Transport, stream: TelemetryStream) -> None:
    transport.broken = True
    assert not await stream.push(COMMANDS[0])
    with pytest.raises(aio.BaseError):
        await stream.answer(COMMANDS[1])


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_stopped_reading_is_waited_for_once(transport: Transport, stream: TelemetryStream) -> None:
    transport.open.clear()
    assert not await stream.push(COMMANDS[0])
    for command in COMMANDS[1:3]:
        assert not await stream.push(command)
    answer = asyncio.ensure_future(stream.answer(COMMANDS[3]))
    transport.open.set()
    await answer
    # The late one came after all, those after it were given to others; now it can be asked again.
    assert transport.written == [COMMANDS[0], COMMANDS[3]]
    assert await stream.push(COMMANDS[4])
