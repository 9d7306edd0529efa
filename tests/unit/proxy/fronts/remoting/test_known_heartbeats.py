"""A heartbeat that repeats the last one of its connection is not read again, and has the same effect as if it were."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.filters.message_filter import FilterText
from ternmq_common.shard.model import ConsumerGroup
from ternmq_proxy.fronts.remoting.call import ClientConnection
from ternmq_proxy.fronts.remoting.memberships import Memberships
from ternmq_proxy.processors.client_settings import UserAgent
from ternmq_proxy.processors.clients import ClientRegistry
from ternmq_proxy.processors.group_members import ConsumerReport, GroupMember, GroupSubscription
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_proxy.services import Services
    from ternmq_rpc.remoting.connection import RemotingConnection

pytestmark = pytest.mark.plain  # its connections are stand-ins
CLIENTS, GROUPS, TOPICS = ("a", "b", "c"), ("g", "h"), ("s", "t")
Reported = tuple[tuple[str, tuple[tuple[str, int], ...] | None], ...]
"""The groups of a heartbeat, each with its topics and their versions, or None without subscriptions."""


class Proxy:
    """The memberships of a proxy; with `reads_all`, it reads each heartbeat."""

    def __init__(self, *, reads_all: bool) -> None:
        self._reads_all = reads_all
        self.now_s = 0.0
        self.version = 1
        self.popping: set[str] = set()
        self.renewed = 0
        self.clients = ClientRegistry(lambda: self.now_s, expiry_s=60.0)
        self.consuming = self
        self.services = SimpleNamespace(
            catalog=self, clients=self.clients, messages=self, process=SimpleNamespace(front_answers={})
        )
        self.memberships = Memberships(cast("Services", self.services))
        self._connections = {each: self._connect() for each in CLIENTS}

    def _connect(self) -> ClientConnection:
        connection = cast("RemotingConnection", SimpleNamespace(local="127.0.0.1:9876", send_oneway=lambda _: None))
        return ClientConnection(connection, "127.0.0.1:9876", "cluster")

    def group_or_default(self, name: str) -> ConsumerGroup:
        return ConsumerGroup(name=name, remoting_pop=name in self.popping)

    async def ask_proxies(self, question: str, argument: str) -> list[object]:
        return []

    async def leave(self, group: str, client_id: str) -> None: ...

    def beat(self, client_id: str, reported: Reported, producers: frozenset[str]) -> object:
        """Have a client send a heartbeat; return whether members or topics changed, or the refusal."""
        client = self._connections[client_id]
        command = Command(34, body=repr((reported, sorted(producers))).encode(), version=409)
        if not self._reads_all and self.memberships.renew_client(client, command, ""):
            self.renewed += 1
            return False
        reports = {group: _report_of(group, topics) for group, topics in reported}
        member = GroupMember(client_id, client, "192.0.2.1:1", UserAgent("JAVA", "4.9.8"))
        try:
            changed = self.memberships.take_heartbeat(client, member, reports, producers)
        except MessagingError as error:
            return str(error)
        self.memberships.remember_heartbeat(client, command, "", self.version)
        return changed

    def turn_way(self, client_id: str, reported: Reported, producers: frozenset[str]) -> None:
        """Have a group pop, or pull again; `adopt_way` is what a member does by itself then."""
        del producers
        self.version += 1
        self.popping ^= {group for group, _ in reported}
        for group, _ in reported:
            self.memberships.adopt_way(self._connections[client_id], group)

    def leave_groups(self, client_id: str, reported: Reported, producers: frozenset[str]) -> None:
        for group in (*[group for group, _ in reported], ""):
            self.memberships.leave_groups(self._connections[client_id], group, next(iter(producers), ""))

    def reconnect(self, client_id: str, reported: Reported, producers: frozenset[str]) -> None:
        del reported, producers
        self.memberships.forget_channel(self._connections[client_id])
        self._connections[client_id] = self._connect()

    def forget_clients(self, client_id: str, reported: Reported, producers: frozenset[str]) -> None:
        del reported, producers
        self.clients.forget_client(client_id)

    def wait(self, client_id: str, reported: Reported, producers: frozenset[str]) -> None:
        del client_id, reported, producers
        self.now_s += 25.0
        self.clients.expire_clients()

    def call(self, client_id: str, reported: Reported, producers: frozenset[str]) -> None:
        """Have a client name another group in a call."""
        del producers
        self.clients.note_call(client_id, reported[0][0] if reported else "")

    @property
    def state(self) -> object:
        """All that heartbeats may change."""
        members = self.memberships.members
        listed = [
            (each.client_id, each.group, each.settings, each.client_type, each.last_seen, each.address)
            for each in self.clients.list_clients()
        ]
        known = [(each.client_id, each.consumers, each.producers) for each in members.list_members()]
        groups = {group: members.subscriptions_of(group) for group in members.consumer_groups()}
        pulling = {group: self.clients.pulling_members(group, "") for group in GROUPS}
        return sorted(listed, key=lambda each: each[0]), known, groups, pulling


def _report_of(group: str, topics: tuple[tuple[str, int], ...] | None) -> ConsumerReport:
    subscriptions = None
    if topics is not None:
        subscriptions = tuple(GroupSubscription(topic, FilterText("*"), version) for topic, version in topics)
    return ConsumerReport(
        group=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from="CONSUME_FROM_LAST_OFFSET",
        subscriptions=subscriptions,
    )


topics = st.none() | st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(1, 2)), max_size=2, unique_by=lambda each: each[0]
).map(tuple)
reported = st.lists(st.tuples(st.sampled_from(GROUPS), topics), max_size=2, unique_by=lambda each: each[0]).map(tuple)
heartbeats = st.tuples(reported, st.sampled_from((frozenset[str](), frozenset({"p"}))))
# Most steps are heartbeats, and most of these repeat one of a few.
STEPS = ("beat",) * 8 + ("turn_way", "leave_groups", "reconnect", "forget_clients", "wait", "call")


@given(
    st.lists(heartbeats, min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(CLIENTS), st.integers(0, 2)), min_size=1, max_size=30),
)
def test_a_repeated_heartbeat_does_what_reading_it_would(
    few: list[tuple[Reported, frozenset[str]]], steps: list[tuple[str, str, int]]
) -> None:
    async def compare() -> None:
        proxies = Proxy(reads_all=True), Proxy(reads_all=False)
        for name, client_id, number in steps:
            reported, producers = few[number % len(few)]
            first, second = [getattr(each, name)(client_id, reported, producers) for each in proxies]
            assert first == second
            assert proxies[0].state == proxies[1].state
        for each in proxies:
            await each.memberships.stop()

    asyncio.run(compare())


async def test_a_client_that_repeats_itself_stays_known_without_being_read() -> None:
    proxy = Proxy(reads_all=False)
    reported: Reported = (("g", (("s", 1),)), ("h", None))
    assert proxy.beat("a", reported, frozenset({"p"})) is True
    for _ in range(10):
        proxy.wait("a", (), frozenset())
        assert proxy.beat("a", reported, frozenset({"p"})) is False
    assert proxy.renewed == 10
    [first, second] = proxy.clients.list_clients()
    assert (first.last_seen, second.last_seen) == (250.0, 250.0)
    proxy.version += 1
    assert proxy.beat("a", reported, frozenset({"p"})) is False
    assert proxy.renewed == 10
    await proxy.memberships.stop()


async def test_a_producer_that_begins_to_consume_is_known_as_a_member_at_once() -> None:
    proxy = Proxy(reads_all=True)
    proxy.beat("a", (), frozenset({"p"}))
    assert proxy.beat("a", (("g", (("s", 1),)),), frozenset({"p"})) is True
    assert [(each.client_id, each.group) for each in proxy.clients.list_clients()] == [("a", "g")]
    assert proxy.clients.pulling_members("g", "s") == ["a"]
    await proxy.memberships.stop()
