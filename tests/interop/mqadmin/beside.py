"""The same small world on Apache RocketMQ 5.5.0 and on TernMQ, and what mqadmin prints of both.

Masked   what two runs can't have in common: addresses, ids, times, paths, numbers, and the spaces that numbers of
         another width need. Of an exception the stack is left out, as are the tool's own producers, which come and go.
"""

import asyncio
import json
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
_COLUMN_MAX = 100
_TRIES = 5
_TOO_SLOW = "RemotingTimeoutException"
_OWN_PRODUCER = "CLIENT_INNER_PRODUCER"
_KEYS = ("first", "second", "third")


class ApacheBroker(ApacheRocketMQ):
    """A name server and a broker that keeps users, policies and traces and syncs as TernMQ does, without a proxy."""

    def __init__(self) -> None:
        providers = {
            f"{kind}MetadataProvider": f"{PROVIDERS.format(kind)}.Local{kind.title()}MetadataProvider"
            for kind in ("authentication", "authorization")
        }
        super().__init__(True, brokerName=BROKER, traceTopicEnable="true", flushDiskType="SYNC_FLUSH", **providers)

    def _start_proxy(self, started: "Started") -> None:
        del started


class Server(NamedTuple):
    """A server: where its name server and its broker are, and the tool that looks at it."""

    name: str
    name_server: str
    broker: str
    mqadmin: MqAdmin
    home: Path
    client: RemotingClient
    """A member of `GROUP`."""
    ids: list[str]
    """Offset ids of the messages that are there from the beginning."""

    def fill(self, command: str) -> list[str]:
        """Return the arguments of a command with this server's addresses, folder and first message."""
        values = {"broker": self.broker, "name_server": self.name_server, "folder": self.home, "id": self.ids[0]}
        return command.format(**values).split()

    async def run(self, command: str, interrupted_after_s: int) -> str:
        """Return what a command prints, and writes to files that it names."""
        printed = ""
        for _ in range(_TRIES):
            printed = await asyncio.to_thread(
                self.mqadmin.run, *self.fill(command), interrupted_after_s=interrupted_after_s
            )
            if _TOO_SLOW not in printed:
                break
        return "\n".join([printed, *map(_read_file, _FILE.findall(printed))])

    def mask(self, printed: str) -> str:
        """Return what is to be compared."""
        for text in (self.broker, self.name_server):
            printed = printed.replace(text, "ADDRESS")
        printed = printed.replace(str(self.home), "FOLDER")
        lines = (_mask_line(line) for line in printed.splitlines())
        return "\n".join(line for line in lines if line)


_FILE = re.compile(r"\S+\.json\b")


def _read_file(name: str) -> str:
    path = Path(name)
    return json.dumps(json.loads(path.read_text()), indent=1, sort_keys=True) if path.is_file() else ""


_MASKS = (
    (re.compile(r"\b[0-9A-F]{32,}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[,.:]\d+)?"), "TIME"),
    (re.compile(r"/?\b\d+\.\d+\.\d+\.\d+(?::\d+)?"), "ADDRESS"),
    (re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:E-?\d+)?"), "N"),
    (re.compile(r"[ \t]+"), " "),
)


def _mask_line(line: str) -> str:
    if line.startswith(("\tat ", "\t... ")) or _OWN_PRODUCER in line:
        return ""
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line.strip()


@contextmanager
def _run_servers(folder: Path) -> Iterator[list[tuple[Path, str, str, MqAdmin]]]:
    """Start both servers; each has a folder, the addresses of its name server and its broker, and a tool."""
    with ExitStack() as started:
        homes = [folder / name for name in ("apache", "ternmq")]
        for home in homes:
            home.mkdir()
        apache = started.enter_context(ApacheBroker())
        arguments = ("up", "--data-dir", str(homes[1] / "data"))
        ternmq = started.enter_context(ServerProcess(homes[1], *arguments, addresses=("grpc", "http", "remoting")))
        places = (apache.namesrv_address, apache.broker_address), (ternmq.addresses["remoting"],) * 2
        yield [
            (home, *place, started.enter_context(MqAdmin(RELEASE, place[0], home)))
            for home, place in zip(homes, places, strict=True)
        ]


