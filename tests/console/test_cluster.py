"""A real cluster of two brokers and two proxies: what is on both, by HTTP, and in a browser how they come and go."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, expect

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.console.browsing import MISSING, Visit, visit
from tests.support.cluster_processes import ClusterProcesses
from tests.support.console_site import HELD, Json, Site
from tests.support.console_window import Window
from tests.support.until import read_until_text
from tests.system.console.test_dead_letters import confirm, export, letters
from tests.system.console.test_dead_letters import path_of as letters_of
from tests.system.console.test_messages import body_text, find, found, path_of, times

pytestmark = pytest.mark.cluster

BROKERS = ("broker-0", "broker-1")
ON_EACH = 4
ATTEMPTS = 2
# News come by the registry, and then when the page renews itself.
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Two brokers, two proxies."""
    with ClusterProcesses(tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture
def site(pair: ClusterProcesses) -> Site:
    """The first proxy."""
    return site_of(pair)


@pytest.fixture
def window(pair: ClusterProcesses) -> Window:
    """At the second proxy."""
    return Window(site_of(pair, 1))


def site_of(cluster: ClusterProcesses, proxy: int = 0) -> Site:
    return Site(cluster.proxies[proxy].grpc, cluster.proxies[proxy].addresses["http"])


# --- what is on both brokers


def held(site: Site, topic: str) -> dict[str, list[Json]]:
    """The messages of the topic, by broker."""
    path = f"/topics/{quote(topic, safe='')}/queues/0/messages?offset=0&limit=100&broker="
    return {each: site.ask("GET", path + each)["messages"] for each in BROKERS}


def bodies(messages: Sequence[Json]) -> list[str]:
    return [base64.b64decode(each["body"]).decode() for each in messages]


def send_to_both(site: Site, topic: str, on_each: int = ON_EACH) -> dict[str, list[Json]]:
    """Messages `0`, `1` ..., which the brokers take in turn, with the key that is their body; by broker."""
    site.create_topic(topic)
    with Producer(site.grpc, topics=[topic]) as producer:
        for number in range(len(BROKERS) * on_each):
            producer.send(Message(topic, b"%d" % number, keys=[f"k{number}"], tag="NEW"))
    sent = held(site, topic)
    assert {broker: len(messages) for broker, messages in sent.items()} == dict.fromkeys(BROKERS, on_each)
    return sent


def brokers_listed(window: Window) -> set[str]:
    return set(window.column(2, "Messages"))


def test_the_newest_of_both_brokers_come_first_and_in_pages(window: Window, site: Site, name: str) -> None:
    send_to_both(site, name, 15)
    window.go(find(name))
    texts, stored = found(window), times(window)
    assert len(texts) == 25
    assert brokers_listed(window) == set(BROKERS)
    texts += found(window.follow("More"))
    stored += times(window)
    assert sorted(map(int, texts)) == list(range(30))
    assert stored == sorted(stored, reverse=True)


def test_messages_are_found_by_time_key_id_and_offset_at_both_brokers(window: Window, site: Site, name: str) -> None:
    sent = send_to_both(site, name)
    everything = sorted(bodies([*sent["broker-0"], *sent["broker-1"]]))

    def search(**fields: str) -> list[str]:
        return sorted(found(window.go(find(name, **fields))))

    assert search(**{"from": "2001-01-01T00:00:00"}) == everything
    assert search(before="2999-01-01T00:00:00") == everything
    assert search(before="2001-01-01T00:00:00") == []
    assert search(tag="NEW") == everything
    for broker, messages in sent.items():
        properties = messages[-1]["system_properties"]
        for fields in ({"key": properties["keys"][0]}, {"id": properties["message_id"]}):
            assert search(**fields) == bodies(messages[-1:])
            assert brokers_listed(window) == {broker}
        window.go(find(name))
        for label, text in (("Broker", broker), ("Queue", "0"), ("Offset in that queue", "1")):
            window.fill(label, text)
        assert found(window.press("Find")) == bodies(messages[1:])
        assert brokers_listed(window) == {broker}


def test_a_message_of_either_broker_is_opened_and_says_which_groups_consumed_it(
    window: Window, site: Site, name: str
) -> None:
    sent = send_to_both(site, name)
    for group in (name, f"{name}-slow"):
        site.create_group(group, consume_from="earliest")
    assert len(site.receive(name, name, 2 * ON_EACH)) == 2 * ON_EACH
    with SimpleConsumer(site.grpc, f"{name}-slow", {name: "*"}) as consumer:
        taken = [view.body.decode() for _ in range(2) for view in consumer.receive(1, HELD)]
        for broker, messages in sent.items():
            for message in (messages[0], messages[-1]):
                (body,) = bodies([message])
                window.go(find(name)).follow(message["system_properties"]["message_id"], window.region("Messages"))
                assert f"broker={broker}" in window.path
                assert body_text(window) == body
                groups = dict(row[:2] for row in window.rows("Groups"))
                state = "a consumer has it" if body in taken else "not delivered yet"
                assert groups == {
                    name: "finished: acknowledged, filtered out or skipped", f"{name}-slow": state
                }  # fmt: skip


def test_what_comes_to_either_broker_is_listed_since_one_looked(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    window.go(f"/console/messages/tail?topic={name}")
    assert window.page.find(id="arrived").find_all("li") == []
    with Producer(site.grpc, topics=[name]) as producer:
        for number in range(2):
            producer.send(Message(name, b"live-%d" % number))
            (message,) = window.follow("What came since").page.find(id="arrived").find_all("li")
            assert message.text.endswith(f"live-{number}")
    sent = held(site, name)
    assert sorted(bodies([*sent["broker-0"], *sent["broker-1"]])) == ["live-0", "live-1"]
    assert all(sent.values())


def create_letters(site: Site, name: str) -> dict[str, list[str]]:
    """A group gives up each message of the topic at its second attempt; the bodies of its letters, by broker."""
    sent = send_to_both(site, name)
    site.create_group(name, consume_from="earliest", max_attempts=ATTEMPTS)
    left = ATTEMPTS * sum(map(len, sent.values()))
    with SimpleConsumer(site.grpc, name, {name: "*"}) as consumer:
        while left:
            for view in consumer.receive(16, HELD):
                view.nack()
                left -= 1
    return {broker: bodies(messages) for broker, messages in held(site, f"%DLQ%{name}").items()}


def test_dead_letters_of_both_brokers_are_listed_resent_exported_and_removed(
    window: Window, site: Site, name: str
) -> None:
    of_each = create_letters(site, name)
    everything = sorted([*of_each["broker-0"], *of_each["broker-1"]])
    assert everything == [str(number) for number in range(2 * ON_EACH)]
    assert all(of_each.values())
    page = f"/console/dead-letters?search={name}"
    read_until_text(lambda: window.go(page).text, name)  # the second proxy learns of the group a moment later
    window.follow(name, window.main)
    assert sorted(letters(window)) == everything
    assert {row[4] for row in window.rows("Dead letters")} == {f"{ATTEMPTS}"}
    assert sorted(window.column(8, "Dead letters")) == [broker for broker in BROKERS for _ in of_each[broker]]

    file = export(window)
    lines = [json.loads(line) for line in file.splitlines()]
    assert sorted((line["broker"], line["body"]) for line in lines) == sorted(
        (broker, body) for broker, texts in of_each.items() for body in texts
    )
    command = [sys.executable, "-m", "ternmq_command.main", "dlq", "export", name, "-", "--endpoint", site.grpc]
    assert file == subprocess.run(command, check=True, capture_output=True, timeout=60).stdout

    site.create_topic(f"{name}-repaired")
    window.check(*(f"Choose offset 0 on {broker}" for broker in BROKERS))
    window.fill("Send the chosen ones to", f"{name}-repaired")
    assert window.press("Resend the chosen").notice == f"2 letters were sent to {name}-repaired."
    assert window.column(2, "Outcomes") == ["sent", "sent"]
    repaired = held(site, f"{name}-repaired")
    assert sorted(bodies([*repaired["broker-0"], *repaired["broker-1"]])) == sorted(
        of_each[broker][0] for broker in BROKERS
    )

    window.go(letters_of(name))
    assert confirm(window, "Resend all", name, "Resend all").notice == f"{len(everything)} letters were sent."
    assert site.receive(name, name, len(everything)) == [text.encode() for text in everything]

    confirm(window.go(letters_of(name)), "Remove", name, "Remove dead letters")
    assert window.notice == f"{len(everything)} dead letters of group {name} were removed."
    assert site.count_messages(f"%DLQ%{name}") == 0
    assert "The group has no dead letters" in window.text


def test_members_and_clients_are_seen_at_either_proxy(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    site.create_group(name)
    with SimpleConsumer(site.grpc, name, {name: "NEW"}) as consumer:
        assert consumer.client_id
        (member,) = window.go(f"/console/groups/{name}").rows("Members")
        assert member[0] == consumer.client_id
        assert {"PYTHON", f"{name} NEW"} <= set(member)
        (client,) = window.go(f"/console/clients?group={name}").rows("Clients")
        assert client[0] == consumer.client_id
        assert client[-1] == "proxy-0"


# --- pages, brokers and proxies


def told(cluster: ClusterProcesses, name: str) -> Json:
    """What the JSON API says of a broker; None if there is none of that name."""
    return next((each for each in site_of(cluster).ask("GET", "/brokers")["brokers"] if each["name"] == name), None)


def row(window: Visit, region: str, name: str) -> Locator:
    return (
        window.region(region).get_by_role("row").filter(has=window.page.get_by_role("rowheader", name=name, exact=True))
    )


def wait_for(place: Locator, text: str | re.Pattern[str]) -> None:
    """Return when it says so."""
    expect(place).to_contain_text(text, timeout=PATIENCE_MS)


def wait_for_state(window: Visit, name: str, state: str) -> None:
    expect(row(window, "Brokers", name).get_by_role("cell").first).to_have_text(state, timeout=PATIENCE_MS)


def test_pages_of_a_cluster(browser: Browser, site: Site, name: str) -> None:
    site.create_letters(name, *(b"%d" % number for number in range(30)))
    letters = f"/console/dead-letters/{name}"
    place = site.ask("GET", f"/topics/{quote(name)}")["queues"][0]
    with visit(browser, site.http) as window:
        window.look_at(
            {
                "/console/brokers": "Numbers are those that each broker reported last",
                "/console/brokers/broker-1": "it has the only copy of its messages",
                "/console/brokers/broker-1/remaining": "Messages that groups have not finished",
                "/console/brokers/nobody": MISSING,
                "/console/brokers/broker-1/replicas/a": MISSING,
                find(name): "The newest first",
                path_of(name, 0, broker=place["broker"]): "Groups",
                letters: "never acknowledged",
            }
        )


def test_a_broker_is_seen_drained_restricted_let_again_away_and_removed_by_force_alone(
    browser: Browser, pair: ClusterProcesses, site: Site
) -> None:
    broker = pair.add_broker("broker-2")
    with visit(browser, site.http) as window:
        window.go("/console/brokers")
        for each in pair.brokers:
            wait_for_state(window, each.name, "live")
            wait_for(row(window, "Brokers", each.name), each.addresses["storage"])
            wait_for(row(window, "Components", each.name), "well")
        window.follow(broker.name, exact=True)
        assert re.search(rf"Epoch\s+{told(pair, broker.name)['epoch']}\s", window.text)
        drain_and_restrict(window, pair, broker.name)
        site.create_topic("orders")
        window.go("/console/brokers")
        broker.kill9()
        wait_for_state(window, broker.name, "not live")  # the page renews itself
        wait_for(row(window, "Components", broker.name), "not heard of for some seconds")
        assert window.violations() == []
        window.go(f"/console/brokers/{broker.name}")
        assert "No heartbeat for some seconds" in window.error
        window.follow("What is unfinished on it")
        assert "can't be reached" in window.error
        assert window.violations() == []
        remove_by_force(window, pair, broker.name)


def drain_and_restrict(window: Visit, cluster: ClusterProcesses, name: str) -> None:
    """Beginning and ending at the broker's page."""
    window.open("Drain it")
    window.press("Drain")
    assert window.notice == f"Broker {name} is draining: new messages go to others."
    assert re.search(r"State\s+live, draining", window.text)
    assert told(cluster, name)["draining"] is True
    wait_for(window.page.locator("main"), "it can be stopped and removed")  # once it has told that
    window.open("End draining")
    window.press("End the draining")
    assert window.notice == f"Broker {name} stores messages again."
    assert told(cluster, name)["draining"] is False
    for permission, said in (("READ", "read"), ("READ_WRITE", "read write")):
        window.open("What clients may do")
        window.page.get_by_label("Clients may, in all of its queues").select_option(permission)
        window.press("Change")
        assert window.notice == f"Broker {name} was changed."
        assert told(cluster, name)["permission"] == permission
        assert re.search(rf"Clients may\s+{said}\s", window.text)


def remove_by_force(window: Visit, cluster: ClusterProcesses, name: str) -> None:
    window.go(f"/console/brokers/{name}")
    for typed, error in (("broker", f"type the name, {name}, to confirm"), (name, "is away and was not drained")):
        window.open("Remove the broker")
        window.confirmation("broker").fill(typed)
        window.press("Remove the broker")
        assert error in window.error
        assert told(cluster, name)
    window.open("Remove the broker")
    window.page.get_by_label("Although messages are or may be there").check()
    window.confirmation("broker").fill(name)
    window.press("Remove the broker")
    assert window.path == "/console/brokers"
    assert window.notice.startswith(f"Broker {name} was removed. Lost with it: its queues of 1 topic (orders)")
    expect(row(window, "Brokers", name)).to_have_count(0)
    assert told(cluster, name) is None


def test_proxies_are_seen_to_come_and_to_go_and_until_when_leases_are(
    browser: Browser, pair: ClusterProcesses, site: Site
) -> None:
    with visit(browser, site.http) as window:
        window.go("/console/brokers")
        own = pair.proxies[0]
        wait_for(row(window, "Proxies", f"{own.name} (this one)"), own.grpc)
        ended, killed = pair.add_proxy("proxy-2"), pair.add_proxy("proxy-3")
        for proxy in (ended, killed):
            its = row(window, "Proxies", proxy.name)
            wait_for(its, proxy.grpc)
            wait_for(its.get_by_role("cell").first, "nothing")  # is amiss, once it has its brokers
        proxies = {each["name"]: each for each in site.ask("GET", "/proxies")["proxies"]}
        assert [each.get("asked", False) for _, each in sorted(proxies.items())] == [True, False, False, False]
        for region, name in (("Brokers", "broker-0"), ("Proxies", f"{own.name} (this one)")):
            expect(row(window, region, name).locator("time")).to_have_count(2, timeout=PATIENCE_MS)  # since, and until
        assert window.violations() == []
        ended.terminate()
        window.page.reload()
        expect(row(window, "Proxies", ended.name)).to_have_count(0)
        killed.kill9()
        expect(row(window, "Proxies", killed.name)).to_have_count(0, timeout=PATIENCE_MS)  # the page renews itself
        window.follow("broker-0", exact=True)
        assert re.search(r"Lease until\s+20\d\d-\S+ \S+ UTC", window.text)
        window.follow("The proxies of the cluster")
        assert window.path == "/console/brokers#proxies"
