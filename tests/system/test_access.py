"""Access control over a real front: every call with every right, who calls, and what becomes of calls that go on
(`docs/security.md`)."""

import asyncio
import base64
import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from grpc_reflection.v1alpha import reflection_pb2

from ternmq_common.access.users import AccessUser, UserSecret
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.services import AnswerLimits
from tests.support.access_table import (
    ADMIN,
    GROUP,
    LITE_GROUP,
    MESSAGING,
    OF_TRANSACTIONS,
    PUBLISHED,
    TOPIC,
    Line,
    is_enough,
    rights,
)
from tests.support.embedded import Embedded, RawClient, code, local_settings, message, receive_request
from tests.support.until import until
from tests.support.users import SECRET, Users, signed
from tests.system.test_telemetry import consumer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

EVERY: dict[str, Line] = {**MESSAGING, **ADMIN, **PUBLISHED}
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Guarded:
    """A server with access control, and its users."""

    def __init__(self, server: Embedded, users: Users, folder: "Path") -> None:
        self.server, self.users, self.folder = server, users, folder

    def client(self, name: str, **signature: Any) -> RawClient:  # noqa: ANN401
        return RawClient(self.server.grpc, metadata=signed(name, f"client-{name}-{time.monotonic_ns()}", **signature))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> "AsyncIterator[Guarded]":
    folder = tmp_path_factory.mktemp("guarded")
    settings = local_settings(
        folder, access_control=True, init_user="first", init_secret=SECRET, auto_create_per_minute=100_000
    )
    with pytest.MonkeyPatch.context() as patch:
        users = Users().serve(patch)
        users.put("root", is_super=True)
        async with Embedded(settings, AnswerLimits(error_hold_s=0.0)) as server:
            here = Guarded(server, users, folder)
            async with here.client("root") as root:
                await root.create_topic(TOPIC)
            yield here


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def topic_and_group(guarded: Guarded) -> None:
    async with guarded.client("root") as root:
        await root.create_topic(TOPIC)
        await root.admin("CreateGroup", group={"name": GROUP})


async def outcome(client: RawClient, name: str, request: Any) -> str:  # noqa: ANN401
    """The code with which the call was answered."""
    if name == "Telemetry":
        return code(await client.configure(request.settings))
    if name in {"ReceiveMessage", "PullMessage"}:
        return code(await client.stream(name, request).read())
    if name == "ChangeLogLevel":
        return await outcome_without_status(client, name, request)
    ask = client.admin if name in ADMIN else client.published if name in PUBLISHED else client.call
    return code(await ask(name, request))


async def outcome_without_status(client: RawClient, name: str, request: Any) -> str:  # noqa: ANN401
    """Of a call whose answer has no status: gRPC's says it."""
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await client.published(name, request)
    codes = {grpc.StatusCode.UNAUTHENTICATED: "UNAUTHORIZED", grpc.StatusCode.INVALID_ARGUMENT: "BAD_REQUEST"}
    return codes[ended.value.code()]


# --- every call, every right


@pytest.mark.parametrize("name", sorted(EVERY.keys() - OF_TRANSACTIONS))
async def test_a_call_is_for_those_alone_who_have_its_rights(guarded: Guarded, name: str) -> None:
    await check_rights(guarded, name, EVERY[name])


async def test_a_lite_group_is_bound_by_those_alone_who_may_see_its_topic(guarded: Guarded) -> None:
    await check_rights(guarded, "CreateGroup", LITE_GROUP)


async def check_rights(guarded: Guarded, name: str, line: Line) -> None:
    """Each right by itself, and each set of them, is enough or is not."""
    for held in [(), *((right,) for right in rights(line)), *line.sets]:
        guarded.users.put("one", *(f"allow {right}" for right in held))
        async with guarded.client("one") as client:
            answered = await outcome(client, name, line.request)
        assert (answered != "UNAUTHORIZED") == is_enough(line, held), (held, answered)
        if answered != "UNAUTHORIZED":  # which may have changed or deleted what the next ones need
            async with guarded.client("root") as root:
                await root.admin("DeleteTopic", admin_pb2.DeleteTopicRequest(name=TOPIC))
                await root.create_topic(TOPIC)
                await root.admin("CreateGroup", group={"name": GROUP})


