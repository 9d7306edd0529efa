"""The settings of a group: made, changed one by one, shown; members, and where they contradict each other."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

NOON_MS = "1785585600000"  # 2026-08-01T12:00:00Z
ALL = {
    "retry_backoff": "exponential:1s,10m,2",
    "consume_from": "2026-08-01T12:00:00Z",
    "assignment": "consistent-hash",
    "queue_lock_hold": "30s",
    "priority_factor": 60,
}
FLAGS = [part for name, value in ALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def settings_of(group: admin_pb2.Group) -> tuple[str, str, str, int, int | None]:
    factor = group.priority_factor if group.HasField("priority_factor") else None
    return group.retry_backoff, group.consume_from, group.assignment, group.queue_lock_hold.seconds, factor


def test_a_group_is_created_with_all_its_settings(call_server: Call, server: AdminServer) -> None:
    assert call_server("group", "create", "g", *FLAGS).exit_code == 0
    assert settings_of(server.groups["g"]) == ("exponential:1s,10m,2", NOON_MS, "consistent-hash", 30, 60)


def test_what_is_not_given_is_left_to_the_server(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    assert server.groups["g"] == admin_pb2.Group(name="g")


def test_settings_are_listed_and_described(call_server: Call) -> None:
    call_server("group", "create", "g", "--max-attempts", "3", *FLAGS)
    (listed,) = json.loads(call_server("group", "list", "--json").stdout)
    assert {name: listed[name] for name in ALL} == {**ALL, "consume_from": "2026-08-01T12:00:00.000Z"}
    people = call_server("group", "describe", "g").stdout
    assert "retry backoff    exponential:1s,10m,2" in people
    assert "queue lock hold  30s" in people
    assert "priority factor  60" in people


def test_a_server_that_knows_no_priority_factor_has_the_default(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    assert not server.groups["g"].HasField("priority_factor")
    assert json.loads(call_server("group", "list", "--json").stdout)[0]["priority_factor"] == 99


def test_the_18_steps_of_the_default_backoff_are_for_programs(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    steps = "customized:1s,5s,10s,30s,1m,2m,3m,4m,5m,6m,7m,8m,9m,10m,20m,30m,1h,2h"
    for text in ("", "customized", steps):
        server.groups["g"].retry_backoff = text
        assert json.loads(call_server("group", "describe", "g", "--json").stdout)["retry_backoff"] == steps
        assert "retry backoff    default\n" in call_server("group", "describe", "g").stdout


def test_a_backoff_of_a_newer_server_is_shown_as_it_is(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    server.groups["g"].retry_backoff = "fibonacci:1s"
    assert json.loads(call_server("group", "list", "--json").stdout)[0]["retry_backoff"] == "fibonacci:1s"


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--retry-backoff", "linear:1s", "it begins with customized: or exponential:"),
        ("--retry-backoff", "exponential:1s", "are needed"),
        ("--consume-from", "soon", "auto, earliest, latest or a time like"),
        ("--consume-from", "1969-01-01", "a time after 1970"),
        ("--queue-lock-hold", "long", "a duration like"),
        ("--priority-factor", "101", "101 is not in the range"),
        ("--priority-factor", "-1", "-1 is not in the range"),
    ],
)
def test_settings_that_can_not_be_are_wrong_usage(call: Call, option: str, value: str, problem: str) -> None:
    for command in ("create", "update"):
        result = call("group", command, "g", option, value)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
        assert problem in result.stderr


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        (["--max-attempts", "9"], {"max_attempts": 9}),
        (["--retry-backoff", "customized:1s"], {"retry_backoff": "customized:1s"}),
        (["--consume-from", "latest"], {"consume_from": "latest"}),
        (["--assignment", "averagely-by-circle"], {"assignment": "averagely-by-circle"}),
        (["--queue-lock-hold", "0s"], {"queue_lock_hold": None}),
        (["--priority-factor", "0"], {"priority_factor": 0}),
    ],
)
def test_an_update_changes_only_what_is_given(call_server: Call, flags: list[str], changed: dict[str, object]) -> None:
    call_server("group", "create", "g", "--fifo", "--max-attempts", "3", *FLAGS)
    before = json.loads(call_server("group", "list", "--json").stdout)[0]
    result = call_server("group", "update", "g", *flags, "--json")
    assert json.loads(result.stdout) == {**before, **changed}
    assert json.loads(call_server("group", "list", "--json").stdout)[0] == {**before, **changed}


def lite_of(server: AdminServer) -> admin_pb2.LiteSettings:
    assert server.groups["agents"].HasField("lite")
    return server.groups["agents"].lite


def test_a_lite_group_is_made_and_shown(call_server: Call, server: AdminServer) -> None:
    options = (
        "--lite-model",
        "exclusive",
        "--lite-quota",
        "7",
        "--lite-wildcard",
        "--lite-reset",
        "unsubscribed,taken",
    )
    assert call_server("group", "create", "agents", "--lite-bind", "chats", *options).exit_code == 0
    assert lite_of(server) == admin_pb2.LiteSettings(
        topic="chats",
        exclusive=True,
        quota=7,
        wildcard=True,
        resets_when_taken=True,
        resets_when_unsubscribed=True,
    )
    (listed,) = json.loads(call_server("group", "list", "--json").stdout)
    settings = ("chats", "exclusive", 7, True, "taken,unsubscribed")
    assert tuple(listed[f"lite_{name}"] for name in ("bind", "model", "quota", "wildcard", "reset")) == settings
    word = "chats,model=exclusive,quota=7,wildcard,reset=taken+unsubscribed"
    assert f"lite             {word}\n" in call_server("group", "describe", "agents").stdout
    call_server("group", "create", "plain")
    assert [line.split()[-1] for line in call_server("group", "list").stdout.splitlines()] == ["LITE", word, "-"]
    assert call_server("group", "list", "--format", "{name} {lite_bind}").stdout.splitlines()[0] == "agents chats"


def test_a_group_that_is_no_lite_group_says_nothing_of_it_to_people(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "plain")
    assert not server.groups["plain"].HasField("lite")
    assert "lite" not in call_server("group", "list").stdout.lower()
    assert "lite" not in call_server("group", "describe", "plain").stdout
    assert json.loads(call_server("group", "describe", "plain", "--json").stdout)["lite_bind"] is None


def test_settings_of_a_lite_group_change_one_by_one(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "agents", "--lite-bind", "chats", "--lite-quota", "7", "--lite-reset", "taken")
    told = call_server("group", "update", "agents", "--lite-wildcard", "--lite-model", "exclusive").stdout.splitlines()
    assert told == ["group agents updated", "lite model     shared -> exclusive", "lite wildcard  no -> yes"]
    assert (lite_of(server).quota, lite_of(server).resets_when_taken) == (7, True)
    told = call_server("group", "update", "agents", "--no-lite-wildcard", "--lite-reset", "none").stdout.splitlines()
    assert told == ["group agents updated", "lite wildcard  yes -> no", "lite reset     taken -> none"]
    assert (lite_of(server).topic, lite_of(server).exclusive, lite_of(server).quota) == ("chats", True, 7)
    there = call_server("group", "create", "agents", "--lite-bind", "chats", "--lite-wildcard").stderr
    assert "lite_wildcard no -> yes; to change it: `ternmq group update agents --lite-wildcard`" in there


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--lite-quota", "3"), "--lite-quota is for lite groups: give the topic that the group is bound to"),
        (("--no-lite-wildcard",), "--lite-wildcard is for lite groups: "),
        (("--lite-bind", "t", "--lite-quota", "0"), "0 is not in the range"),
        (("--lite-bind", "t", "--lite-model", "own"), "'own' is not one of"),
        (("--lite-bind", "t", "--lite-reset", "now"), "taken, unsubscribed, both with a comma, or none"),
    ],
)
def test_what_is_no_setting_of_a_lite_group_is_wrong_usage(
    call_server: Call, server: AdminServer, options: tuple[str, ...], problem: str
) -> None:
    result = call_server("group", "create", "g", *options)
    assert (result.exit_code, len(result.stderr.splitlines()), problem in result.stderr) == (2, 1, True)
    assert call_server("group", "update", "g", "--lite-bind", "t").exit_code == 2, "it can't change"
    assert not server.groups


def test_an_update_tells_what_it_changed(call_server: Call) -> None:
    call_server("group", "create", "g", "--max-attempts", "3")
    lines = call_server("group", "update", "g", "--max-attempts", "5").stdout.splitlines()
    assert lines == ["group g updated", "max attempts  3 -> 5"]
    assert call_server("group", "update", "g", "--max-attempts", "5").stdout == "group g has these settings already\n"


def test_members_are_described_with_what_they_subscribe(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    server.members = [
        admin_pb2.Member(client_id="c1", client_type=pb.PUSH_CONSUMER, subscriptions={"orders": "paid", "audit": "*"})
    ]
    server.inconsistencies = ["c1 and c2 subscribe orders differently"]
    described = json.loads(call_server("group", "describe", "g", "--json").stdout)
    unknown = dict.fromkeys(("protocol", "language", "version", "address", "since", "proxy"))
    assert described["members"] == [
        {"client": "c1", "type": "push_consumer", "subscriptions": {"audit": "*", "orders": "paid"}, **unknown}
    ]
    assert described["inconsistencies"] == server.inconsistencies
    people = call_server("group", "describe", "g").stdout
    assert "c1      push_consumer  audit: *; orders: paid" in people
    assert "WARNING: c1 and c2 subscribe orders differently\n" in people


def test_readers_and_locks_of_queues_are_shown_where_there_are_some(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    assert "READER" not in call_server("group", "describe", "g").stdout
    server.progress[0].reader.client_id = "c1"
    server.progress[0].reader.since.FromSeconds(1_800_000_000)
    described = json.loads(call_server("group", "describe", "g", "--json").stdout)
    assert described["progress"][0]["reader"] == {"client": "c1", "since": "2027-01-15T08:00:00Z", "last_pull": None}
    assert described["progress"][0]["lock"] is None
    people = call_server("group", "describe", "g").stdout
    assert "READER  READER SINCE\n" in people
    assert "c1      2027-01-15T08:00:00Z\n" in people
    assert "LOCK" not in people


def test_the_lag_of_a_group_is_told_in_messages_and_time(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    server.progress[0].oldest_age.FromMilliseconds(11_520_500)
    server.progress.append(admin_pb2.Progress(topic="u", broker="b", committed=7, cursor=7, max_offset=7))
    described = json.loads(call_server("group", "describe", "g", "--json").stdout)
    assert (described["lag"], described["lag_s"]) == (4, 11_520.5)
    assert [queue["lag_s"] for queue in described["progress"]] == [11_520.5, 0.0]
    people = call_server("group", "describe", "g").stdout
    assert "lag              4 messages, the oldest 3h12m old\n" in people
    assert [line.split()[-2:] for line in people.splitlines()[-2:]] == [["4", "3h12m"], ["0", "-"]]


def test_an_age_that_the_server_does_not_tell_is_not_made_up(call_server: Call) -> None:
    call_server("group", "create", "g")
    assert json.loads(call_server("group", "describe", "g", "--json").stdout)["lag_s"] is None
    assert "lag              4 messages\n" in call_server("group", "describe", "g").stdout


def applied(call_server: Call, tmp_path: Path, text: str, ending: str) -> int:
    file = tmp_path / f"groups.{ending}"
    file.write_text(text)
    return call_server("apply", "-f", str(file)).exit_code


@pytest.mark.parametrize("moment", ["2026-08-01T12:00:00Z", '"2026-08-01T12:00:00Z"', '"2026-08-01T14:00+02:00"'])
def test_a_file_declares_all_settings(call_server: Call, server: AdminServer, tmp_path: Path, moment: str) -> None:
    text = f"""
      groups:
        - name: g
          retry_backoff: "exponential:1s,10m,2"
          consume_from: {moment}
          assignment: consistent-hash
          queue_lock_hold: 30s
          priority_factor: 60
    """
    assert applied(call_server, tmp_path, text, "yaml") == 0
    assert settings_of(server.groups["g"]) == ("exponential:1s,10m,2", NOON_MS, "consistent-hash", 30, 60)


def test_a_toml_time_and_a_number_of_seconds_are_understood(
    call_server: Call, server: AdminServer, tmp_path: Path
) -> None:
    text = 'groups = [{name = "g", consume_from = 2026-08-01T12:00:00Z, queue_lock_hold = 30}]'
    assert applied(call_server, tmp_path, text, "toml") == 0
    assert settings_of(server.groups["g"]) == ("", NOON_MS, "", 30, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("retry_backoff: sometimes", "retry_backoff 'sometimes': the retry backoff 'sometimes' can't be used"),
        ("retry_backoff: 5", "retry_backoff must be text, not 5"),
        ("consume_from: 5", "consume_from must be text, not 5"),
        ("consume_from: soon", "consume_from 'soon': auto, earliest, latest or a time"),
        ("queue_lock_hold: soon", "queue_lock_hold 'soon': a duration like"),
        ("queue_lock_hold: true", "queue_lock_hold must be text, not True"),
        ("assignment: [a]", "assignment must be text"),
        ("priority_factor: 101", "priority_factor must be a whole number from 0 to 100, not 101"),
        ("priority_factor: -1", "priority_factor must be a whole number from 0 to 100, not -1"),
        ("priority_factor: true", "priority_factor must be a whole number from 0 to 100, not True"),
        ("priority_factor: high", "priority_factor must be a whole number from 0 to 100, not 'high'"),
    ],
)
def test_a_wrong_setting_in_a_file_is_one_line(call: Call, text: str, problem: str) -> None:
    result = call("apply", "-f", "-", stdin=f"groups: [{{name: g, {text}}}]")
    assert result.exit_code == 2
    assert f"-: groups[0]: {problem}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_group_may_begin_some_time_ago(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g", "--consume-from", "2h")
    began_ms = int(server.groups["g"].consume_from)
    assert 0 <= datetime.now(UTC).timestamp() * 1000 - 7_200_000 - began_ms < 60_000


def test_a_group_is_made_fifo_and_back(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g", "--max-attempts", "3")
    result = call_server("group", "update", "g", "--fifo")
    assert (result.exit_code, result.stdout.splitlines()) == (0, ["group g updated", "fifo  no -> yes"])
    assert (server.groups["g"].fifo, server.groups["g"].max_attempts) == (True, 3)
    call_server("group", "update", "g", "--max-attempts", "4")
    assert (server.groups["g"].fifo, server.groups["g"].max_attempts) == (True, 4)
    assert json.loads(call_server("group", "update", "g", "--no-fifo", "--json").stdout)["fifo"] is False
    assert call_server("group", "update", "g").exit_code == 2
