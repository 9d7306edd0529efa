"""What is created of a RocketMQ cluster, what is left out, and what is said of a source that can't be read."""

import json
import socket
import threading
from collections.abc import Iterator

import pytest
import yaml

from ternmq_command.migration.apache_cluster import SourceCluster, SourceGroup, SourceTopic, SourceUser
from ternmq_command.migration.translation import Translation, Wanted, translate_cluster
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_rpc.remoting.json_dialect import MessageQueueKey
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.source_server import SourceServer

POLICY = {
    "policyType": "CUSTOM",
    "entries": [
        {"resource": "Topic:orders*", "actions": ["PUB", "SUB"], "decision": "ALLOW", "sourceIps": ["10.0.0.0/8"]},
        {"resource": "Group:*", "actions": "Any", "decision": "DENY"},
        {"resource": "Cluster:a*b", "actions": ["GET"], "decision": "ALLOW"},
        {"resource": "Topic:x", "actions": ["FLY"], "decision": "ALLOW"},
        "no entry",
    ],
}


def topic(name: str, *, broker: str = "a", queues: int = 8, permission: int = 6, kind: str = "") -> SourceTopic:
    return SourceTopic(broker, name, queues, permission, kind)


def group(
    name: str,
    *,
    broker: str = "a",
    orderly: bool = False,
    enabled: bool = True,
    retries: int = 16,
    backoff: dict[str, object] | None = None,
) -> SourceGroup:
    return SourceGroup(broker, name, is_orderly=orderly, is_enabled=enabled, retries=retries, backoff=backoff or {})


def translate(
    *found: SourceTopic | SourceGroup | SourceUser, wanted: Wanted | None = None, lags: dict[str, int] | None = None
) -> Translation:
    source = SourceCluster(
        brokers=["a", "b"],
        system_topics=frozenset({"DefaultCluster", "of-the-server"}),
        topics=[each for each in found if isinstance(each, SourceTopic)],
        groups=[each for each in found if isinstance(each, SourceGroup)],
        users=[each for each in found if isinstance(each, SourceUser)],
        lags=lags or {},
    )
    return translate_cluster(source, wanted or Wanted())


def names(translation: Translation, section: str) -> list[object]:
    return [each["name"] for each in translation.content[section]]


# --- translation


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("", "mixed"), ("UNSPECIFIED", "mixed"), ("MIXED", "mixed"), ("FIFO", "fifo"), ("DELAY", "delay")],
)
def test_a_topic_without_a_type_takes_every_kind_of_message(kind: str, expected: str) -> None:
    [item] = translate(topic("t", kind=kind)).content["topics"]
    assert item == {"name": "t", "type": expected, "queues": 8, "permission": "read-write"}


def test_all_topics_are_mixed_if_that_is_wanted() -> None:
    translation = translate(topic("orders", kind="TRANSACTION"), wanted=Wanted(mixed=True))
    assert [each["type"] for each in translation.content["topics"]] == ["mixed"]


@pytest.mark.parametrize(
    ("permission", "expected"), [(6, "read-write"), (7, "read-write"), (4, "read"), (2, "write"), (0, "none")]
)
def test_a_topic_keeps_its_permission(permission: int, expected: str) -> None:
    [item] = translate(topic("t", permission=permission)).content["topics"]
    assert item["permission"] == expected


def test_each_broker_gets_as_many_queues_as_the_one_with_the_most() -> None:
    translation = translate(topic("t", broker="a", queues=4), topic("t", broker="b", queues=16))
    assert [item["queues"] for item in translation.content["topics"]] == [16]
    assert translation.notes == ["topic t has 16 queues on a broker and fewer on another; here each gets 16"]
    translation = translate(topic("t", queues=5000))
    assert [item["queues"] for item in translation.content["topics"]] == [1024]
    assert "the most allowed" in translation.notes[0]


