"""Processes of proxies are told as servers: what those here say counts, and several of one server are one."""

from dataclasses import replace

from ternmq_common.catalog.cluster import ProxyEntry, ProxyLoad
from ternmq_proxy.fronts.grpc.activities.admin.proxies import wire_proxy
from ternmq_proxy.operations.admin.servers.proxies import group_by_server, join_processes


def process(name: str, server: str, address: str = "h:1", **load: object) -> ProxyEntry:
    return ProxyEntry(
        name=name,
        server=server,
        address=address,
        version="1.0",
        started_ms=2000,
        load=ProxyLoad(**load),  # type: ignore[arg-type]
        lease_end_ms=9000,
    )


def test_what_is_said_here_is_newer_than_the_row_and_has_its_lease() -> None:
    known = [process("p/0", "p", clients=1), process("q/0", "q", clients=2)]
    here = [replace(process("p/0", "p", clients=5), lease_end_ms=0)]
    [[own], [other]] = group_by_server(here, known)
    assert (own.load.clients, own.lease_end_ms) == (5, 9000)
    assert other == known[1]


def test_who_is_asked_is_there_without_a_registry() -> None:
    [[own]] = group_by_server([replace(process("p/0", "p"), lease_end_ms=0)], [])
    assert not wire_proxy(join_processes([own], is_asked=True)).HasField("lease_end")


def test_servers_come_by_name_and_those_of_one_name_by_address() -> None:
    known = [process("a", "z"), process("b", "p", "h:2"), process("c", "p", "h:1"), process("d", "p", "h:2")]
    assert [[each.name for each in server] for server in group_by_server([], known)] == [["c"], ["b", "d"], ["a"]]


def test_processes_of_one_server_are_one() -> None:
    processes = [
        process("p/0", "p", connections=3, clients=2, calls=1.5, call_p99_ms=5.0, problem="no broker"),
        replace(process("p/1", "p", connections=4, clients=1, calls=2.0, call_p99_ms=20.0), started_ms=1000),
        replace(process("p/2", "p", problem="no broker"), lease_end_ms=9500),
        process("p/3", "p", problem="a clock"),
    ]
    proxy = wire_proxy(join_processes(processes, is_asked=False))
    assert (proxy.name, proxy.address, proxy.version, proxy.processes, proxy.asked) == ("p", "h:1", "1.0", 4, False)
    assert (proxy.load.connections, proxy.load.clients, proxy.load.calls, proxy.load.call_p99_ms) == (7, 3, 3.5, 20.0)
    assert proxy.load.problem == "no broker; a clock"
    assert (proxy.started.ToMilliseconds(), proxy.lease_end.ToMilliseconds()) == (1000, 9500)


def test_what_no_process_has_counted_is_not_nothing() -> None:
    load = wire_proxy(join_processes([process("p/0", "p")], is_asked=False)).load
    assert not load.HasField("calls")
    assert not load.HasField("call_p99_ms")