@pytest.mark.parametrize("name", sorted(EVERY))
async def test_no_call_is_answered_for_nobody(guarded: Guarded, name: str) -> None:
    request = EVERY[name].request
    async with RawClient(guarded.server.grpc) as nobody:
        assert await outcome(nobody, name, request) == "UNAUTHORIZED"
    async with RawClient(guarded.server.grpc, metadata=()) as nameless:
        assert await outcome(nameless, name, request) == "UNAUTHORIZED"


@pytest.mark.parametrize("name", sorted(EVERY.keys() - OF_TRANSACTIONS))
async def test_a_denied_right_is_none(guarded: Guarded, name: str) -> None:
    line = EVERY[name]
    guarded.users.put("denied", "allow * All", "deny * All")
    async with guarded.client("denied") as client:
        answered = await outcome(client, name, line.request)
    assert (answered == "UNAUTHORIZED") == bool(line.sets or line.super_only)


@pytest.mark.parametrize("name", sorted(name for name, line in ADMIN.items() if line.super_only))
async def test_super_users_may_do_what_nobody_else_may(guarded: Guarded, name: str) -> None:
    async with guarded.client("root") as root:
        assert await outcome(root, name, ADMIN[name].request) != "UNAUTHORIZED"


async def test_users_look_at_themselves_and_change_their_own_secret(guarded: Guarded) -> None:
    guarded.users.put("alice")
    async with guarded.client("alice") as alice:
        assert code(await alice.admin("DescribeUser", name="alice")) == "OK"
        # The users of this test are not in the registry, so the call gets as far as that.
        assert code(await alice.admin("RotateSecret", user="alice")) == "NOT_FOUND"


async def test_a_transaction_is_its_topics(guarded: Guarded) -> None:
    async with guarded.client("root") as root:
        await root.create_topic("tx", kind=pb.TRANSACTION)
        sent = await root.send("tx", b"secret", message_type=pb.TRANSACTION, keys=["k"])
        transaction = sent.entries[0].transaction_id
        query = admin_pb2.GetTransactionRequest(transaction_id=transaction)
        resolve = admin_pb2.ResolveTransactionRequest(transaction_id=transaction, resolution=pb.ROLLBACK)
        for policies, got, resolved in (
            ((), False, False),
            (("allow Topic:t All",), False, False),
            (("allow Topic:tx Get",), True, False),
            (("allow Topic:tx Update",), False, True),
        ):
            guarded.users.put("operator", *policies)
            async with guarded.client("operator") as operator:
                answer = await operator.admin("GetTransaction", query)
                assert (answer.status.code == pb.OK) == got
                assert answer.message.body == b""
                listed = await operator.admin("ListTransactions")
                assert bool(listed.transactions) == got
                answer = await operator.admin("ResolveTransaction", resolve)
                assert (answer.status.code == pb.OK) == resolved
        assert (await root.admin("GetTransaction", query)).message.body == b"secret"


# --- what the rules add to RocketMQ's


async def test_each_message_of_a_send_counts(guarded: Guarded) -> None:
    guarded.users.put("sender", f"allow Topic:{TOPIC} Pub")
    async with guarded.client("sender") as sender:
        messages = [message(TOPIC), message("forbidden")]
        answer = await sender.call("SendMessage", messages=messages)
    assert code(answer) == "UNAUTHORIZED"


async def test_what_is_made_by_use_needs_create(guarded: Guarded) -> None:
    guarded.users.put("user", "allow Topic:made-* Pub,Sub", "allow Group:made-* Sub")
    async with guarded.client("user") as user:
        request = rpc.SendMessageRequest(messages=[message("made-topic")])
        assert code(await user.call("SendMessage", request)) == "TOPIC_NOT_FOUND"
        route = rpc.QueryRouteRequest(topic={"name": "made-topic"})
        assert code(await user.call("QueryRoute", route)) == "TOPIC_NOT_FOUND"
        guarded.users.put("user", "allow Topic:made-* Pub,Sub,Create", "allow Group:made-* Sub")
        assert code(await user.call("QueryRoute", route)) == "OK"
        assert code(await user.call("SendMessage", request)) == "OK"
        received = await user.receive("made-topic", "made-group")
        assert received.code == "CONSUMER_GROUP_NOT_FOUND"
        guarded.users.put("user", "allow Topic:made-* Pub,Sub", "allow Group:made-* Sub,Create")
        assert (await user.receive("made-topic", "made-group")).code == "OK"


