"""What one does at a server that serves everybody, by mouse, by keyboard and without a script, and what pages do by
themselves. The clock of a page goes on when a test says so, where the page asks now and then."""

import re
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from playwright.sync_api import Browser, Locator, expect

from ternmq.blocking import Producer, SimpleConsumer
from tests.console.browsing import WIDE, Visit, visit
from tests.support.console_site import Site
from tests.support.stack import ServerProcess
from tests.system.console.test_messages import BODIES, find, path_of

TOKYO = ZoneInfo("Asia/Tokyo")
FIRST_PAGE_BYTES_MAX = 150_000
HOSTILE = '<script>alert(1)</script>"><img/src=x/onerror=alert(1)>'


def download(window: Visit, place: Locator) -> bytes:
    with window.page.expect_download() as waiting:
        place.click()
    return Path(waiting.value.path()).read_bytes()


# --- all pages


def test_the_first_page_is_small_and_has_nothing_from_elsewhere_or_of_plots(
    window: Visit, server: ServerProcess, site: Site
) -> None:
    assert f"the console is at http://{site.http}/\n" in server.log.read_text()
    sizes: dict[str, int] = {}
    window.page.on("requestfinished", lambda request: sizes.update({request.url: request.sizes()["responseBodySize"]}))
    window.go("/")
    window.page.wait_for_load_state("networkidle")
    assert len(sizes) >= 4  # page, style and two scripts
    assert sum(sizes.values()) < FIRST_PAGE_BYTES_MAX
    assert not [url for url in sizes if not url.startswith(f"http://{site.http}/") or "plot" in url.lower()]


def test_colours_are_as_one_likes_and_times_in_utc_as_fields_take_them(browser: Browser, site: Site, name: str) -> None:
    site.create_topic(name)
    site.send(name, b"one")
    theme = "document.documentElement.dataset.theme"
    with visit(browser, site.http, theme="dark", zone="Asia/Tokyo") as window:
        window.go(find(name))
        assert window.page.evaluate(theme) == "dark"
        window.page.get_by_role("button", name="light colours").click()
        window.go("/console/groups")
        assert window.page.evaluate(theme) == "light"
        window.go(find(name))
        time = window.region("Messages").locator("time")
        shown = time.inner_text()
        at = datetime.fromisoformat(shown.removesuffix(" UTC")).replace(tzinfo=UTC, microsecond=0)
        expect(time).to_have_attribute("title", re.compile(rf"{at.astimezone(TOKYO):%-I:%M:%S}.*GMT\+9"))
        for seconds, count in ((0, 1), (1, 0)):
            window.fill("Stored from", f"{at + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}")
            window.press("Find")
            expect(time).to_have_count(count)


def test_lists_are_searched_while_one_types_and_renew_themselves(window: Visit, site: Site, name: str) -> None:
    site.create_topic(f"{name}-1")
    window.page.clock.install()
    window.go("/console/topics")
    field = window.page.get_by_label("Part of a topic's name")
    field.press_sequentially(name)
    window.page.clock.run_for(1000)
    rows = window.page.locator("tbody th")
    expect(rows).to_have_text([f"{name}-1"])
    site.create_topic(f"{name}-2")
    window.page.clock.run_for(10_000)
    expect(rows).to_have_text([f"{name}-1", f"{name}-2"])
    assert window.page.evaluate("document.activeElement.id") == "search"
    assert field.input_value() == name
    window.go(f"/console/clients?topic={name}")
    assert f"No client of topic {name} is connected." in window.text
    with ExitStack() as producers:
        for _ in range(26):
            producers.enter_context(Producer(site.grpc, topics=[name]))
        window.page.clock.run_for(10_000)
        expect(rows).to_have_count(25)
        first = rows.all_inner_texts()
        window.follow("More")
        expect(rows).to_have_count(1)
        assert rows.inner_text() > max(first)
        window.follow("From the beginning")
        expect(rows).to_have_text(first)
    site.ask("PUT", f"/quotas/topic/{name}", {"messages_in": 1})
    site.create_topic(name)
    window.go("/console/quotas")
    for _ in range(3):
        assert site.request("POST", f"/topics/{name}/messages", {"text": "x"})[0] in (201, 429)
    window.page.clock.run_for(10_000)
    expect(window.region("Largest uses").locator("tr").filter(has_text=name)).to_contain_text("its own")
    site.ask("DELETE", f"/quotas/topic/{name}")


