"""`ternmq proxy list`: the proxies of a cluster, as each tells of itself."""

import json

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call


@pytest.fixture(autouse=True)
def proxies(server: AdminServer) -> None:
    """One that has calls and a fault, and one that is new and without a lease."""
    busy = admin_pb2.ProxyLoad(
        connections=1200, clients=1100, calls=345.67, call_p99_ms=5.0, problem="no broker\x1b[31m answers"
    )
    first = admin_pb2.Proxy(name="p", address="10.0.0.1:8081", version="1.0", processes=4, load=busy)
    first.started.FromSeconds(1_700_000_000)
    first.lease_end.FromSeconds(1_700_000_600)
    server.brokers.proxies = [
        first,
        admin_pb2.Proxy(name="q", address="unix:/q", version="1.0", processes=1, asked=True),
    ]


def test_proxies_are_listed_by_name(call_server: Call) -> None:
    result = call_server("proxy", "list")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == [
        "NAME",
        "ADDRESS",
        "ASKED",
        "VERSION",
        "PROCESSES",
        "CONNECTIONS",
        "CLIENTS",
        "CALLS/S",
        "P99",
        "LEASE",
        "END",
        "AMISS",
    ]
    assert lines[1][:10] == ["p", "10.0.0.1:8081", "no", "1.0", "4", "1200", "1100", "345.7", "5", "ms"]
    assert lines[1][10] == "2023-11-14T22:23:20Z"
    assert "\x1b" not in result.stdout
    assert lines[2] == ["q", "unix:/q", "yes", "1.0", "1", "0", "0", "-", "-", "-", "-"]


def test_a_list_for_programs_has_all_of_it(call_server: Call) -> None:
    first, second = json.loads(call_server("proxy", "list", "--json").stdout)
    assert first == {
        "name": "p",
        "address": "10.0.0.1:8081",
        "asked": False,
        "version": "1.0",
        "started": "2023-11-14T22:13:20Z",
        "processes": 4,
        "lease_end": "2023-11-14T22:23:20Z",
        "load": {
            "connections": 1200,
            "clients": 1100,
            "calls": 345.67,
            "call_p99_ms": 5.0,
            "problem": "no broker\x1b[31m answers",
        },
    }
    assert (second["asked"], second["started"], second["lease_end"]) == (True, None, None)
    assert second["load"] == {"connections": 0, "clients": 0, "calls": None, "call_p99_ms": None, "problem": None}


def test_who_lists_less_than_all_hears_why(call_server: Call, server: AdminServer) -> None:
    del server.brokers.proxies[0]
    server.brokers.registry_problem = "connection refused"
    result = call_server("proxy", "list")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert result.stderr == "others are not known, as the registry can't be reached: connection refused\n"
