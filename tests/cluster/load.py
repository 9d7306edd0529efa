"""Clients at work while the cluster suffers, and an account of every message.

Official clients send and receive in processes of their own, with the addresses of all proxies, as they would without a
load balancer; beside them our own client. A producer sends one message after the other, and goes on after an error as
an application would: such a message is not acknowledged, so that it may come or not.
"""

import asyncio
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from ternmq import AckError, ClientError, Message, Producer, SimpleConsumer
from ternmq_protos.admin_v1 import admin_pb2
from tests.cluster.watching import stored
from tests.interop.clients import Clients
from tests.interop.consumers.running import Consumers
from tests.interop.producers.running import Producer as Program
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient, code

OFFICIAL, OWN = "official", "own"
LANGUAGES = ("java", "go", "python")
OWN_PRODUCERS = 2
OWN_CONSUMERS = 2
QUEUES = 4
# Below what two cores can do beside servers and virtual machines: it is not speed that is looked at here.
PAUSE_S = 0.01
# Longer than what a client tries by itself.
PROGRESS_S = 60.0
ALL_DELIVERED_S = 90.0


@dataclass
class Account:
    """What was promised to producers, what they were refused, and what each group got."""

    delivered: dict[str, Counter[str]]
    acknowledged: set[str] = field(default_factory=set)
    by_producer: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str, str]] = field(default_factory=list)
    """Phase, producer, what it was told."""
    again: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Deliveries of what a group had before, by group and phase."""
    phase: str = "before"
    stored: int = 0
    longest_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def sent(self, producer: str, body: str, seconds: float) -> None:
        self.acknowledged.add(body)
        self.by_producer[producer] += 1
        self.longest_s[self.phase] = max(self.longest_s[self.phase], seconds)
        self._changed.set()

    def refuse(self, producer: str, error: str) -> None:
        self.refused.append((self.phase, producer, error))

    def deliver(self, group: str, body: str) -> None:
        if body in self.delivered[group]:
            self.again[group, self.phase] += 1
        self.delivered[group][body] += 1
        self._changed.set()

    def missing(self, group: str) -> set[str]:
        return self.acknowledged - self.delivered[group].keys()

    async def until(self, holds: Callable[[], bool], *, within_s: float, what: str) -> None:
        """Return when that holds of the account."""
        try:
            async with asyncio.timeout(within_s):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not within {within_s:g} s: {what}\n{self}") from None

    async def goes_on(self, count: int = 20) -> None:
        """Return when every producer had so many more messages acknowledged, and every group got as many."""
        sent, got = self.by_producer.copy(), {group: len(bodies) for group, bodies in self.delivered.items()}

        def more() -> bool:
            return all(self.by_producer[name] >= number + count for name, number in sent.items()) and all(
                len(self.delivered[group]) >= number + count for group, number in got.items()
            )

        await self.until(more, within_s=PROGRESS_S, what="all clients go on")

    def __str__(self) -> str:
        """The whole account; copies are messages that a client sent again since it had no answer."""
        bodies = set().union(*self.delivered.values())
        refused = Counter(self.refused)
        lines = [
            f"acknowledged {len(self.acknowledged)}: {dict(self.by_producer)}",
            f"refused {len(self.refused)}",
            *(f"  {number} of {who}, {phase}: {why}" for (phase, who, why), number in sorted(refused.items())),
            f"stored {self.stored}, of {len(bodies)} bodies: {self.stored - len(bodies)} copies by clients that sent "
            f"again, {len(bodies - self.acknowledged)} that were never acknowledged",
        ]
        for group, got in self.delivered.items():
            again = {phase: number for (of, phase), number in self.again.items() if of == group}
            lines.append(
                f"group {group}: {got.total()} deliveries, {len(self.missing(group))} missing, "
                f"{sum(again.values())} again: {again}"
            )
        lines += [f"longest send, {phase}: {seconds:.2f} s" for phase, seconds in self.longest_s.items()]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Way:
    """How clients come to a cluster: the official ones by `endpoint`, `within` the network where that is; what a test
    asks itself goes to `door`. Our own client is there only if it is on the same network."""

    endpoint: str
    door: str
    within: Sequence[str] = ()
    languages: Sequence[str] = LANGUAGES

    @classmethod
    def to(cls, cluster: ClusterProcesses, languages: Sequence[str] = LANGUAGES) -> "Way":
        """With the addresses of all proxies."""
        endpoint = ";".join(proxy.grpc for proxy in cluster.proxies)
        return cls(endpoint=endpoint, door=cluster.proxies[0].grpc, languages=languages)

    @property
    def groups(self) -> list[str]:
        """The kinds of consumers that are there."""
        return [*([OFFICIAL] if self.languages else []), *([] if self.within else [OWN])]


class Load:
    """Everybody sends to `topic` and receives until `finish`; see `working`."""

    def __init__(self, way: Way, topic: str, home: Path, stack: AsyncExitStack) -> None:
        self.account = Account(delivered={group: Counter() for group in way.groups})
        self.topic = topic
        self._way = way
        self._clients = Clients(way.endpoint, home, within=way.within)
        self._stack = stack
        self._stop = asyncio.Event()
        self._senders: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        languages, kinds = self._way.languages, self._way.groups
        async with RawClient(self._way.door) as client:
            await client.create_topic(self.topic, queues=QUEUES)
            for group in kinds:
                rules = admin_pb2.Group(name=self._group(group), retry_backoff="customized:1s")
                assert code(await client.admin("CreateGroup", group=rules)) == "OK"
        if languages:
            consumers = self._clients.consumers(*languages, kind="push", topic=self.topic, group=self._group(OFFICIAL))
            self._readers.append(self._spawn(self._note(await self._stack.enter_async_context(consumers))))
        for language in languages:
            program = await self._stack.enter_async_context(self._clients.producer(language, self.topic))
            self._senders.append(self._spawn(self._have_sent(program, language)))
        if OWN in kinds:
            self._readers += [self._spawn(self._receive()) for _ in range(OWN_CONSUMERS)]
            self._senders += [self._spawn(self._send(f"own-{number}")) for number in range(OWN_PRODUCERS)]
        producers = len(self._senders)
        await self.account.until(
            lambda: len(self.account.by_producer) == producers, within_s=PROGRESS_S, what="all producers are at work"
        )
        await self.account.goes_on()

    def _group(self, kind: str) -> str:
        return f"{kind}-{self.topic}"

    def _spawn(self, work: "asyncio._CoroutineLike[None]") -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[arg-type]
        self._stack.callback(task.cancel)
        return task

    @asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[None]:
        """What happens meanwhile goes by this name in the account; ends when everybody is at work again."""
        self.account.phase = name
        yield
        await self.account.goes_on()

    async def finish(self) -> Account:
        """Have everything delivered that was sent, and close the account."""
        self._stop.set()
        await asyncio.gather(*self._senders)
        account = self.account
        await account.until(
            lambda: not any(map(account.missing, account.delivered)),
            within_s=ALL_DELIVERED_S,
            what="all that was acknowledged is delivered",
        )
        async with RawClient(self._way.door) as client:
            account.stored = sum((await stored(client, self.topic)).values())
            for group in account.delivered:
                await self._all_settled(client, group)
        for reader in self._readers:
            if reader.done():
                reader.result()
        return account

    async def _all_settled(self, client: RawClient, group: str) -> None:
        """What is delivered again comes first, so that it is in the account."""
        request = admin_pb2.DescribeGroupRequest(name=self._group(group))
        async with asyncio.timeout(ALL_DELIVERED_S):
            while True:
                progress = (await client.admin("DescribeGroup", request)).progress
                if progress and all(row.committed == row.max_offset and not row.in_flight for row in progress):
                    return
                await asyncio.sleep(PAUSE_S)

    async def _have_sent(self, program: Program, language: str) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            body, began = f"{language}-{number}", time.monotonic()
            await program.tell(f"send {body}")
            event = await program.following()
            assert event.body == body, event
            if event.kind == "sent":
                self.account.sent(language, body, time.monotonic() - began)
            else:
                self.account.refuse(language, event.detail)
            await asyncio.sleep(PAUSE_S)

    async def _send(self, name: str) -> None:
        async with Producer(self._way.endpoint, topics=[self.topic]) as producer:
            for number in itertools.count():
                if self._stop.is_set():
                    return
                body, began = f"{name}-{number}", time.monotonic()
                try:
                    await producer.send(Message(self.topic, body.encode()))
                except ClientError as error:
                    self.account.refuse(name, str(error))
                else:
                    self.account.sent(name, body, time.monotonic() - began)
                await asyncio.sleep(PAUSE_S)

    async def _note(self, consumers: Consumers) -> None:
        while True:
            event = await consumers.following()
            if event.kind == "got":
                self.account.deliver(OFFICIAL, event.body)

    async def _receive(self) -> None:
        async with SimpleConsumer(
            self._way.endpoint, self._group(OWN), {self.topic: "*"}, await_duration=timedelta(seconds=5)
        ) as consumer:
            while True:
                try:
                    views = await consumer.receive(32, timedelta(seconds=10))
                    for view in views:
                        self.account.deliver(OWN, view.body.decode())
                    await consumer.ack(views)
                except (AckError, ClientError):
                    await asyncio.sleep(PAUSE_S)  # what was not settled comes again


@asynccontextmanager
async def working(way: Way, topic: str, home: Path) -> AsyncIterator[Load]:
    """Clients at work, on a topic of this name that nobody else has."""
    async with AsyncExitStack() as stack:
        load = Load(way, topic, home, stack)
        await load.start()
        yield load