async def test_lists_show_what_the_user_may_see(guarded: Guarded) -> None:
    guarded.users.put("reader", "allow Topic:t Get", "allow Group:other-* List")
    async with guarded.client("reader") as reader:
        topics = await reader.admin("ListTopics")
        groups = await reader.admin("ListGroups")
    assert [topic.name for topic in topics.topics] == ["t"]
    assert not groups.groups


async def test_who_may_read_a_topic_sees_it_in_a_list_of_topics_by_name_only(guarded: Guarded) -> None:
    guarded.users.put("reader", "allow Topic:t Sub")
    guarded.users.put("stranger", "allow Topic:other Get,Sub")
    everything, named = admin_pb2.ListTopicsRequest(), admin_pb2.ListTopicsRequest(names=["t"])
    async with guarded.client("reader") as reader, guarded.client("stranger") as stranger:
        lists = [await user.admin("ListTopics", asked) for user in (reader, stranger) for asked in (everything, named)]
    assert [[topic.name for topic in answer.topics] for answer in lists] == [[], ["t"], [], []]


async def test_bodies_are_for_readers(guarded: Guarded) -> None:
    guarded.users.put("support", f"allow Topic:{TOPIC} Get")
    async with guarded.client("root") as root, guarded.client("support") as support:
        await root.send(TOPIC, b"private", keys=["the-key"])
        query = admin_pb2.QueryMessagesRequest(topic=TOPIC, key="the-key")
        (seen,) = (await support.admin("QueryMessages", query)).messages
        assert (seen.body, list(seen.system_properties.keys)) == (b"", ["the-key"])
        assert (await root.admin("QueryMessages", query)).messages[0].body == b"private"


async def test_the_published_service_shows_bodies_to_readers_alone(guarded: Guarded) -> None:
    guarded.users.put("support", f"allow Topic:{TOPIC} Get")
    query = published.ListMessageRequest(topic={"name": TOPIC}, message_key="their-key")
    async with guarded.client("root") as root, guarded.client("support") as support:
        await root.send(TOPIC, b"private", keys=["their-key"])
        (seen,) = (await support.published("QueryMessage", query)).messages
        assert (seen.body, list(seen.system_properties.keys)) == (b"", ["their-key"])
        assert (await root.published("QueryMessage", query)).messages[0].body == b"private"


async def test_subscriptions_are_shown_of_groups_that_the_user_may_get(guarded: Guarded) -> None:
    guarded.users.put("reader", "allow Topic:t Get", "allow Group:shown Get")
    listing = published.ListSubscriptionRequest(topic={"name": TOPIC})
    describing = published.DescribeSubscriptionRequest(topic={"name": TOPIC})
    async with guarded.client("root") as one, guarded.client("root") as two, guarded.client("reader") as reader:
        for client, group in ((one, "shown"), (two, "hidden")):
            await client.create_group(group)
            await client.receive(TOPIC, group)
        listed = (await reader.published("ListSubscription", listing)).subscription_info
        assert [info.group.name for info in listed] == ["shown"]
        (described,) = (await reader.published("DescribeSubscription", describing)).client_subscription_info
        assert described.client_info.client_id == dict(one.metadata)["x-mq-client-id"]
        every = (await one.published("ListSubscription", listing)).subscription_info
        assert {info.group.name for info in every} >= {"shown", "hidden"}


async def test_where_clients_are_is_for_who_may_list_them(guarded: Guarded) -> None:
    guarded.users.put("reader", "allow Group:located Get")
    request = published.ListConsumerConnectionRequest(group={"name": "located"})
    settings = consumer("located", subscriptions=[{"topic": {"name": TOPIC}}])
    async with guarded.client("root") as root, guarded.client("reader") as reader:
        await root.create_group("located")
        await root.configure(settings)
        (cut,) = (await reader.published("ListConsumerConnection", request)).client_info
        assert (cut.language, cut.hostname, cut.egress_ip) == ("RUST", "", "")
        guarded.users.put("reader", "allow Group:located Get", "allow Cluster:clients List")
        (whole,) = (await reader.published("ListConsumerConnection", request)).client_info
        assert (whole.hostname, whole.egress_ip) == ("host", "127.0.0.1")


