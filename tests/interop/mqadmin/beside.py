"""The same small world on Apache RocketMQ 5.5.0 and on TernMQ, and what mqadmin prints of both.

Masked   what two runs can't have in common: addresses, ids, times, paths, numbers, and the spaces that numbers of
         another width need. Of an exception the stack is left out.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.json_dialect import MessageQueueKey, encode_dialect
from tests.interop.apache_rocketmq import ApacheRocketMQ
from tests.interop.guarded.apache import PROVIDERS
from tests.interop.mqadmin.running import MqAdmin
from tests.support.remoting_client import RemotingClient
from tests.support.stack import ServerProcess

if TYPE_CHECKING:
    from contextlib import ExitStack as Started

RELEASE = "5.5.0"
BROKER = "broker-0"
TOPIC, GROUP, CLIENT, PRODUCERS = "LiveTopic", "LiveGroup", "live-client", "LiveProducer"
_KEYS = ("first", "second", "third")


class ApacheBroker(ApacheRocketMQ):
    """A name server and a broker that keeps users and policies, without a proxy."""

    def __init__(self) -> None:
        providers = {
            f"{kind}MetadataProvider": f"{PROVIDERS.format(kind)}.Local{kind.title()}MetadataProvider"
            for kind in ("authentication", "authorization")
        }
        super().__init__(True, brokerName=BROKER, **providers)

    def _start_proxy(self, started: "Started") -> None:
        del started


class Server(NamedTuple):
    """A server: where its name server and its broker are, and the tool that looks at it."""

    name: str
    name_server: str
    broker: str
    mqadmin: MqAdmin
    home: Path

    def fill(self, command: str) -> list[str]:
        """Return the arguments of a command with this server's addresses and folder."""
        return command.format(broker=self.broker, name_server=self.name_server, folder=self.home).split()

    async def run(self, command: str) -> str:
        """Return what a command prints."""
        return await asyncio.to_thread(self.mqadmin.run, *self.fill(command))

    def mask(self, printed: str) -> str:
        """Return what is to be compared."""
        for text in (self.broker, self.name_server):
            printed = printed.replace(text, "ADDRESS")
        printed = printed.replace(str(self.home), "FOLDER")
        lines = (_mask_line(line) for line in printed.splitlines())
        return "\n".join(line for line in lines if line)


_MASKS = (
    (re.compile(r"\b[0-9A-Fa-f]{32}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[,.:]\d+)?"), "TIME"),
    (re.compile(r"/?\b\d+\.\d+\.\d+\.\d+(?::\d+)?"), "ADDRESS"),
    (re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:E-?\d+)?"), "N"),
    (re.compile(r"[ \t]+"), " "),
)


def _mask_line(line: str) -> str:
    if line.startswith(("\tat ", "\t... ")):
        return ""
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line.strip()


@contextmanager
def _run_servers(folder: Path) -> Iterator[list[Server]]:
    with ExitStack() as started:
        homes = [folder / name for name in ("apache", "ternmq")]
        for home in homes:
            home.mkdir()
        apache = started.enter_context(ApacheBroker())
        arguments = ("up", "--data-dir", str(homes[1] / "data"))
        ternmq = started.enter_context(ServerProcess(homes[1], *arguments, addresses=("grpc", "http", "remoting")))
        places = (apache.namesrv_address, apache.broker_address), (ternmq.addresses["remoting"],) * 2
        yield [
            Server(home.name, *place, started.enter_context(MqAdmin(RELEASE, place[0], home)), home)
            for home, place in zip(homes, places, strict=True)
        ]


@asynccontextmanager
async def two_worlds(folder: Path) -> AsyncIterator[list[Server]]:
    """Start both servers; with each, a consumer has read one of three messages of a topic."""
    with _run_servers(folder) as servers:
        async with AsyncExitStack() as clients:
            for server in servers:
                client = await clients.enter_async_context(await RemotingClient.connect(server.broker))
                await _prepare_world(client)
                beat = clients.enter_context(_cancelled(asyncio.create_task(_beat_forever(client))))
                del beat
            yield servers


@contextmanager
def _cancelled(task: "asyncio.Task[None]") -> Iterator[None]:
    try:
        yield
    finally:
        task.cancel()


async def _prepare_world(client: RemotingClient) -> None:
    status = {
        "mqPopTable": {},
        "mqTable": {MessageQueueKey(TOPIC, BROKER, 0): {"commitOffset": 1, "cachedMsgCount": 2}},
        "properties": {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "1795850000000"},
        "statusTable": {},
        "subscriptionSet": [{"topic": TOPIC, "subString": "*", "subVersion": 1}],
        "userConsumerInfo": {},
    }
    client.answers[307] = Command(0, body=encode_dialect(status))
    for key in _KEYS:
        properties = {
            "UNIQ_KEY": f"7F0000010001{key.encode().hex():0>20}".upper(),
            "KEYS": key,
            "TAGS": "red",
            "city": "Ulm",
        }
        sent = await client.send(TOPIC, key.encode(), properties=properties, group=PRODUCERS)
        assert sent.code == 0, sent.remark
    await _beat(client)
    committed = await client.call(15, consumerGroup=GROUP, topic=TOPIC, queueId=0, commitOffset=1)
    assert committed.code == 0, committed.remark


async def _beat(client: RemotingClient) -> None:
    await client.heartbeat(CLIENT, consumers={GROUP: [TOPIC]}, producers=(PRODUCERS,))


async def _beat_forever(client: RemotingClient) -> None:
    """The connection of a client that is silent for long is closed."""
    while True:
        await asyncio.sleep(20)
        await _beat(client)


class Compared(NamedTuple):
    """What a command printed at Apache RocketMQ and at TernMQ, as it was and masked."""

    command: str
    printed: list[str]
    masked: list[str]

    @property
    def is_equal(self) -> bool:
        return self.masked[0] == self.masked[1]

    def show(self) -> str:
        """Return both, line by line beside each other."""
        lines = [text.splitlines() for text in self.masked]
        height = max(len(each) for each in lines)
        columns = [each + [""] * (height - len(each)) for each in lines]
        width = min(100, max((len(line) for line in columns[0]), default=0))
        rows = [
            f"{' ' if left == right else '!'} {left:<{width}} | {right}" for left, right in zip(*columns, strict=True)
        ]
        return "\n".join([f"=== mqadmin {self.command}", *rows])


async def compare_command(servers: list[Server], command: str, *, in_order: bool) -> Compared:
    """Run a command at both; without `in_order` the order of the lines, and of the words in them, tells nothing."""
    printed = await asyncio.gather(*(server.run(command) for server in servers))
    masked = [server.mask(text) for server, text in zip(servers, printed, strict=True)]
    if not in_order:
        masked = ["\n".join(sorted(text.splitlines())) for text in masked]
    return Compared(command, list(printed), masked)
