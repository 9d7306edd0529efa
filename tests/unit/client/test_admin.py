"""Calls of the admin service without a stack: arguments, servers that are not there or not TernMQ, who asks."""

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

import ternmq
import ternmq.admin
import ternmq.blocking
from ternmq.admin import topics
from ternmq.admin.clients.plain_calls import PlainCalls
from tests.unit.client.scripted_server import ScriptedServer
from tests.unit.command.admin_server import AdminServer

if TYPE_CHECKING:
    from ternmq_protos.v2 import definition_pb2 as pb

# The calls, without types: what is written wrong here on purpose, a type checker would refuse.
RAW: Any = ternmq.admin
NO_ZONE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is what is wrong with it


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of something that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "{}:{}".format(*listener.getsockname())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RAW.topics.create_topic(7), "name is text, which 7 is not"),
        (lambda: RAW.topics.create_topic("t", queues="4"), "queues is a whole number, which '4' is not"),
        (lambda: RAW.topics.create_topic("t", queues=True), "queues is a whole number, which True is not"),
        (lambda: RAW.topics.create_topic("t", brokers="a"), 'write brokers=["a"]'),
        (lambda: RAW.topics.update_topic("t", add_brokers=[5]), "each of add_brokers is text, which 5 is not"),
        (
            lambda: RAW.groups.create_group("g", max_atempts=3),
            "no setting 'max_atempts'; did you mean 'max_attempts'",
        ),
        (lambda: RAW.groups.create_group("g", fifo=1), "fifo is True or False, which 1 is not"),
        (
            lambda: RAW.groups.create_group("g", queue_lock_hold=30),
            "queue_lock_hold is a timedelta: write timedelta(seconds=30)",
        ),
        (lambda: RAW.groups.reset_offsets("g", "t"), "give one of to and shift"),
        (lambda: RAW.groups.reset_offsets("g", "t", "latest", shift=3), "give one of to and shift"),
        (
            lambda: RAW.groups.reset_offsets("g", "t", "end"),
            "'earliest', 'latest', a datetime or an offset, which 'end'",
        ),
        (lambda: RAW.groups.reset_offsets("g", "t", "latest", queue_ids=3), "write queue_ids=[3]"),
        (lambda: RAW.groups.create_group("g", lite_bind=3), "lite_bind is text, which 3 is not"),
        (lambda: RAW.groups.create_group("g", lite_wildcard=1), "lite_wildcard is True or False, which 1 is not"),
        (lambda: RAW.groups.create_group("g", lite_reset="taken"), 'write lite_reset=["taken"]'),
        (lambda: RAW.messages.resend_dead_letters("g", 17), "write queue_offsets=[17]"),
        (lambda: RAW.brokers.update_broker("b", draining="yes"), "draining is True or False, which 'yes' is not"),
        (lambda: RAW.brokers.advance_clock("2h"), "by is a timedelta or seconds, which '2h' is not"),
    ],
)
def test_arguments_of_another_type_are_a_type_error_that_says_what_to_write(
    make: Callable[[], object], said: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RAW.topics.create_topic("t", "fifi"), "type='fifi'; did you mean 'fifo'"),
        (lambda: RAW.topics.create_topic("t", queues=0), "queues=0 must be from 1 to 2147483647"),
        (lambda: RAW.topics.create_topic("t", queues=2**31), "must be from 1 to 2147483647"),
        (lambda: RAW.topics.update_topic("t", permission="rw"), "permission='rw'"),
        (lambda: RAW.groups.create_group("g", priority_factor=101), "priority_factor=101 must be from 0 to 100"),
        (
            lambda: RAW.topics.create_topic("t", "lite", lite_ttl=-timedelta(1)),
            "lite_ttl=-1 day, 0:00:00 must not be neg",
        ),
        (
            lambda: RAW.topics.update_topic("t", retention=-timedelta(1)),
            "retention=-1 day, 0:00:00 must not be negative",
        ),
        (lambda: RAW.groups.create_group("g", lite_quota=0), "lite_quota=0 must be from 1"),
        (lambda: RAW.groups.create_group("g", lite_model="own"), "lite_model='own'"),
        (lambda: RAW.groups.create_group("g", lite_reset=["takn"]), "did you mean 'taken'"),
        (lambda: RAW.groups.create_group("g", consume_from=NO_ZONE), "consume_from has no time zone"),
        (lambda: RAW.groups.reset_offsets("g", "t", NO_ZONE), "to has no time zone"),
        (lambda: RAW.groups.reset_offsets("g", "t", -1), "to=-1 must be from 0"),
        (lambda: RAW.messages.find_messages("t", "k", limit=0), "limit=0 must be from 1"),
        (lambda: RAW.messages.list_transactions("open"), "state='open'"),
        (lambda: RAW.messages.resolve_transaction("id", "commt"), "did you mean 'commit'"),
        (lambda: ternmq.Admin("127.0.0.1:1", request_timeout=0), "must be more than 0 seconds"),
    ],
)
def test_arguments_outside_of_what_there_is_are_a_value_error(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        make()


async def test_a_server_that_is_no_ternmq_does_not_support_it(server: ScriptedServer) -> None:
    async with ternmq.Admin(server.endpoint) as admin:
        with pytest.raises(ternmq.Unsupported):
            await admin.list_topics()
    with PlainCalls(server.endpoint) as calls, pytest.raises(ternmq.Unsupported):
        await asyncio.to_thread(calls.send_call, topics.list_topics())


async def test_a_server_that_says_nothing_is_waited_for_as_long_as_was_said(silent: str) -> None:
    async with ternmq.Admin(silent, request_timeout=0.2) as admin:
        with pytest.raises(ternmq.DeadlineExceeded):
            await admin.list_topics()
    with (
        PlainCalls(silent, request_timeout=0.2) as calls,
        pytest.raises(ternmq.DeadlineExceeded, match=r"within 0\.2 s"),
    ):
        await asyncio.to_thread(calls.send_call, topics.list_topics())


def test_plain_calls_connect_to_what_is_there(unused_tcp_port: int) -> None:
    with PlainCalls(f"127.0.0.1:{unused_tcp_port}") as calls, pytest.raises(ternmq.ConnectionFailed) as failed:
        calls.send_call(topics.list_topics())
    assert failed.value.retryable


def test_brokers_of_a_cluster_are_changed_and_removed() -> None:
    with AdminServer() as server, ternmq.blocking.Admin(server.endpoint) as admin:
        server.brokers.put("a")
        assert admin.update_broker("a", draining=True).draining
        assert admin.update_broker("a", permission="read").permission == "read"
        admin.remove_broker("a", force=True)
        assert admin.list_brokers() == []
        assert server.client_ids == [admin.client_id] * 4


def test_replicas_are_told_moved_elected_added_and_removed() -> None:
    with AdminServer() as server, ternmq.blocking.Admin(server.endpoint) as admin:
        server.brokers.put_replicas("a", x=1000, y=900, z=300)
        server.brokers.replica("a", "z").in_sync = False
        [shard] = admin.list_brokers()
        assert shard.leader == shard.replicas[0]
        assert (shard.replicas_wanted, shard.min_insync, shard.replication, shard.move_to) == (3, 2, "sync", "")
        told = [(each.name, each.leader, each.in_sync, each.position) for each in shard.replicas]
        assert told == [("x", True, True, 1000), ("y", False, True, 900), ("z", False, False, 300)]
        assert admin.move_leader("a", "y").move_to == "y"
        elected = admin.elect_replica("a", "z")
        assert (elected.lost_bytes, elected.elected.name, elected.broker.leader) == (700, "z", elected.elected)
        assert admin.add_replica("a").replicas_wanted == 4
        assert [each.name for each in admin.remove_replica("a", "x").replicas] == ["y", "z"]


def test_a_broker_of_an_older_server_has_no_replicas() -> None:
    with AdminServer() as server, ternmq.blocking.Admin(server.endpoint) as admin:
        server.brokers.put("a")
        [broker] = admin.list_brokers()
        assert (broker.replicas, broker.leader, broker.replicas_wanted, broker.min_insync) == ((), None, 1, 1)


def test_what_a_newer_server_calls_otherwise_is_told_as_it_is() -> None:
    with AdminServer() as server, ternmq.blocking.Admin(server.endpoint) as admin:
        admin.create_topic("orders")
        admin.create_group("billing")
        server.topics["orders"].type = cast("pb.MessageType", 77)
        server.topics["orders"].permission = cast("pb.Permission", 88)
        server.groups["billing"].consume_from = "9" * 40
        [topic], [group] = admin.list_topics(), admin.list_groups()
        assert (topic.type, topic.permission) == ("77", "88")
        assert group.consume_from == "9" * 40
        assert group.queue_lock_hold == timedelta(0)


def test_an_answer_that_makes_no_sense_is_an_internal_error() -> None:
    with AdminServer() as server, ternmq.blocking.Admin(server.endpoint) as admin:
        admin.create_topic("orders")
        server.topics["orders"].created.seconds = 10**15
        with pytest.raises(ternmq.InternalError, match="the answer of ListTopics makes no sense"):
            admin.list_topics()
        with PlainCalls(server.endpoint) as calls, pytest.raises(ternmq.InternalError, match="makes no sense"):
            calls.send_call(topics.list_topics())