async def test_topics_that_are_named_need_a_right_of_their_own(guarded: Guarded) -> None:
    guarded.users.put("reader", f"allow Group:{GROUP} Get")
    group, topics = {"name": GROUP}, [{"name": TOPIC}]
    requests: dict[str, Any] = {
        "DescribeGroupAccumulation": published.DescribeGroupAccumulationRequest(group=group, topics=topics),
        "QueryTimeSpan": published.QueryTimeSpanRequest(group=group, topics=topics),
    }
    async with guarded.client("reader") as reader:
        for name, request in requests.items():
            assert code(await reader.published(name, request)) == "UNAUTHORIZED"
            request.ClearField("topics")
            assert code(await reader.published(name, request)) == "OK"


async def test_a_client_id_is_one_users(guarded: Guarded) -> None:
    guarded.users.put("alice", f"allow Topic:{TOPIC} Pub")
    guarded.users.put("mallory", f"allow Topic:{TOPIC} Pub", "allow Group:* Sub")
    async with (
        RawClient(guarded.server.grpc, metadata=signed("alice", "alices")) as alice,
        RawClient(guarded.server.grpc, metadata=signed("mallory", "alices")) as mallory,
    ):
        stream = await alice.publish_to(pb.Resource(name=TOPIC))
        assert (
            code(
                await mallory.call(
                    "NotifyClientTermination",
                )
            )
            == "UNAUTHORIZED"
        )
        assert code(await mallory.configure(MESSAGING["Telemetry"].request.settings)) == "UNAUTHORIZED"
        request = rpc.SendMessageRequest(messages=[message(TOPIC)])
        assert code(await mallory.call("SendMessage", request)) == "UNAUTHORIZED"
        assert code(await alice.call("SendMessage", request)) == "OK"
        stream.cancel()


# --- who calls


async def test_all_failures_of_authentication_look_the_same(guarded: Guarded) -> None:
    guarded.users.put("known")
    guarded.users.change(AccessUser(name="ended", secrets=(UserSecret(SECRET, 0, 1),)))
    guarded.users.put("off")
    guarded.users.disable("off")
    request = admin_pb2.ListTopicsRequest()
    long_ago = time.time() - 3 * 86400
    answers = []
    for client in (
        guarded.client("unknown"),
        guarded.client("known", secret="wrong-but-long-enough"),
        guarded.client("known", at_s=long_ago),
        guarded.client("known", date="no date"),
        guarded.client("ended"),
        guarded.client("off"),
    ):
        async with client:
            answers.append((await client.admin("ListTopics", request)).status)
    assert {answer.code for answer in answers} == {pb.UNAUTHORIZED}
    assert len({answer.message for answer in answers}) == 1
    async with guarded.client("known") as known:
        assert code(await known.admin("ListTopics", request)) == "OK"


@pytest.mark.parametrize("hours", [-8, 5.5, 14, -12])
async def test_dates_of_any_zone_are_of_now(guarded: Guarded, hours: float) -> None:
    async with guarded.client("root", at_s=time.time() + hours * 3600) as client:
        assert code(await client.admin("ListTopics")) == "OK"


async def test_two_secrets_are_valid_at_a_time(guarded: Guarded) -> None:
    later_ms = time.time_ns() // 10**6 + 60_000
    first, second = UserSecret("the-first-secret", 0, later_ms), UserSecret("the-second-secret", 0)
    guarded.users.change(AccessUser(name="rotating", secrets=(first, second)))
    for secret in (first, second):
        async with guarded.client("rotating", secret=secret.text) as client:
            assert code(await client.admin("ListTopics")) == "OK"


async def test_a_user_who_is_deleted_is_nobody_at_once(guarded: Guarded) -> None:
    guarded.users.put("leaver", f"allow Topic:{TOPIC} Pub")
    request = rpc.SendMessageRequest(messages=[message(TOPIC)])
    async with guarded.client("leaver") as client:
        assert code(await client.call("SendMessage", request)) == "OK"
        guarded.users.delete("leaver")
        assert code(await client.call("SendMessage", request)) == "UNAUTHORIZED"


async def test_one_connection_may_have_calls_of_several_users(guarded: Guarded) -> None:
    guarded.users.put("sender", f"allow Topic:{TOPIC} Pub")
    guarded.users.put("other")
    request = rpc.SendMessageRequest(messages=[message(TOPIC)])
    async with guarded.client("sender") as client:
        for name, expected in (("sender", "OK"), ("other", "UNAUTHORIZED"), ("sender", "OK")):
            client.metadata = signed(name, f"on-one-connection-{name}")
            assert code(await client.call("SendMessage", request)) == expected
        client.metadata = signed("other", "on-one-connection-sender")
        assert code(await client.call("SendMessage", request)) == "UNAUTHORIZED"


