"""Plots of the last hours: drawn and renewed in a real browser, and as numbers for who has no script."""

import re
import time

import pytest
from playwright.sync_api import expect

from ternmq.blocking import SimpleConsumer
from tests.console.browsing import Visit
from tests.support.console_site import Site
from tests.support.console_window import Window

PICTURE = "document.querySelector('.plot canvas').toDataURL()"


@pytest.fixture(scope="module")
def busy(site: Site) -> str:
    """A topic, and a group of its name, of which the server remembers something."""
    name = "console-busy"
    site.create_topic(name)
    site.create_group(name, consume_from="earliest")
    site.send(name, *(b"%d" % number for number in range(20)))
    with SimpleConsumer(site.grpc, name, {name: "*"}) as consumer:
        consumer.ack(consumer.receive(5))

    def is_remembered() -> bool:
        of_topic = site.ask("GET", f"/topics/{name}/history")["series"]
        of_group = site.ask("GET", f"/groups/{name}/history")["series"]
        return {each["name"] for each in of_topic} >= {"in", "out"} and bool(of_group)

    while not is_remembered():
        time.sleep(0.1)  # there is no event
    return name


def test_a_plot_is_of_what_the_server_remembers_and_looks_as_the_page_does(
    window: Visit, site: Site, busy: str
) -> None:
    with window.page.expect_response("**/console/plots?**") as told:
        window.go(f"/console/topics/{busy}")
    drawn = told.value.json()["series"]["in"]
    series = site.ask("GET", f"/topics/{busy}/history")["series"]
    (of_api,) = [each["values"] for each in series if each["name"] == "in"]
    assert max(value for value in drawn if value is not None) == max(of_api)
    assert len(drawn) >= 60
    canvas, legend = window.page.locator(".plot canvas").first, window.page.locator(".u-legend").first
    expect(canvas).to_be_visible()
    assert re.search(r"in.*out.*acknowledged", legend.inner_text(), re.DOTALL)
    assert canvas.evaluate(
        """canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
        .some((value) => value > 0)"""
    )
    before = window.page.evaluate(PICTURE)
    window.page.get_by_role("button", name="dark colours").click()
    window.page.wait_for_function(f"before => {PICTURE} !== before", arg=before)
    expect(legend).to_contain_text("UTC")
    for path in ("/console/rates", f"/console/topics/{busy}", f"/console/groups/{busy}"):
        window.go(path)
        expect(canvas).to_be_visible()
        assert window.violations() == [], path
    window.page.set_viewport_size({"width": 400, "height": 800})
    window.page.wait_for_function("document.querySelector('.plot .uplot').clientWidth < 400")


def test_numbers_are_there_without_a_script(site: Site, busy: str) -> None:
    window = Window(site).go(f"/console/topics/{busy}")
    figures = window.main.find_all("table", **{"class": "numbers"})
    assert re.fullmatch(r"in\t+[\d.,]+\t+[\d.,]+\t+[\d.,]+", "\t".join(each.text for each in figures[0].rows()[0]))
    assert "Messages, in messages/s" in window.text
    assert re.search(r"Size, about\s+[\d.]+ KiB", window.text)
    assert re.search(r"In, last 10 s\s+[\d.]+ messages/s", window.text)
    assert "no member is connected" in window.text
    assert [each.attributes["href"] for each in window.main.find_all("a") if each.text == busy][
        -1
    ] == f"/console/groups/{busy}"
    assert window.follow("6 h").path == f"/console/topics/{busy}?hours=6"
    (row,) = window.go(f"/console/topics?search={busy}").rows()
    assert re.search(r"\b20\b.*\bKiB\b", "\t".join(row))
    numbers = window.go(f"/console/groups/{busy}").main.find_all("table", **{"class": "numbers"})
    assert "15 messages" in numbers[0].text
    assert "Memory of the process" in window.go("/console/rates").text


def test_of_what_is_not_there_nothing_is_told(site: Site, busy: str) -> None:
    window = Window(site).go("/console/topics")
    for query, status in (("topic=nobody", 404), ("group=nobody", 404), ("hours=77", 200), ("", 200)):
        answer = window.fetch(f"/console/plots?{query}")
        assert answer.status == status
        if status == 200:
            assert answer.json["step"] == 10
