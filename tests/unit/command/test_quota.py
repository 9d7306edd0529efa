"""`ternmq quota`, and quotas in files."""

import json
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

YAML = """
quotas:
  - {quota: "user:alice", messages_in: 1000/s, bytes_in: 10MiB/s, burst: 2s}
  - {quota: "client:*", connections: 4}
"""


def set_quota(call_server: Call, *arguments: str) -> None:
    result = call_server("quota", "set", *arguments)
    assert result.exit_code == 0, result.stderr


def test_a_quota_is_set_as_it_is_written(call_server: Call, server: AdminServer) -> None:
    result = call_server("quota", "set", "user:alice", "--messages-in", "1000/s", "--bytes-in", "10MiB/s")
    assert result.stdout == "quota user:alice created\n"
    quota = server.quotas.there["user:alice"]
    assert (quota.messages_in, quota.bytes_in, quota.HasField("messages_out")) == (1000, 10 * 1024**2, False)


def test_limits_that_are_not_given_stay_and_none_takes_one_away(call_server: Call, server: AdminServer) -> None:
    set_quota(call_server, "topic:*", "--messages-in", "5", "--bytes-in", "1KiB", "--burst", "3s")
    result = call_server("quota", "set", "topic:*", "--bytes-in", "none", "--messages-out", "7/s")
    assert result.stdout == "quota topic:* changed\n"
    quota = server.quotas.there["topic:*"]
    assert (quota.messages_in, quota.HasField("bytes_in"), quota.messages_out) == (5, False, 7)
    assert quota.burst.ToSeconds() == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["alice", "--messages-in", "5"], "names no quota"),
        (["queue:q", "--messages-in", "5"], "names no quota"),
        (["user:alice"], "no limit is given"),
        (["user:alice", "--messages-in", "5/h"], "a limit like 1000/s, or none, is needed"),
        (["user:alice", "--messages-in", "0"], "a limit like 1000/s, or none, is needed"),
        (["user:alice", "--bytes-in", "many"], "a limit like 10MiB/s, or none, is needed"),
        (["user:alice", "--topics-per-hour", "-1/h"], "a limit like 1000/h, or none, is needed"),
    ],
)
def test_a_limit_that_makes_no_sense_is_wrong_usage(
    call_server: Call, server: AdminServer, arguments: list[str], said: str
) -> None:
    result = call_server("quota", "set", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not server.quotas.there


def test_the_list_shows_quotas_and_what_is_taken_of_them(call_server: Call, server: AdminServer) -> None:
    assert "no quotas" in call_server("quota", "list").stderr
    set_quota(call_server, "topic:*", "--messages-in", "5")
    use = admin_pb2.QuotaUse(kind="topic", name="orders", quota="*", refused=3)
    use.rate["messages_in"], use.share["messages_in"] = 4.0, 2.5
    server.quotas.uses = [use]
    told = json.loads(call_server("quota", "list", "--json").stdout)
    [quota], [taken] = told["quotas"], told["uses"]
    assert (quota["quota"], quota["messages_in"], quota["bytes_in"], quota["burst"]) == ("topic:*", "5/s", None, "1s")
    assert (taken["name"], taken["refused"], taken["share"]) == ("topic:orders", 3, {"messages_in": 2.5})
    assert "topic:orders" in call_server("quota", "list").stdout
    assert "topic:orders" in call_server("quota", "show", "topic:*").stdout


def test_what_may_be_in_flight_is_a_limit_without_a_unit(call_server: Call, server: AdminServer) -> None:
    set_quota(call_server, "group:g", "--in-flight", "1000")
    assert server.quotas.there["group:g"].in_flight == 1000
    assert json.loads(call_server("quota", "show", "group:g", "--json").stdout)["in_flight"] == "1000"
    changes = '{"quotas": [{"quota": "group:g", "in_flight": 5}]}'
    assert call_server("apply", "-f", "-", stdin=changes).exit_code == 0
    assert server.quotas.there["group:g"].in_flight == 5
    refused = call_server("apply", "-f", "-", stdin='{"quotas": [{"quota": "user:alice", "in_flight": 5}]}')
    assert refused.exit_code == 2
    assert "a user has no in_flight" in refused.stderr


def test_the_list_says_of_how_many_proxies_it_is(call_server: Call, server: AdminServer) -> None:
    set_quota(call_server, "topic:*", "--messages-in", "5")
    server.quotas.uses = [admin_pb2.QuotaUse(kind="topic", name="orders", quota="*")]
    assert "proxies" not in call_server("quota", "list").stderr
    server.quotas.proxies = 3
    assert "of 3 proxies together" in call_server("quota", "list").stderr
    assert "of 3 proxies together" in call_server("quota", "show", "topic:*").stderr
    assert json.loads(call_server("quota", "list", "--json").stdout)["proxies"] == 3


def test_a_quota_that_is_not_there_is_neither_shown_nor_removed(call_server: Call) -> None:
    for verb in ("show", "remove"):
        result = call_server("quota", verb, "user:alice")
        assert result.exit_code == 1
        assert "there is no quota user:alice" in result.stderr


def test_a_quota_is_removed(call_server: Call, server: AdminServer) -> None:
    set_quota(call_server, "topic:orders", "--messages-in", "5")
    assert call_server("quota", "remove", "topic:orders").stdout == "quota topic:orders removed\n"
    assert not server.quotas.there


# --- in files


def test_quotas_that_a_file_declares_are_made_and_a_second_time_there_is_nothing_to_do(
    call_server: Call, server: AdminServer
) -> None:
    result = call_server("apply", "-f", "-", "--json", stdin=YAML)
    assert [record["outcome"] for record in json.loads(result.stdout)] == ["created"] * 2
    assert server.quotas.there["user:alice"].burst.ToSeconds() == 2
    assert server.quotas.there["client:*"].connections == 4
    assert call_server("apply", "-f", "-", "--dry-run", stdin=YAML).stdout == "nothing to do\n"


def test_what_a_file_leaves_out_of_a_quota_stays(call_server: Call, server: AdminServer) -> None:
    set_quota(call_server, "user:alice", "--messages-in", "5", "--messages-out", "6", "--burst", "9s")
    changes = '{"quotas": [{"quota": "user:alice", "messages_in": 7, "messages_out": "none"}]}'
    planned = call_server("apply", "-f", "-", "--dry-run", stdin=changes)
    assert planned.stdout == "update quota user:alice: messages_in 5/s -> 7/s, messages_out 6/s -> -\n"
    call_server("apply", "-f", "-", stdin=changes)
    quota = server.quotas.there["user:alice"]
    assert (quota.messages_in, quota.HasField("messages_out"), quota.burst.ToSeconds()) == (7, False, 9)


def test_a_quota_that_would_have_no_limit_is_refused_before_anything_changes(
    call_server: Call, server: AdminServer
) -> None:
    set_quota(call_server, "user:alice", "--messages-in", "5")
    changes = '{"quotas": [{"quota": "topic:*", "bytes_in": 9}, {"quota": "user:alice", "messages_in": "none"}]}'
    result = call_server("apply", "-f", "-", stdin=changes)
    assert result.exit_code == 1
    assert "`ternmq quota remove user:alice`" in result.stderr
    assert list(server.quotas.there) == ["user:alice"]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("{}", "quotas[0]: quota must be a kind and a name"),
        ("{quota: alice}", "names no quota"),
        ('{quota: "group:g", messages_in: 5}', "a group has no messages_in"),
        ('{quota: "user:a", bytes_in: lots}', "bytes_in 'lots': a limit like 10MiB/s"),
        ('{quota: "user:a", bytes_in: 1.5}', "bytes_in must be a number or text"),
        ('{quota: "user:a", messages: 5}', "unknown key 'messages'"),
        ('{quota: "user:a", messages_in: 5, burst: 1ms}', "burst '1ms': 100ms to 1h are allowed"),
    ],
)
def test_a_declared_quota_that_makes_no_sense_is_wrong_usage(call_server: Call, item: str, said: str) -> None:
    result = call_server("apply", "-f", "-", stdin=f"quotas: [{item}]")
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_quota_is_declared_once(call_server: Call) -> None:
    result = call_server("apply", "-f", "-", stdin='quotas: [{quota: "user:a"}, {quota: "user:a"}]')
    assert result.exit_code == 2
    assert "both declare 'user:a'" in result.stderr


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_exported_quotas_make_another_server_have_the_same(
    call_server: Call, server: AdminServer, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    call_server("apply", "-f", "-", stdin=YAML)
    before = dict(server.quotas.there)
    file = tmp_path / "all.yaml"
    file.write_text(call_server("export", *flags).stdout)
    assert call_server("apply", "-f", str(file), "--dry-run").stdout == "nothing to do\n"
    server.quotas.there.clear()
    call_server("apply", "-f", str(file))
    assert server.quotas.there == before


def test_who_may_not_see_quotas_exports_the_rest(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders")
    server.quotas.refusal = pb.Status(code=pb.FORBIDDEN, message="for super users")
    result = call_server("export", "--json")
    assert result.exit_code == 0
    assert list(json.loads(result.stdout)) == ["topics", "groups"]
    assert "quotas are left out" in result.stderr
