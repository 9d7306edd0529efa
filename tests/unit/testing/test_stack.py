"""A broker of a test's own: up at once, apart from all others, the same after a restart, gone without a trace."""

import asyncio
import json
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

import ternmq
from ternmq import blocking
from ternmq.testing import Stack
from ternmq.testing.server_thread import THREAD_NAME
from ternmq_common.errors import StartupError
from ternmq_common.server_settings import FlushMode
from ternmq_common.settings import SettingsError
from tests.support.certificates import Certificates
from tests.support.until import until

POLL = timedelta(seconds=5)
SECOND = timedelta(seconds=1)


@pytest.fixture
def stack() -> Iterator[Stack]:
    with Stack() as running:
        yield running


def send(stack: Stack, topic: str, body: bytes) -> None:
    with blocking.Producer(stack.endpoint, topics=[topic]) as producer:
        producer.send(ternmq.Message(topic, body))


def received(stack: Stack, topic: str, *, poll: timedelta = POLL) -> list[bytes]:
    """The bodies of one receive by a group that exists for this alone; they are acknowledged."""
    with blocking.SimpleConsumer(stack.endpoint, "readers", {topic: "*"}, await_duration=poll) as consumer:
        views = consumer.receive()
        consumer.ack(views)
    return [view.body for view in views]