# --- calls that go on


@pytest.mark.parametrize("how", ["deleted", "disabled", "denied"])
async def test_a_stream_and_a_poll_end_with_the_right(guarded: Guarded, how: str) -> None:
    guarded.users.put("waiting", f"allow Topic:{TOPIC} Pub,Sub", f"allow Group:{GROUP} Sub")
    async with guarded.client("root") as root:
        await root.admin("ResetOffsets", group=GROUP, topic=TOPIC, latest=True)
    async with guarded.client("waiting") as client:
        stream = await client.publish_to(pb.Resource(name=TOPIC))
        poll = client.stream("ReceiveMessage", receive_request(TOPIC, GROUP, poll_s=15.0))
        answer = asyncio.create_task(_drained(poll))
        first = asyncio.create_task(stream.read())
        await asyncio.sleep(0)
        if how == "deleted":
            guarded.users.delete("waiting")
        elif how == "disabled":
            guarded.users.disable("waiting")
        else:
            guarded.users.put("waiting", "allow * All", "deny Topic:* All")
        async with asyncio.timeout(10):
            assert code(await first) == "UNAUTHORIZED"
            assert await stream.read() is grpc.aio.EOF
            assert code((await answer)[0]) == "UNAUTHORIZED"
        assert await stream.code() is grpc.StatusCode.OK


async def _drained(poll: Any) -> list[Any]:  # noqa: ANN401
    return [item async for item in poll]


# --- beside the calls


async def test_health_is_open_and_reflection_is_not(guarded: Guarded) -> None:
    async with RawClient(guarded.server.grpc) as nobody:
        check = nobody.channel.unary_unary("/grpc.health.v1.Health/Check")
        assert await check(b"") == b"\x08\x01"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _reflected(nobody)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    async with guarded.client("root") as root:
        assert await _reflected(root)


async def _reflected(client: RawClient) -> bytes:
    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    stream = client.channel.stream_stream(path)(metadata=client.metadata)
    await stream.write(reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString())
    answer: bytes = await stream.read()
    await stream.done_writing()
    return answer


@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        ("", "/health/ready", 200),
        ("", "/health/live", 200),
        ("", "/metrics", 401),
        ("", "/version", 401),
        ("", "/nothing", 401),
        ("watcher", "/metrics", 200),
        ("watcher", "/version", 200),
        ("other", "/metrics", 401),
        ("nobody", "/metrics", 401),
    ],
)
async def test_http_tells_all_but_health_to_users_alone(guarded: Guarded, name: str, path: str, status: int) -> None:
    guarded.users.put("watcher", "allow Cluster:metrics Get")
    guarded.users.put("other", "allow Topic:* All")
    request = urllib.request.Request(f"http://{guarded.server.http}{path}")
    if name:
        request.add_header("Authorization", f"Basic {base64.b64encode(f'{name}:{SECRET}'.encode()).decode()}")

    def asked() -> int:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert await asyncio.to_thread(asked) == status


async def test_changes_and_refusals_are_in_the_audit_log(guarded: Guarded) -> None:
    guarded.users.put("writer", "allow Topic:audited-* Create")
    hostile = "audited\n\u202e"
    async with guarded.client("writer") as writer:
        await writer.create_topic("audited-topic")
        await writer.admin("DeleteTopic", name=hostile)
        guarded.users.put("writer", "allow Topic:audited-* Pub")
        await writer.published("AdminSendMessage", topic={"name": "audited-topic"}, body=b"x")

    def lines() -> list[dict[str, Any]]:
        text = (guarded.folder / "audit.log").read_text(encoding="ascii")
        assert SECRET not in text
        return [entry for line in text.splitlines() if (entry := json.loads(line))["user"] == "writer"]

    await until(lambda: len(lines()) == 3)
    created, deleted, sent = lines()
    assert (sent["call"], sent["resource"], sent["allowed"]) == ("AdminSendMessage", "Topic:audited-topic", True)
    assert (created["call"], created["resource"], created["allowed"]) == ("CreateTopic", "Topic:audited-topic", True)
    assert created["why"] == "allow Create on Topic:audited-*"
    assert (deleted["call"], deleted["resource"], deleted["allowed"]) == ("DeleteTopic", f"Topic:{hostile}", False)
    assert created["source"].startswith("127.0.0.1:")
