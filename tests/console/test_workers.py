"""Pages of a server of several processes: by HTTP, and each of them in a real browser."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.console.browsing import MISSING, visit
from tests.support.console_site import Site
from tests.support.console_window import Window
from tests.support.workers import WorkerStack


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerStack]:
    """Three processes and their supervisor."""
    with WorkerStack(tmp_path_factory.mktemp("workers"), "--workers", "2") as running:
        yield running


@pytest.fixture
def site(workers: WorkerStack) -> Site:
    return Site(workers.grpc, workers.http)


@pytest.fixture
def window(site: Site) -> Window:
    return Window(site)


def test_pages_of_a_server_of_workers(browser: Browser, site: Site, name: str) -> None:
    # A worker that was asked for a topic that is not there yet looks for it again after a second.
    site.create_topic(name)
    with (
        Producer(site.grpc, topics=[name]) as producer,
        SimpleConsumer(site.grpc, name, {name: "*"}) as consumer,
        visit(browser, site.http) as window,
    ):
        producer.send(Message(name, b"a"))
        assert consumer.receive(1, timedelta(seconds=60))
        window.look_at(
            {
                "/console/brokers": "What is well, and what is amiss",
                "/console/brokers/broker-0": "This server is its own and only broker",
                "/console/brokers/broker-0/remaining": "Messages that groups have not finished",
                "/console/brokers/nobody": MISSING,
                "/console/brokers/broker-0/replicas/nobody": MISSING,
                "/console/clients": "simple consumer",
                "/console/clients?group=nobody&topic=nothing": "No client of group nobody of topic nothing",
                "/console/processes": "Log levels of all of them",
                "/console/processes/diagnostics": "Open files",
            }
        )


def test_a_server_of_workers_names_each(window: Window) -> None:
    window.go("/console/brokers")
    assert sorted(row[:3] for row in window.rows("Components")) == [
        ["broker-0", "broker", "well"],
        ["registry", "registry", "well"],
        ["worker-0", "worker", "well"],
        ["worker-1", "worker", "well"],
    ]


def test_log_levels_are_changed_in_all_processes(window: Window, site: Site) -> None:
    def levels() -> dict[str, str]:
        return {each["process"]: each["levels"] for each in site.ask("GET", "/log-levels")["processes"]}

    def change(to: str) -> Window:
        window.fill("Log levels of all of them", to)
        return window.press("Change")

    window.go("/console/processes")
    assert {process: said for process, said, *_ in window.rows("Log levels")} == levels()
    assert "loud" in change("loud").error
    assert window.field("Log levels of all of them").value == "loud"
    assert change("info,ternmq_proxy=debug").notice == "The log levels were changed in 3 processes."
    assert levels() == dict.fromkeys(("worker-0", "worker-1", "broker"), "info,ternmq_proxy=debug")
    change("info")
    assert set(levels().values()) == {"info"}


def test_diagnostics_are_told_of_each_process(window: Window, site: Site, workers: WorkerStack) -> None:
    window.go("/console/processes/diagnostics")
    assert sorted(each.text for each in window.main.find_all("h2")) == ["broker", "worker-0", "worker-1"]
    assert not window.region("Settings of broker").is_visible
    for what in ("Settings of broker", "Tasks of broker", "Threads of broker"):
        window.open(what)
    assert ["data_dir", str(workers.data_dir)] in window.rows("Settings of broker")
    assert all(int(count) > 0 for _, count in window.rows("Tasks of broker"))
    threads = window.region("Threads of broker").text
    assert "thread MainThread" in threads
    assert len(threads.splitlines()) > 10
    for process in site.ask("GET", "/diagnostics")["processes"]:
        assert f"{process['pid']}" in window.text