@asynccontextmanager
async def two_worlds(folder: Path) -> AsyncIterator[list[Server]]:
    """Start both servers; with each, a consumer has read one of three messages of a topic."""
    with _run_servers(folder) as servers:
        async with AsyncExitStack() as clients:
            worlds: list[Server] = []
            for home, name_server, broker, mqadmin in servers:
                client = await clients.enter_async_context(await RemotingClient.connect(broker))
                ids = await _prepare_world(client)
                clients.enter_context(_cancelled(asyncio.create_task(_beat_forever(client))))
                write_lists(home)
                worlds.append(Server(home.name, name_server, broker, mqadmin, home, client, ids))
            yield worlds


@contextmanager
def _cancelled(task: "asyncio.Task[None]") -> Iterator[None]:
    try:
        yield
    finally:
        task.cancel()


def write_lists(folder: Path) -> None:
    """Write the files of commands that make several topics or groups."""
    topic = {"readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    (folder / "topics.json").write_text(json.dumps([{"topicName": f"Listed{number}", **topic} for number in range(2)]))
    (folder / "groups.json").write_text(json.dumps([{"groupName": f"Listed{number}"} for number in range(2)]))


async def _prepare_world(client: RemotingClient) -> list[str]:
    """Return the offset ids of the messages."""
    status = {
        "mqPopTable": {},
        "mqTable": {MessageQueueKey(TOPIC, BROKER, 0): {"commitOffset": 1, "cachedMsgCount": 2}},
        "properties": {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "1795850000000"},
        "statusTable": {},
        "subscriptionSet": [{"topic": TOPIC, "subString": "*", "subVersion": 1}],
        "userConsumerInfo": {},
    }
    client.answers[307] = Command(0, body=encode_dialect(status))
    ids: list[str] = []
    for key in _KEYS:
        properties = {
            "UNIQ_KEY": f"7F0000010001{key.encode().hex():0>20}".upper(),
            "KEYS": key,
            "TAGS": "red",
            "city": "Ulm",
        }
        sent = await client.send(TOPIC, key.encode(), properties=properties, group=PRODUCERS)
        assert sent.code == 0, sent.remark
        ids.append(sent.fields["msgId"])
    await _beat(client)
    committed = await client.call(15, consumerGroup=GROUP, topic=TOPIC, queueId=0, commitOffset=1)
    assert committed.code == 0, committed.remark
    return ids


async def _beat(client: RemotingClient) -> None:
    await client.heartbeat(CLIENT, consumers={GROUP: [TOPIC]}, producers=(PRODUCERS,))


async def _beat_forever(client: RemotingClient) -> None:
    """The connection of a client that is silent for long is closed."""
    while True:
        await asyncio.sleep(20)
        await _beat(client)


class Compared(NamedTuple):
    """What a command printed at Apache RocketMQ and at TernMQ, masked."""

    command: str
    masked: list[str]

    @property
    def name(self) -> str:
        """The command's name, without what it is asked."""
        return self.command.partition(" ")[0]

    @property
    def is_equal(self) -> bool:
        return self.masked[0] == self.masked[1]

    def show(self) -> str:
        """Return both, line by line beside each other."""
        lines = [text.splitlines() for text in self.masked]
        height = max(len(each) for each in lines)
        columns = [each + [""] * (height - len(each)) for each in lines]
        width = min(_COLUMN_MAX, max((len(line) for line in columns[0]), default=0))
        rows = [
            f"{' ' if left == right else '!'} {left:<{width}} | {right}" for left, right in zip(*columns, strict=True)
        ]
        return "\n".join([f"=== mqadmin {self.command}", *rows])


async def commit_for_tools(servers: list[Server]) -> None:
    """Commit an offset of the group by which a command consumed: it does so itself only if it runs for long enough."""
    for server in servers:
        offset = {"consumerGroup": "AdminGroup", "topic": "AdminTopic", "queueId": 1, "commitOffset": 1}
        committed = await server.client.call(15, **offset)
        assert committed.code == 0, committed.remark


async def compare_command(
    servers: list[Server], command: str, *, in_order: bool, interrupted_after_s: int = 0
) -> Compared:
    """Run a command at both; without `in_order` the order of the lines tells nothing."""
    printed = await asyncio.gather(*(server.run(command, interrupted_after_s) for server in servers))
    masked = [server.mask(text) for server, text in zip(servers, printed, strict=True)]
    if not in_order:
        masked = ["\n".join(sorted(text.splitlines())) for text in masked]
    return Compared(command, masked)
