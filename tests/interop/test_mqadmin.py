"""mqadmin of RocketMQ 5.5.0 and 4.9.8, unmodified, as the operators' tool of this server."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.json_dialect import MessageQueueKey, encode_dialect
from tests.interop.mqadmin.beside import write_lists
from tests.interop.mqadmin.commands import NEW_ONLY, OLD_TOO, REFUSED
from tests.interop.mqadmin.running import TROUBLES, MqAdmin
from tests.support.remoting_client import RemotingClient
from tests.support.stack import ServerProcess

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]
RELEASES = {"5.5.0": OLD_TOO | NEW_ONLY, "4.9.8": OLD_TOO}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where a running server is for 4.x clients."""
    arguments = ("up", "--data-dir", str(tmp_path / "data"))
    with ServerProcess(tmp_path, *arguments, addresses=("grpc", "http", "remoting")) as server:
        yield server.addresses["remoting"]


async def start_client(address: str) -> RemotingClient:
    """Return a consumer and producer of 4.9.8 that has read one of three messages, and answers for itself."""
    client = await RemotingClient.connect(address)
    status = {
        "mqPopTable": {},
        "mqTable": {MessageQueueKey("LiveTopic", "broker-0", 0): {"commitOffset": 1, "cachedMsgCount": 2}},
        "properties": {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "1795850000000"},
        "statusTable": {},
        "subscriptionSet": [{"topic": "LiveTopic", "subString": "*", "subVersion": 1}],
        "userConsumerInfo": {},
    }
    client.answers[307] = Command(0, body=encode_dialect(status))
    for _ in range(3):
        await client.send("LiveTopic", b"x")
    await client.heartbeat("live-client", consumers={"LiveGroup": ["LiveTopic"]}, producers=("LiveProducer",))
    committed = await client.call(15, consumerGroup="LiveGroup", topic="LiveTopic", queueId=0, commitOffset=1)
    assert committed.code == 0
    return client


def find_faults(command: str, printed: str, wanted: Iterable[str], *, works: bool) -> list[str]:
    """Return what is wrong with what a command printed."""
    missing = [text for text in wanted if text not in printed]
    troubles = [text for text in TROUBLES if works and text in printed]
    return [f"{command}: without {missing}, with {troubles}:\n{printed}"] if missing or troubles else []


@pytest.mark.parametrize("release", RELEASES)
async def test_commands_of_mqadmin_work(address: str, tmp_path: Path, release: str) -> None:
    write_lists(tmp_path)
    faults = list[str]()
    async with await start_client(address) as client:
        with MqAdmin(release, address, tmp_path) as mqadmin:

            async def run(command: str) -> str:
                filled = command.format(address=address, folder=tmp_path)
                printed = await asyncio.to_thread(mqadmin.run, *filled.split())
                # The connection of a client that is silent for long is closed.
                await client.heartbeat(
                    "live-client", consumers={"LiveGroup": ["LiveTopic"]}, producers=("LiveProducer",)
                )
                return printed

            for command, texts in RELEASES[release].items():
                wanted = [text.format(address=address) if "{address}" in text else text for text in texts]
                faults += find_faults(command, await run(command), wanted, works=True)
            for command, reason in REFUSED.items():
                faults += find_faults(command, await run(command), [reason], works=False)
    count = len(RELEASES[release])
    assert not faults, f"{len(faults)} of {count} commands fail:\n" + "\n".join(faults)
