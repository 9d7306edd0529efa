"""Plots of the last hours in a real browser: drawn, renewed, and told as numbers to who has no script."""

import json
import re
import time

import pytest
from playwright.sync_api import Browser, expect

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.console.api import ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.support.stack import ServerProcess

# One server remembers for all of them.
pytestmark = pytest.mark.xdist_group("plots")


@pytest.fixture(scope="module")
def busy(server: ServerProcess) -> str:
    """A topic, and a group of its name, of which the server remembers something."""
    name = "console-busy"
    ask(server.addresses["http"], "POST", "/topics", {"name": name, "queues": 1})
    ask(server.addresses["http"], "POST", "/groups", {"name": name, "consume_from": "earliest"})
    with Producer(server.addresses["grpc"], topics=[name]) as producer:
        for number in range(20):
            producer.send(Message(name, b"%d" % number))
    with SimpleConsumer(server.addresses["grpc"], name, {name: "*"}) as consumer:
        consumer.ack(consumer.receive(5))

    def is_remembered() -> bool:
        of_topic = ask(server.addresses["http"], "GET", f"/topics/{name}/history")["series"]
        of_group = ask(server.addresses["http"], "GET", f"/groups/{name}/history")["series"]
        return {each["name"] for each in of_topic} >= {"in", "out"} and bool(of_group)

    while not is_remembered():
        time.sleep(0.1)  # there is no event
    return name


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, server: ServerProcess, busy: str, theme: str, width: int, height: int
) -> None:
    with visit(browser, server.addresses["http"], theme=theme, width=width, height=height) as window:
        for path in ("/console/rates", f"/console/topics/{busy}", f"/console/groups/{busy}"):
            window.go(path)
            expect(window.page.locator(".plot canvas").first).to_be_visible()
            assert window.violations() == [], path


def test_a_plot_is_of_what_the_server_remembers(window: Visit, server: ServerProcess, busy: str) -> None:
    with window.page.expect_response("**/console/plots?**") as told:
        window.go(f"/console/topics/{busy}")
    drawn = told.value.json()
    (of_api,) = [
        each["values"]
        for each in ask(server.addresses["http"], "GET", f"/topics/{busy}/history")["series"]
        if each["name"] == "in"
    ]
    assert max(value for value in drawn["series"]["in"] if value is not None) == max(of_api)
    assert len(drawn["series"]["in"]) >= 60
    legend = window.page.locator(".u-legend").inner_text()
    assert re.search(r"in.*out.*acknowledged", legend, re.DOTALL)
    painted = window.page.evaluate(
        """() => { const canvas = document.querySelector(".plot canvas");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return pixels.some((value) => value > 0); }"""
    )
    assert painted


def test_colours_and_times_change_with_the_page(window: Visit, busy: str) -> None:
    window.go(f"/console/topics/{busy}")
    canvas = window.page.locator(".plot canvas")
    expect(canvas).to_be_visible()
    picture = "document.querySelector('.plot canvas').toDataURL()"
    before = window.page.evaluate(picture)
    window.page.get_by_role("button", name="dark colours").click()
    window.page.wait_for_function(f"before => {picture} !== before", arg=before)
    window.press("Times in UTC")
    expect(window.page.locator(".u-legend").first).to_contain_text("UTC")


def test_a_plot_is_as_wide_as_the_window_lets_it(window: Visit, busy: str) -> None:
    window.go(f"/console/groups/{busy}")
    plot = window.page.locator(".plot").first
    expect(plot.locator("canvas")).to_be_visible()
    window.page.set_viewport_size({"width": 400, "height": 800})
    window.page.wait_for_function("document.querySelector('.plot .uplot').clientWidth < 400")


def test_numbers_are_there_without_a_script(browser: Browser, server: ServerProcess, busy: str) -> None:
    with visit(browser, server.addresses["http"], scripts=False) as window:
        window.go(f"/console/topics/{busy}")
        row = window.page.locator(".numbers tbody tr").first.inner_text()
        assert re.fullmatch(r"in\s+[\d.,]+\s+[\d.,]+\s+[\d.,]+", row)
        assert "Messages, in messages/s" in window.text
        window.page.get_by_role("link", name="6 h").click()
        assert window.path == f"/console/topics/{busy}?hours=6"
        window.go(f"/console/groups/{busy}")
        assert "15 messages" in window.page.locator(".numbers").first.inner_text()
        window.go("/console/rates")
        assert "Memory of the process" in window.text


def test_the_first_page_has_nothing_of_plots(window: Visit) -> None:
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.go("/console/topics")
    window.page.wait_for_load_state("networkidle")
    assert [each for each in asked if "plot" in each.lower()] == []


def test_of_what_is_not_there_nothing_is_told(window: Visit) -> None:
    window.go("/console/topics")
    for query, status in (("topic=nobody", 404), ("group=nobody", 404), ("hours=77", 200), ("", 200)):
        answer = window.page.request.get(f"http://{window.address}/console/plots?{query}")
        assert answer.status == status
        if status == 200:
            assert json.loads(answer.body())["step"] == 10


def test_a_topic_tells_its_rates_its_size_and_its_groups(window: Visit, busy: str) -> None:
    window.go(f"/console/topics?search={busy}")
    row = window.page.locator("tbody tr").inner_text()
    assert re.search(r"\b20\b.*\bKiB\b", row, re.DOTALL)
    window.go(f"/console/topics/{busy}")
    assert re.search(r"Size, about\s+[\d.]+ KiB", window.text)
    assert re.search(r"In, last 10 s\s+[\d.]+ messages/s", window.text)
    assert window.page.get_by_role("link", name=busy).last.get_attribute("href") == f"/console/groups/{busy}"
    assert "no member is connected" in window.text
