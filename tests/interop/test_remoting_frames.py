"""Frames of unmodified clients and of the server, as a relay saw them: reading and writing loses nothing."""

from pathlib import Path

import pytest

from ternmq_rpc.remoting.commands import Command, decode_command, encode_command
from ternmq_rpc.remoting.frames import BINARY, JSON, FrameReader
from tests.interop.remoting.running import CLIENTS, Remoting, RemotingStack, numbered
from tests.support.frame_relay import FrameRelay

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

SEND_V1, PULL, HEARTBEAT, ROUTE, SEND_V2 = 10, 11, 34, 105, 310


def values_of(command: Command) -> tuple[object, ...]:
    return (
        int(command.code), int(command.language), command.version, command.opaque, command.flag, command.remark,
        dict(command.fields), command.body,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("client", "form"), [*((client, "JSON") for client in CLIENTS), ("java4", "ROCKETMQ"), ("java5", "ROCKETMQ")]
)
async def test_frames_are_read_and_written_as_they_were(client: str, form: str, tmp_path: Path) -> None:
    async with FrameRelay() as relay:
        with RemotingStack(tmp_path / "server", "--advertised-remoting", relay.address) as stack:
            relay.server = stack.addresses["remoting"]
            remoting = Remoting(stack, tmp_path)
            await remoting.run_command("topic", "create", "captured")
            environment = {"ROCKETMQ_SERIALIZE_TYPE": form}
            async with remoting.driver(client, environment=environment, address=relay.address) as driver:
                await driver.run("producer", name="p", group="producers")
                await driver.run(
                    "send", name="p", topic="captured", body=numbered(5), tag="red", keys="a b", property_color="ü 中"
                )
                await driver.run("push", name="c", group="captured", topic="captured")
                await driver.until_got("c", 5)
                await driver.run("stop", name="c")
    codes = set[int]()
    for captured in relay.frames:
        reader = FrameReader()
        [(serialization, header, body)] = reader.read_frames(captured.data)
        command = decode_command(serialization, header, body)
        if captured.by_client:
            codes.add(int(command.code))
            assert serialization == (BINARY if form == "ROCKETMQ" else JSON)
        for each in (JSON, BINARY):
            written = encode_command(command, each)
            [frame] = FrameReader().read_frames(written)
            assert values_of(decode_command(*frame)) == values_of(command)
        if serialization == BINARY:
            assert encode_command(command, BINARY) == captured.data
    assert {ROUTE, PULL, HEARTBEAT} <= codes
    assert codes & {SEND_V1, SEND_V2}
