"""Clients of two proxies, each of which asks the other."""

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from ternmq_common.filters.message_filter import FilterText
from ternmq_common.shard.model import ProxyAnswer
from ternmq_proxy.fronts.remoting.call import ClientConnection
from ternmq_proxy.fronts.remoting.handlers.admin.peers import (
    answer_peers,
    call_member,
    find_consumers,
    find_producers,
    push_to_group,
)
from ternmq_proxy.operations.admin.peer_questions import answer_proxies
from ternmq_proxy.processors.client_settings import UserAgent
from ternmq_proxy.processors.group_members import ConsumerReport, GroupMember, GroupMembers, GroupSubscription
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.connection import ConnectionGone, RemotingConnection

if TYPE_CHECKING:
    from ternmq_proxy.services import Services

pytestmark = pytest.mark.plain  # its connections are stand-ins
ADDRESS = "127.0.0.1:9876"


class FakeConnection:
    """A connection whose client answers each request with its body, unless it `is_silent`."""

    local = ADDRESS

    def __init__(self) -> None:
        self.pushed: list[Command] = []
        self.is_silent = False

    def send_oneway(self, command: Command) -> None:
        """Note the request."""
        self.pushed.append(command)

    async def call_client(self, command: Command, timeout_s: float) -> Command:
        """Answer at once."""
        if self.is_silent:
            raise ConnectionGone(f"no answer within {timeout_s} s")
        return Command(0, remark="said", body=json.dumps(dict(command.fields)).encode() + command.body)


class Proxy:
    """The clients of one proxy; `others` are those that it asks."""

    def __init__(self) -> None:
        self.others: list[Proxy] = []
        self.members = GroupMembers(
            time.monotonic, expiry_s=60, on_change=lambda group: None, on_left=lambda client_id, group: None
        )
        process = SimpleNamespace(front_answers={})
        self.services = cast("Services", SimpleNamespace(process=process, messages=self))
        answer_peers(self.members, self.services)

    async def ask_proxies(self, question: str, argument: str) -> list[ProxyAnswer]:
        """Ask the others."""
        return [
            ProxyAnswer("other", await answer_proxies(question, argument, services=each.services))
            for each in self.others
        ]

    def connect(self, client_id: str, topic: str, version: int) -> FakeConnection:
        """Have a client of the groups `group` and `producers`."""
        connection = FakeConnection()
        channel = ClientConnection(cast("RemotingConnection", connection), ADDRESS, "cluster")
        report = ConsumerReport(
            group="group",
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from="CONSUME_FROM_LAST_OFFSET",
            subscriptions=(GroupSubscription(topic, FilterText(f"tag-{version}"), version),),
        )
        member = GroupMember(client_id, channel, "127.0.0.1:1", UserAgent("JAVA", "4.9.8"))
        self.members.take_heartbeat(member, {"group": report}, ["producers"])
        return connection


def two_proxies() -> tuple[Proxy, Proxy]:
    """Return two that ask each other."""
    here, there = Proxy(), Proxy()
    here.others, there.others = [there], [here]
    return here, there


async def test_members_of_all_proxies_are_found_with_the_newest_subscription() -> None:
    here, there = two_proxies()
    here.connect("b", "topic", 1)
    there.connect("a", "topic", 2)
    for proxy in (here, there):
        report = await find_consumers("group", proxy.members, proxy.services)
        assert [(each.client_id, each.version) for each in report.members] == [("a", "4.9.8"), ("b", "4.9.8")]
        assert [(each.topic, each.expression) for each in report.subscriptions] == [("topic", "tag-2")]
        producers = await find_producers("", proxy.members, proxy.services)
        assert [each.client_id for each in producers["producers"]] == ["a", "b"]
        assert await find_producers("nobody", proxy.members, proxy.services) == {}


async def test_a_request_reaches_the_client_wherever_it_is() -> None:
    here, there = two_proxies()
    there.connect("a", "topic", 1)
    for proxy in (here, there):
        question = Command(307, fields={"clientId": "a"}, body=b"\xff\x00")
        answer = await call_member("group", "a", question, proxy.members, proxy.services)
        assert answer is not None
        assert (answer.code, answer.remark, answer.body) == (0, "said", b'{"clientId": "a"}\xff\x00')
        assert await call_member("group", "nobody", question, proxy.members, proxy.services) is None


async def test_all_clients_of_a_group_are_told() -> None:
    here, there = two_proxies()
    connections = [here.connect("b", "topic", 1), there.connect("a", "topic", 1)]
    pushed = Command(220, fields={"group": "group"}, body=b"body")
    assert await push_to_group("group", pushed, here.members, here.services) == 2
    for connection in connections:
        [command] = connection.pushed
        assert (command.code, command.fields, command.body) == (220, {"group": "group"}, b"body")


async def test_a_silent_client_elsewhere_is_as_one_that_is_gone() -> None:
    here, there = two_proxies()
    there.connect("a", "topic", 1).is_silent = True
    assert await call_member("group", "a", Command(307), here.members, here.services) is None