def is_listening(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_what_is_sent_is_received(stack: Stack) -> None:
    send(stack, "orders", b"shoes")
    assert received(stack, "orders") == [b"shoes"]


async def test_a_coroutine_uses_it_too() -> None:
    with Stack() as stack:
        stack.create_topic("orders", queues=1)
        async with (
            ternmq.Producer(stack.endpoint, topics=["orders"]) as producer,
            ternmq.SimpleConsumer(stack.endpoint, "readers", {"orders": "*"}, await_duration=POLL) as consumer,
        ):
            await producer.send(ternmq.Message("orders", b"shoes"))
            [view] = await consumer.receive()
            await consumer.ack(view)
    assert view.body == b"shoes"


def test_it_is_up_within_half_a_second() -> None:
    """Processor time is measured, since the clock also measures what else the machine does."""

    def seconds() -> float:
        began = time.process_time()
        with Stack():
            return time.process_time() - began

    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.parametrize("by_admin", [False, True])
async def test_ordered_retries_go_by_its_clock_and_keep_their_order(by_admin: bool) -> None:
    """They wait in the client: a consumer of an ordered group repeats by itself what failed."""
    attempts: list[tuple[bytes, int]] = []

    def has_failed(times: int) -> bool:
        assert consumer._consumption is not None
        return len(attempts) == times and bool(consumer._consumption._parked)

    async def listener(view: ternmq.MessageView) -> ternmq.ConsumeResult:
        attempts.append((view.body, view.delivery_attempt))
        fails = view.body == b"first" and view.delivery_attempt < 3
        return ternmq.ConsumeResult.FAILURE if fails else ternmq.ConsumeResult.SUCCESS

    with Stack() as stack, Stack() as other:
        for each in (stack, other):
            each.create_topic("orders", "fifo", queues=1)
            each.create_group("g", fifo=True, retry_backoff="customized:1h")
        subscriptions = {"orders": "*"}
        async with (
            ternmq.Admin(stack.endpoint) as admin,
            ternmq.Producer(stack.endpoint, topics=["orders"]) as producer,
            ternmq.PushConsumer(stack.endpoint, "g", subscriptions, listener) as consumer,
            ternmq.PushConsumer(other.endpoint, "g", subscriptions, listener),
        ):
            for body in (b"first", b"second"):
                await producer.send(ternmq.Message("orders", body, message_group="a"))
            for count in (1, 2):
                await until(partial(has_failed, count))
                other.advance(timedelta(hours=2))
                if by_admin:
                    await admin.advance_clock(3600)
                else:
                    await asyncio.to_thread(stack.advance, timedelta(hours=1))
            await until(lambda: len(attempts) == 4)
    assert attempts == [(b"first", 1), (b"first", 2), (b"first", 3), (b"second", 1)]


def test_its_health_is_served(stack: Stack) -> None:
    with urllib.request.urlopen(f"http://{stack.http}/health/ready") as answer:
        assert json.load(answer) == {"status": "ready", "test_clock": True}


def test_stacks_are_apart() -> None:
    with Stack() as one, Stack() as other:
        for stack, body in ((one, b"one"), (other, b"other")):
            stack.create_topic("orders", queues=1)
            send(stack, "orders", body)
        one.advance(timedelta(days=1))
        assert (received(one, "orders"), received(other, "orders")) == ([b"one"], [b"other"])
        assert one.now() - other.now() > timedelta(hours=23)


def test_a_restart_keeps_data_ports_and_time(stack: Stack) -> None:
    send(stack, "orders", b"shoes")
    addresses, before = (stack.endpoint, stack.http), stack.advance(timedelta(days=2))
    stack.restart()
    assert (stack.endpoint, stack.http) == addresses
    assert timedelta(0) <= stack.now() - before < timedelta(days=1)
    assert received(stack, "orders") == [b"shoes"]


def test_it_can_be_down_for_a_while(stack: Stack) -> None:
    stack.stop()
    assert not is_listening(stack.endpoint)
    stack.stop()
    stack.start()
    assert is_listening(stack.endpoint)


def test_nothing_is_left_of_it() -> None:
    with Stack() as stack:
        data_dir, addresses = stack.settings.data_dir, (stack.endpoint, stack.http)
        assert data_dir.is_dir()
        assert all(map(is_listening, addresses))
    assert not data_dir.exists()
    assert not any(map(is_listening, addresses))
    assert THREAD_NAME not in [thread.name for thread in threading.enumerate()]
    stack.close()


def test_a_folder_that_is_given_stays(tmp_path: Path) -> None:
    with Stack(data_dir=tmp_path / "data") as stack:
        send(stack, "orders", b"shoes")
    with Stack(data_dir=str(tmp_path / "data")) as stack:
        assert received(stack, "orders") == [b"shoes"]


def test_an_open_client_does_not_hold_up_its_end(stack: Stack) -> None:
    with blocking.SimpleConsumer(stack.endpoint, "readers", {"orders": "*"}):
        stack.close()


def test_settings_are_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERNMQ_DEFAULT_QUEUES", "3")
    stack = Stack(retention_ms="3d", flush="sync", transaction_check_max=2)
    assert (stack.settings.retention_ms, stack.settings.transaction_check_max) == (259_200_000, 2)
    assert stack.settings.flush is FlushMode.SYNC
    assert stack.settings.default_queues != 3


def test_settings_that_do_not_exist_or_fit_are_refused() -> None:
    with pytest.raises(SettingsError, match="unknown setting 'retenton_ms'; did you mean 'retention_ms'"):
        Stack(retenton_ms="3d")
    with pytest.raises(SettingsError, match="retention_ms = 1s"):
        Stack(retention_ms="1s")


def test_a_start_that_fails_says_why_and_leaves_nothing(stack: Stack) -> None:
    second = Stack(grpc=stack.endpoint)
    with pytest.raises(StartupError, match=stack.endpoint), second:
        pass
    assert not second.settings.data_dir.exists()
    assert [thread.name for thread in threading.enumerate()].count(THREAD_NAME) == 1


def test_without_the_servers_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = ("ternmq_proxy", "ternmq_runtime.http", "ternmq_runtime.observability")
    for name in [name for name in sys.modules if name.startswith(servers)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "h11", None)
    with (
        pytest.raises(
            StartupError, match=r"h11 is missing\): in a checkout of TernMQ, run pip install '\.\[testing\]'"
        ),
        Stack(),
    ):
        pass


def test_an_address_before_the_start_is_refused() -> None:
    stack = Stack()
    for address in ("endpoint", "http"):
        with pytest.raises(ternmq.NotRunning, match="with Stack"):
            getattr(stack, address)


def test_its_time_is_the_machines_until_it_is_moved(stack: Stack) -> None:
    began = datetime.now(UTC)
    assert abs(stack.now() - began) < timedelta(minutes=1)
    now = stack.advance(timedelta(hours=1))
    assert now - began >= timedelta(hours=1)
    assert stack.advance(90) - now >= timedelta(seconds=90)


def test_time_goes_forward_only(stack: Stack) -> None:
    for step in (0, -1, timedelta(days=-1)):
        with pytest.raises(ternmq.BadRequest):
            stack.advance(step)


def test_a_clock_of_the_machine_is_not_moved() -> None:
    with Stack(test_clock=False) as stack, pytest.raises(ternmq.Forbidden, match="can't be moved"):
        stack.advance(1)


def test_topics_and_groups_are_made_as_asked(stack: Stack) -> None:
    topic = stack.create_topic(stack.fresh_name("jobs"), type="fifo", queues=2)
    assert topic.startswith("jobs-")
    group = stack.create_group(
        stack.fresh_name(), fifo=True, max_attempts=3, retry_backoff="customized:1s", queue_lock_hold=SECOND
    )
    assert stack.create_group(group, fifo=True, max_attempts=3, retry_backoff="customized:1s", queue_lock_hold=SECOND)
    with pytest.raises(ternmq.BadRequest, match="max_attempts 3"):
        stack.create_group(group, fifo=True)
    with pytest.raises(ternmq.BadRequest, match="2 queues"):
        stack.create_topic(topic, type="fifo", queues=3)
    with pytest.raises(ValueError, match="there are: normal, fifo"):
        stack.create_topic("other", type="queue")


def test_calls_to_a_stack_that_is_down_name_its_endpoint(stack: Stack) -> None:
    stack.stop()
    with pytest.raises(ternmq.ConnectionFailed, match=stack.endpoint):
        stack.now()


def test_with_access_control_it_has_a_super_user_who_makes_others() -> None:
    with Stack(access_control=True) as stack:
        stack.create_topic("orders", queues=1)
        with blocking.Admin(stack.endpoint, credentials=stack.credentials) as admin:
            secret = admin.create_user("alice").secret
            admin.put_policy("alice", "Topic:orders", "Pub")
        alice = ternmq.Credentials("alice", secret)
        with blocking.Producer(stack.endpoint, topics=["orders"], credentials=alice) as producer:
            producer.send(ternmq.Message("orders", b"shoes"))
        nobody = blocking.Producer(stack.endpoint, topics=["orders"])
        with pytest.raises(ternmq.Unauthorized), nobody:
            nobody.send(ternmq.Message("orders", b"shoes"))
        stack.restart()
        stack.create_topic("hats", queues=1)


def test_it_is_asked_by_tls_and_at_its_admin_listener(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    cert, key = certificates.issue("server")
    tls = ternmq.TlsOptions(ca=certificates.ca)
    with Stack(tls_cert=cert, tls_key=key, admin="127.0.0.1:0", tls=tls) as stack:
        assert stack.admin_endpoint != stack.endpoint
        stack.create_topic("orders", queues=1)
        with blocking.Producer(stack.endpoint, topics=["orders"], tls=stack.tls) as producer:
            producer.send(ternmq.Message("orders", b"shoes"))