def test_everything_works_without_a_script(browser: Browser, site: Site, name: str) -> None:
    with visit(browser, site.http, scripts=False) as window:
        window.go("/console/new/topic")
        window.fill("Name", name)
        window.press("Create the topic")
        assert window.notice == f"Topic {name} was created."
        assert " UTC" in window.text
        window.go("/console/topics")
        window.fill("Part of a topic's name", name[-8:].upper())
        window.press("Find")
        expect(window.page.locator("tbody th")).to_have_text([name])

        window.go(f"/console/messages/send?topic={name}")
        window.fill("Body", '{"a": {"b": 1}}')
        window.press("Send it")
        assert " UTC" in window.text
        window.region("Messages").get_by_role("link").click()
        tree = window.region("Body as JSON")
        assert '"b": 1' in tree.inner_text()
        tree.locator("summary").filter(has_text='"a"').click()
        expect(tree.get_by_text('"b"')).to_be_hidden()
        assert download(window, window.page.get_by_role("link", name="Download")) == b'{"a": {"b": 1}}'

        site.create_topic(f"{name}-tx", type="TRANSACTION")
        sending = f"/console/messages/send?topic={name}-tx"
        window.go(sending)
        window.fill("Body", "paid")
        window.press("Send it")
        assert window.path == sending, "the browser does not send it without an outcome"
        window.page.locator("#outcome").select_option("commit")
        window.press("Send it")
        assert "committed" in window.notice

        site.create_letters(f"{name}-letters", b"0", b"1")
        window.go(f"/console/dead-letters?search={name}")
        window.follow(f"{name}-letters")
        assert window.page.get_by_label("All on this page").is_hidden()
        window.page.get_by_label("Choose offset 0").check()
        chosen = window.page.get_by_text("Export the chosen", exact=True)
        assert len(download(window, chosen).splitlines()) == 1
        window.press("Resend the chosen")
        assert window.notice == "1 letter was sent."

        site.create_topic(f"{name}-later", type="DELAY")
        site.send(f"{name}-later", b"later", delay=timedelta(hours=1))
        window.go(f"/console/timers?topic={name}-later")
        window.page.get_by_role("checkbox").check()
        window.fill("Type the name of the topic", f"{name}-later")
        window.press("Recall")
        assert "1 of 1" in window.notice
        assert "No timed message waits" in window.text


# --- topics and groups


def test_a_topic_is_made_and_deleted_by_keyboard_alone(window: Visit, name: str) -> None:
    keyboard = window.page.keyboard
    window.go("/console/topics")
    window.tab_to_text("Skip to the content")
    window.tab_to_text("New topic")
    keyboard.press("Enter")
    window.page.wait_for_url("**/new/topic")
    window.tab_to("at.id === 'name'")
    keyboard.type(name)
    keyboard.press("Enter")
    window.page.wait_for_url(f"**/topics/{name}")
    window.tab_to_text("Delete the topic")
    keyboard.press("Enter")
    window.tab_to("at.id === 'delete-name'")
    keyboard.type(name)
    keyboard.press("Enter")
    window.page.wait_for_url("**/console/topics")
    assert window.notice == f"Topic {name} was deleted."


def test_a_group_renews_itself_leaves_what_one_does_and_is_moved(window: Visit, site: Site, name: str) -> None:
    site.create_topic(name)
    site.send(name, *(b"%d" % number for number in range(3)))
    site.create_group(name, consume_from="earliest")
    with SimpleConsumer(site.grpc, name, {name: "*"}) as consumer:
        consumer.ack(consumer.receive(2, timedelta(seconds=30)))
        window.page.clock.install()
        window.go(f"/console/groups/{name}")
        assert re.search(r"Lag\s+1 messages", window.text)
        window.open("Delete the group")
        field = window.confirmation("group")
        field.fill("half of it")
        site.send(name, b"3", b"4")
        window.page.clock.run_for(5000)
        expect(window.page.locator(".facts")).to_contain_text("3 messages")
        assert field.input_value() == "half of it"
    window.go(f"/console/groups/{name}")
    window.open("Move to another offset")
    window.page.get_by_label("To", exact=True).select_option("earliest")
    window.press("Show what it would do")
    assert "2 messages would come again." in window.notice
    window.confirmation("group").fill(name)
    window.press("Move the group")
    assert window.notice == f"Group {name} was moved in topic {name}."
    assert re.search(r"Lag\s+5 messages", window.text)


# --- messages


