"""What `ternmq doctor` finds, and what it says is to be done."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from ternmq_command.server.diagnosis import checkup
from ternmq_command.server.diagnosis.remoting_checkup import check_remoting
from ternmq_command.terminal.options import http_address
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.stack import Stack
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.source_server import SourceServer

HEALTHY = b'{"status": "ready"}'


@contextmanager
def health(status: int, body: bytes) -> Iterator[str]:
    """An HTTP server that says this to everybody; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Examined(NamedTuple):
    exit_code: int
    states: dict[str, str]
    said: dict[str, str]


def examined(call: Call, endpoint: str, http: str, *more: str) -> Examined:
    result = call("doctor", "--endpoint", endpoint, "--http", http, "--json", *more)
    found = json.loads(result.stdout)
    return Examined(
        result.exit_code,
        {each["subject"]: each["state"] for each in found},
        {each["subject"]: f"{each['said']} -> {each['advice']}" for each in found},
    )


def test_the_http_port_is_looked_for_where_the_endpoint_is(call: Call) -> None:
    assert http_address("mq.example.com:18081", None) == "mq.example.com:8082"
    assert http_address("[::1]:8081", None) == "[::1]:8082"
    assert http_address("mq.example.com:8081", "here:9082") == "here:9082"
    for command in ("doctor", "diag"):
        assert "by default port 8082 at the endpoint's host" in " ".join(call(command, "--help").stdout.split())