def test_topics_and_groups_of_the_servers_themselves_are_left_out() -> None:
    system = ["of-the-server", "DefaultCluster", "TBW102", "rmq_sys_x", "%RETRY%g", "%DLQ%g", "c_REPLY_TOPIC", "a"]
    own = ["TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "CID_ONSAPI_OWNER", "SELF_TEST_C_GROUP"]
    topics, groups = [topic(name) for name in [*system, "ours"]], [group(name) for name in [*own, "ours"]]
    translation = translate(*topics, *groups)
    assert (names(translation, "topics"), names(translation, "groups")) == (["ours"], ["ours"])
    assert translation.notes == []


def test_names_that_are_not_allowed_here_are_said() -> None:
    translation = translate(topic("with space"), topic("t"), group("x" * 300), group("g"))
    assert (names(translation, "topics"), names(translation, "groups")) == (["t"], ["g"])
    assert "topic 'with space' is left out: " in translation.notes[0]
    assert "group 'xxx" in translation.notes[1]


def test_patterns_choose() -> None:
    found: list[SourceTopic | SourceGroup] = [topic("orders-1"), topic("bills"), group("g-1"), group("h")]
    translation = translate(*found, wanted=Wanted(("orders-*",), ("h", "none")))
    assert (names(translation, "topics"), names(translation, "groups")) == (["orders-1"], ["h"])


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (3, 4), (16, 17), (-1, 17), (100_000, 1000)])
def test_retries_come_after_the_first_delivery(retries: int, attempts: int) -> None:
    [item] = translate(group("g", retries=retries)).content["groups"]
    assert item == {"name": "g", "fifo": False, "max_attempts": attempts, "consume_from": "earliest"}


def test_a_group_that_is_orderly_on_a_broker_is_fifo() -> None:
    [item] = translate(group("g", broker="a"), group("g", broker="b", orderly=True)).content["groups"]
    assert item["fifo"] is True


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ({"type": "CUSTOMIZED"}, None),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}, "customized:1s,5s"),
        ({"type": "EXPONENTIAL"}, "exponential:5s,2h,2"),
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000, "max": 60000, "multiplier": 3}},
            "exponential:1s,1m,3",
        ),
    ],
)
def test_a_group_keeps_its_backoff(backoff: dict[str, object], expected: str | None) -> None:
    [item] = translate(group("g", backoff=backoff)).content["groups"]
    assert item.get("retry_backoff") == expected


def test_what_an_operator_has_to_know_is_said() -> None:
    odd: dict[str, object] = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": "soon"}}
    translation = translate(group("g", enabled=False), group("h", backoff=odd), lags={"g": 12345, "h": 0})
    assert [note.split(":")[0] for note in translation.notes] == [
        "group g may not consume there (consumeEnable is false); here it may",
        "group h gets the default backoff",
        "group g has 12,345 messages that it has not consumed; `ternmq mirror` copies them",
    ]


def test_users_come_with_secrets_and_policies() -> None:
    user = SourceUser("client", is_super=False, is_enabled=False, secret="s3cret-s3cret", policies=[POLICY])
    translation = translate(user)
    [item] = translation.content["users"]
    assert item == {
        "name": "client",
        "super": False,
        "enabled": False,
        "policies": [
            {"allow": "Topic:orders*", "actions": "Pub,Sub", "from": "10.0.0.0/8"},
            {"deny": "Group:*", "actions": "All"},
        ],
    }
    assert translation.secrets == {"client": "s3cret-s3cret"}
    assert len(translation.notes) == 2
    assert "s3cret" not in repr(translation) + repr(user)


def test_users_that_cannot_be_here_are_said() -> None:
    found = [
        SourceUser("a/b", is_super=False, is_enabled=True, secret="s3cret-s3cret", policies=[]),
        SourceUser("short", is_super=True, is_enabled=True, secret="x", policies=[]),
    ]
    translation = translate(*found)
    assert (names(translation, "users"), translation.secrets) == (["short"], {})
    assert "it is left out" in translation.notes[0]
    assert "user short gets a new secret: " in translation.notes[1]
    assert "users" not in translate(*found, wanted=Wanted(users=False)).content


# --- the command


@pytest.fixture
def source() -> Iterator[SourceServer]:
    with SourceServer() as running:
        running.answers[21] = {
            "topicConfigTable": {
                "orders": {"writeQueueNums": 4, "perm": 6, "attributes": {"message.type": "FIFO"}},
                "%RETRY%billing": {"writeQueueNums": 1, "perm": 6},
            }
        }
        running.answers[201] = {
            "subscriptionGroupTable": {"billing": {"retryMaxTimes": 3, "consumeMessageOrderly": True}}
        }
        running.answers[208] = {
            "offsetTable": {MessageQueueKey("orders", "broker-a", 0): {"brokerOffset": 9, "consumerOffset": 2}}
        }
        yield running