def test_a_message_is_sent_and_looked_at_by_keyboard_alone(window: Visit, site: Site, name: str) -> None:
    keyboard = window.page.keyboard
    site.create_topic(name)
    window.go(f"/console/messages/send?topic={name}")
    window.tab_to("at.id === 'text'")
    keyboard.type('{"a": [1, 2]}')
    window.tab_to_text("Send it")
    keyboard.press("Enter")
    window.page.wait_for_url("**/messages?**")
    window.tab_to("at.matches('tbody a')")
    keyboard.press("Enter")
    window.page.wait_for_url("**/messages/one?**")
    window.tab_to("at.matches('.json summary') && at.textContent.includes('a')")
    keyboard.press("Enter")
    expect(window.page.get_by_text("1", exact=True).last).to_be_hidden()


def test_messages_are_shown_as_they_come_while_one_looks(window: Visit, site: Site, name: str) -> None:
    site.create_topic(name)
    site.send(name, b"before")
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url) if "/tail/new" in request.url else None)
    window.page.clock.install()
    window.go(f"/console/messages/tail?topic={name}")
    arrived = window.page.locator("#arrived")
    bodies = arrived.locator("li div")
    assert bodies.count() == 0
    for sent, shown in (([b"one", b"two"], ["two", "one"]), ([b"three"], ["three", "two", "one"])):
        site.send(name, *sent)
        window.page.clock.run_for(2500)
        expect(bodies).to_have_text(shown)
    window.press("Pause")
    asked.clear()
    window.page.clock.run_for(20_000)
    assert asked == []
    window.press("Go on")
    site.send(name, b"four")
    window.page.clock.run_for(2500)
    expect(bodies).to_have_text(["four", "three", "two", "one"])
    assert arrived.get_attribute("data-most") == "200"
    arrived.evaluate("list => list.dataset.most = '3'")
    site.send(name, *(b"%d" % number for number in range(5)))
    window.page.clock.run_for(2500)
    expect(bodies).to_have_text(["4", "3", "2"])
    window.page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true})")
    asked.clear()
    window.page.clock.run_for(20_000)
    assert asked == []


# --- dead letters


def test_dead_letters_are_resent_by_mouse_and_by_keyboard_alone(window: Visit, site: Site, name: str) -> None:
    site.create_letters(name, b"0", b"1")
    site.create_topic(f"{name}-repaired")
    window.go(f"/console/dead-letters/{name}")
    window.page.get_by_label("All on this page").check()
    window.fill("Send the chosen ones to", f"{name}-repaired")
    window.press("Resend the chosen")
    assert window.notice == f"2 letters were sent to {name}-repaired."
    assert site.count_messages(f"{name}-repaired") == 2
    window.go(f"/console/dead-letters/{name}")
    window.tab_to("at.name === 'letter'")
    window.page.keyboard.press("Space")
    window.tab_to_text("Resend the chosen")
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/resend")
    assert window.notice == "1 letter was sent."


# --- hostile text


def look(window: Visit, path: str, shown: str = "") -> None:
    """Open a page: no element of the text is in it. `Visit` fails if anything was logged or a dialog came."""
    window.go(path)
    assert window.violations([WIDE]) == [], path
    window.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert shown in window.text, path
    assert window.page.locator("img, main script").count() == 0, path


def test_hostile_text_of_messages_and_searches_does_nothing(window: Visit, site: Site, name: str) -> None:
    site.create_letters(name, HOSTILE.encode(), keys=[HOSTILE], properties={"region": HOSTILE})
    site.create_topic(f"{name}-later", type="DELAY")
    site.send(f"{name}-later", HOSTILE.encode(), keys=[HOSTILE], delay=timedelta(hours=1))
    look(window, find(name, key=HOSTILE), HOSTILE)
    look(window, path_of(name, 0), HOSTILE)
    look(window, f"/console/messages/send?{urlencode({'topic': HOSTILE, 'key': HOSTILE})}")
    look(window, f"/console/dead-letters/{name}", HOSTILE)
    look(window, f"/console/dead-letters/{name}?{urlencode({'key': HOSTILE})}")
    look(window, f"/console/topics/{quote(HOSTILE.replace('/', ''))}")
    for page in ("topics", "groups", "messages", "dead-letters", "quotas", "clients", "timers", "transactions"):
        look(window, f"/console/{page}?{urlencode({'search': HOSTILE, 'topic': HOSTILE, 'page': HOSTILE})}")
    deep, shown = BODIES["deep JSON"]
    site.send(name, deep)
    for offset, form in ((0, "json"), (0, "hex"), (0, "text"), (1, "json"), (1, "hex"), (1, "text")):
        window.go(path_of(name, offset, **{"as": form}))
        assert window.page.locator("main script, main img, main b:not(.hidden-character)").count() == 0
    assert shown in window.page.get_by_role("region", name="Body as").inner_text()
    assert download(window, window.page.get_by_role("link", name="Download")) == deep