def test_a_doctor_without_an_http_address_asks_the_host_of_the_endpoint(
    call: Call, server: AdminServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def of_health(http: str) -> Iterator[checkup.Finding]:
        asked.append(http)
        yield checkup.Finding("health", "ok", "ready", "")

    monkeypatch.setattr(checkup, "check_health", of_health)
    endpoint = f"localhost:{server.endpoint.rpartition(':')[2]}"
    call("doctor", "--endpoint", endpoint, "--no-round-trip", "--json")
    assert asked == ["localhost:8082"]


@pytest.mark.slow
def test_a_server_that_is_well_is_told_so_and_keeps_nothing_of_it(call: Call, tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        found = examined(call, stack.grpc, stack.http)
        topics = json.loads(call("topic", "list", "--json", "--endpoint", stack.grpc).stdout)
    assert found.exit_code == 0
    assert {found.states[each] for each in ("server", "clock", "health", "broker", "round trip")} == {"ok"}
    assert topics == []


def test_nobody_there_ends_the_examination(call: Call, nobody: str) -> None:
    found = examined(call, nobody, nobody)
    assert found.exit_code == 3
    assert found.states["server"] == "problem"
    assert "ternmq up" in found.said["server"]
    assert "round trip" not in found.states


def test_a_clock_that_is_wrong_is_a_problem_and_one_for_tests_a_warning(call: Call, server: AdminServer) -> None:
    server.ahead, server.test_clock = timedelta(days=1), False
    with health(200, HEALTHY) as http:
        found = examined(call, server.endpoint, http)
        assert found.exit_code == 1
        assert found.states["clock"] == "problem"
        # The answer takes its time, by which the clocks are compared: seconds on a busy machine.
        ahead = re.search(r"\+([0-9.]+) s from this machine's", found.said["clock"])
        assert ahead is not None
        assert float(ahead[1]) == pytest.approx(24 * 3600, abs=60)
        server.test_clock = True
        assert examined(call, server.endpoint, http).states["clock"] == "warning"


@pytest.mark.parametrize(
    ("in_sync", "state", "said"),
    [
        ("abc", "ok", "3 of 3 of s are in sync -> "),
        ("ab", "warning", "2 of 3 of s are in sync -> ternmq shard show s"),
        ("a", "problem", "1 of 3 of s are in sync, and 2 must be -> start the others; see: ternmq shard show s"),
    ],
)
def test_replicas_that_are_not_in_sync_are_said(
    call: Call, server: AdminServer, nobody: str, in_sync: str, state: str, said: str
) -> None:
    server.brokers.put_replicas("s", a=10, b=10, c=10)
    for replica in server.brokers.all["s"].replicas:
        replica.in_sync = replica.name in in_sync
    found = examined(call, server.endpoint, nobody)
    assert (found.states["replicas"], found.said["replicas"]) == (state, said)


@pytest.mark.parametrize(
    ("draining", "told", "advice"),
    [
        (False, admin_pb2.BrokerLoad(messages=0, unfinished=0, timers=0), "ternmq broker remove gone --force"),
        (True, admin_pb2.BrokerLoad(), "ternmq broker remove gone --force"),
        (True, admin_pb2.BrokerLoad(messages=9, unfinished=0, timers=0), "ternmq broker remove gone"),
    ],
    ids=["not drained", "nobody knows", "drained"],
)
def test_a_broker_that_is_away_is_a_problem(
    call: Call, server: AdminServer, nobody: str, draining: bool, told: admin_pb2.BrokerLoad, advice: str
) -> None:
    server.brokers.put("gone", live=False, load=told)
    server.brokers.all["gone"].draining = draining
    found = examined(call, server.endpoint, nobody)
    assert (found.states["broker"], found.said["broker"]) == ("problem", f"gone is away -> start it, or: {advice}")


def test_a_brokers_clock_that_is_off_is_a_problem(call: Call, server: AdminServer, nobody: str) -> None:
    server.brokers.put("far", load=admin_pb2.BrokerLoad(clock_skew=-3600.25))
    found = examined(call, server.endpoint, nobody)
    assert (found.states["clock"], found.said["clock"].split(" -> ")[0]) == (
        "problem",
        "that of far is -3600.2 s from the registry's",
    )
    server.brokers.all["far"].load.clock_skew = 0.9
    assert "is -" not in examined(call, server.endpoint, nobody).said["clock"]


@pytest.mark.parametrize(
    ("status", "body", "state", "word"),
    [
        (503, b'{"status": "the disk is full"}', "problem", "the disk is full"),
        (200, b'{"status": "ready", "degraded": "2 damaged records"}', "warning", "2 damaged records"),
        (200, b"<html>", "warning", "is not TernMQ's"),
        (200, b"[]", "warning", "is not TernMQ's"),
    ],
    ids=["not ready", "degraded", "another server", "another server's list"],
)
def test_what_the_server_says_of_its_health_is_passed_on(
    call: Call, server: AdminServer, status: int, body: bytes, state: str, word: str
) -> None:
    with health(status, body) as http:
        found = examined(call, server.endpoint, http, "--no-round-trip")
    assert found.states["health"] == state
    assert word in found.said["health"]
    assert "round trip" not in found.states


def test_a_send_that_is_refused_is_said_and_the_topic_deleted(call: Call, server: AdminServer, nobody: str) -> None:
    server.memory.before = lambda method, request: pb.Status(code=pb.INTERNAL_SERVER_ERROR, message="the disk is full")
    found = examined(call, server.endpoint, nobody)
    assert found.states["round trip"] == "problem"
    assert "the disk is full" in found.said["round trip"]
    assert found.exit_code == 1
    assert server.topics == {}


@pytest.mark.parametrize(
    ("free", "state"), [(0.5, "ok"), (0.08, "warning"), (0.02, "problem")], ids=["room", "little", "none"]
)
def test_a_disk_that_is_nearly_full_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: float, state: str
) -> None:
    usage = type("usage", (), {"total": 2**40, "used": 0, "free": int(free * 2**40)})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert [each.state for each in checkup.check_disk(tmp_path)] == [state]


def test_a_folder_that_is_not_there_is_not_looked_at(tmp_path: Path) -> None:
    assert not list(checkup.check_disk(tmp_path / "nothing"))


def test_a_database_that_does_not_answer_is_said_without_its_password(call: Call, nobody: str) -> None:
    url = f"postgresql://ternmq:hush@{nobody}/ternmq"
    found = examined(call, nobody, nobody, "--registry", url)
    assert found.states["registry"] == "problem"
    assert "hush" not in found.said["registry"]


def test_people_read_one_line_a_finding_and_what_to_do(call: Call, nobody: str) -> None:
    lines = call("doctor", "--endpoint", nobody).stdout.splitlines()
    assert lines[-2].split()[:2] == ["problem", "server"]
    assert lines[-1].strip().startswith("-> ")


# --- remoting


@pytest.fixture
def remoting() -> Iterator[SourceServer]:
    with SourceServer() as running:
        yield running


def test_a_name_server_whose_brokers_can_be_reached_is_well(
    call: Call, server: AdminServer, remoting: SourceServer
) -> None:
    with health(200, HEALTHY) as http:
        found = examined(call, server.endpoint, http, "--remoting", remoting.address, "--no-round-trip")
    assert (found.exit_code, found.states["remoting"]) == (0, "ok")
    assert found.said["remoting"].startswith(f"{remoting.address} names 1 brokers")


@pytest.mark.parametrize("told", ["127.0.0.1:1", "no address"])
def test_an_address_that_clients_are_told_and_cannot_reach_is_a_problem(
    call: Call, server: AdminServer, remoting: SourceServer, told: str
) -> None:
    remoting.answers[106] = {"brokerAddrTable": {"broker-a": {"brokerAddrs": {0: told}}}}
    with health(200, HEALTHY) as http:
        found = examined(call, server.endpoint, http, "--remoting", remoting.address, "--no-round-trip")
    assert (found.exit_code, found.states["remoting"]) == (1, "problem")
    assert found.said["remoting"].startswith(f"clients are sent to {told}, and it can't be reached from here: ")
    assert found.said["remoting"].endswith("--advertised-remoting HOST:PORT")


def test_remoting_is_a_problem_only_where_it_was_named_or_refuses(
    call: Call, server: AdminServer, remoting: SourceServer, nobody: str
) -> None:
    assert list(check_remoting(nobody, is_wanted=False)) == []
    with health(200, HEALTHY) as http:
        found = examined(call, server.endpoint, http, "--remoting", nobody, "--no-round-trip")
        del remoting.answers[106]
        refused = examined(call, server.endpoint, http, "--remoting", remoting.address, "--no-round-trip")
    assert found.said["remoting"].startswith(f"can't reach {nobody}: ")
    assert "refuses request 106" in refused.said["remoting"]
    assert found.exit_code == refused.exit_code == 1


def test_a_name_server_without_brokers_is_a_warning(call: Call, server: AdminServer, remoting: SourceServer) -> None:
    remoting.answers[106] = {"brokerAddrTable": {}}
    with health(200, HEALTHY) as http:
        found = examined(call, server.endpoint, http, "--remoting", remoting.address, "--no-round-trip")
    assert (found.exit_code, found.states["remoting"]) == (0, "warning")
