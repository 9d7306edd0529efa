"""Brokers, clients and processes of a server that is its own broker, of one process or several, in a real browser."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.console.api import ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.support.stack import ServerProcess
from tests.support.workers import WorkerStack

BROKER = "broker-0"
OWN = "This server is its own and only broker"


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerStack]:
    """Three processes and their supervisor."""
    with WorkerStack(tmp_path_factory.mktemp("workers"), "--workers", "2") as running:
        yield running


def rows(window: Visit, region: str) -> dict[str, list[str]]:
    """What a table says, by the first cell of each row."""
    table = window.page.get_by_role("region", name=region, exact=True)
    cells = [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]
    return {first: others for first, *others in cells}


# --- every page


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, workers: WorkerStack, name: str, theme: str, width: int, height: int
) -> None:
    # A worker that was asked for a topic that is not there yet looks for it again after a second.
    ask(workers.http, "POST", "/topics", {"name": name, "queues": 1})
    with (
        Producer(workers.grpc, topics=[name]) as producer,
        SimpleConsumer(workers.grpc, name, {name: "*"}) as consumer,
        visit(browser, workers.http, theme=theme, width=width, height=height) as window,
    ):
        producer.send(Message(name, b"a"))
        assert consumer.receive(1, timedelta(seconds=60))
        found = {}
        for path, wanted in {
            "/console/brokers": "What is well, and what is amiss",
            f"/console/brokers/{BROKER}": OWN,
            f"/console/brokers/{BROKER}/remaining": "Messages that groups have not finished",
            "/console/brokers/nobody": "There is no such thing",
            f"/console/brokers/{BROKER}/replicas/nobody": "There is no such thing",
            "/console/clients": "simple consumer",
            "/console/clients?group=nobody&topic=nothing": "No client of group nobody of topic nothing",
            "/console/processes": "Log levels of all of them",
            "/console/processes/diagnostics": "Open files",
        }.items():
            window.go(path)
            assert wanted in window.text, path
            for summary in window.page.locator("summary").all():
                summary.click()
            found[path] = window.violations()
        assert {path: told for path, told in found.items() if told} == {}


# --- brokers


def test_a_server_of_workers_names_each(browser: Browser, workers: WorkerStack) -> None:
    with visit(browser, workers.http) as window:
        window.go("/console/brokers")
        assert {name: row[:2] for name, row in rows(window, "Components").items()} == {
            "worker-0": ["worker", "well"],
            "worker-1": ["worker", "well"],
            "registry": ["registry", "well"],
            BROKER: ["broker", "well"],
        }


# --- clients


def test_many_clients_come_in_pages_and_the_list_renews_itself(
    browser: Browser, server: ServerProcess, name: str
) -> None:
    with ExitStack() as producers, visit(browser, server.addresses["http"]) as window:
        window.go(f"/console/clients?topic={name}")
        assert f"No client of topic {name} is connected." in window.text
        for _ in range(26):
            producers.enter_context(Producer(server.addresses["grpc"], topics=[name]))
        found = window.page.locator("tbody th")
        expect(found).to_have_count(25)  # within the 10 s of the list and a little
        first = found.all_inner_texts()
        window.page.get_by_role("link", name="More").click()
        expect(found).to_have_count(1)
        assert found.inner_text() > max(first)
        window.page.get_by_role("link", name="From the beginning").click()
        expect(found).to_have_text(first)


# --- processes


def test_log_levels_are_changed_in_all_processes(browser: Browser, workers: WorkerStack) -> None:
    def levels() -> dict[str, str]:
        told = ask(workers.http, "GET", "/log-levels")
        return {each["process"]: each["levels"] for each in told["processes"]}

    with visit(browser, workers.http) as window:
        window.go("/console/processes")
        assert {process: row[0] for process, row in rows(window, "Log levels").items()} == levels()
        window.fill("Log levels of all of them", "loud")
        window.press("Change")
        assert "loud" in window.error
        assert window.page.get_by_label("Log levels of all of them").input_value() == "loud"
        window.fill("Log levels of all of them", "info,ternmq_proxy=debug")
        window.press("Change")
        assert window.notice == "The log levels were changed in 3 processes."
        assert levels() == dict.fromkeys(("worker-0", "worker-1", "broker"), "info,ternmq_proxy=debug")
        window.fill("Log levels of all of them", "info")
        window.press("Change")
        assert set(levels().values()) == {"info"}


def test_diagnostics_are_told_of_each_process(browser: Browser, workers: WorkerStack) -> None:
    with visit(browser, workers.http) as window:
        window.go("/console/processes/diagnostics")
        assert sorted(window.page.locator("h2").all_inner_texts()) == ["broker", "worker-0", "worker-1"]
        assert not window.page.get_by_role("region", name="Settings of broker").is_visible()
        for what in ("Settings of broker", "Tasks of broker", "Threads of broker"):
            window.open(what)
        assert rows(window, "Settings of broker")["data_dir"] == [str(workers.data_dir)]
        assert all(int(count) > 0 for (count,) in rows(window, "Tasks of broker").values())
        threads = window.page.get_by_role("region", name="Threads of broker").inner_text()
        assert "thread MainThread" in threads
        assert len(threads.splitlines()) > 10
        for told in ask(workers.http, "GET", "/diagnostics")["processes"]:
            assert f"{told['pid']}" in window.text


# --- who may see what