def test_nothing_is_changed_without_yes(call_server: Call, server: AdminServer, source: SourceServer) -> None:
    result = call_server("import", "rocketmq", "--namesrv", source.address)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "create topic orders: type fifo, queues 4, permission read-write",
        "create group billing: fifo yes, max_attempts 4, consume_from earliest",
    ]
    assert result.stderr.splitlines() == [
        "note: group billing has 7 messages that it has not consumed; `ternmq mirror` copies them",
        "note: the cluster lists no users: it has no access control, or that of 4.x, which is a file",
        "nothing was changed; --yes does it",
    ]
    assert (server.topics, server.groups) == ({}, {})


def test_yes_creates_all_and_a_second_time_there_is_nothing_to_do(
    call_server: Call, server: AdminServer, source: SourceServer
) -> None:
    first = call_server("import", "rocketmq", "--namesrv", f"127.0.0.1:1;{source.address}", "--yes", "--json")
    assert [each["outcome"] for each in json.loads(first.stdout)] == ["created", "created"]
    assert (server.topics["orders"].type, server.topics["orders"].queues) == (pb.FIFO, 4)
    assert (server.groups["billing"].fifo, server.groups["billing"].max_attempts) == (True, 4)
    again = call_server("import", "rocketmq", "--namesrv", source.address)
    assert again.stdout == "nothing to do\n"
    assert "--yes" not in again.stderr


def test_a_file_is_printed_that_apply_reads(
    call: Call, call_server: Call, server: AdminServer, source: SourceServer
) -> None:
    printed = call("import", "rocketmq", "--namesrv", source.address, "--declare").stdout
    assert [each["name"] for each in yaml.safe_load(printed)["topics"]] == ["orders"]
    assert call_server("apply", "-f", "-", stdin=printed).exit_code == 0
    assert list(server.groups) == ["billing"]
    both = call("import", "rocketmq", "--namesrv", source.address, "--declare", "--yes")
    assert both.exit_code == 2


def test_requests_are_signed_with_the_keys_of_the_environment(
    call: Call, source: SourceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "root")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "the-secret")
    source.answers |= {3005: [{"username": "root", "password": "of-the-root-user", "userType": "Super"}], 3010: []}
    result = call("import", "rocketmq", "--namesrv", source.address, "--declare")
    assert yaml.safe_load(result.stdout)["users"] == [{"name": "root", "super": True, "enabled": True, "policies": []}]
    assert "of-the-root-user" not in result.output
    assert {each.fields["AccessKey"] for each in source.requests} == {"root"}
    # base64 of HMAC-SHA1 of the fields' values, sorted by name, as `openssl dgst -sha1 -hmac the-secret -binary` gives.
    [stats] = [each for each in source.requests if each.code == 208]
    assert stats.fields["Signature"] == "+l7d3cuvKQMr7DBwy23dRuSYoQk="


@pytest.mark.parametrize("missing", [106, 304, 305, 21, 201])
def test_a_source_that_refuses_is_said(call: Call, source: SourceServer, missing: int) -> None:
    del source.answers[missing]
    result = call("import", "rocketmq", "--namesrv", source.address)
    assert result.exit_code == 1
    assert f"refuses request {missing} with code 3: is not supported" in result.stderr


@pytest.mark.parametrize(
    "answers", [{106: {}}, {106: []}, {106: {"brokerAddrTable": {"a": {"brokerAddrs": {0: "nowhere"}}}}}, {21: [1]}]
)
def test_a_source_that_answers_nonsense_is_said(call: Call, source: SourceServer, answers: dict[int, object]) -> None:
    source.answers |= answers
    result = call("import", "rocketmq", "--namesrv", source.address)
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1), result.stderr


def test_a_source_that_is_not_there_or_is_something_else_is_said(call: Call) -> None:
    nobody = call("import", "rocketmq", "--namesrv", "127.0.0.1:1")
    assert (nobody.exit_code, nobody.stderr) == (
        3,
        "ternmq: can't reach 127.0.0.1:1: [Errno 111] Connection refused\n",
    )
    assert call("import", "rocketmq", "--namesrv", " ; ").exit_code == 2
    assert call("import", "rocketmq", "--namesrv", "name-without-port").exit_code == 3
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer_as_a_web_server, args=(listener,))
        thread.start()
        result = call("import", "rocketmq", "--namesrv", f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert result.exit_code == 3
    assert "gives no answer to request 106: " in result.stderr


def _answer_as_a_web_server(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
