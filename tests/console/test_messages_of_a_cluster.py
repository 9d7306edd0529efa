"""Messages and dead letters on both brokers of a real cluster, seen at either of its proxies."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, expect

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.console.api import Json, ask
from tests.console.browsing import Visit, visit
from tests.console.test_dead_letters import (
    HELD_MS,
    command_export,
    count_of,
    exported,
    letter_rows,
    outcomes,
    received,
)
from tests.console.test_dead_letters import path_of as letters_path
from tests.console.test_messages import body_text, find
from tests.support.cluster_processes import ClusterProcesses, ProxyProcess

# Tests of one cluster go to one process of ours.
pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("messages")]

BROKERS = ("broker-0", "broker-1")
ON_EACH = 4
ATTEMPTS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Two brokers, two proxies."""
    with ClusterProcesses(tmp_path_factory.mktemp("messages")) as running:
        yield running


@pytest.fixture
def seen(browser: Browser, cluster: ClusterProcesses) -> Iterator[Visit]:
    """A window at the second proxy; tests send by the first."""
    with visit(browser, cluster.proxies[1].addresses["http"]) as visiting:
        yield visiting


@pytest.fixture
def proxy(cluster: ClusterProcesses) -> ProxyProcess:
    return cluster.proxies[0]


def make_topic(proxy: ProxyProcess, topic: str) -> None:
    ask(proxy.addresses["http"], "POST", "/topics", {"name": topic, "queues": 1})


def held(proxy: ProxyProcess, topic: str) -> dict[str, list[Json]]:
    """The messages of the topic, by broker."""
    path = f"/topics/{quote(topic, safe='')}/queues/0/messages?offset=0&limit=100&broker="
    return {each: ask(proxy.addresses["http"], "GET", path + each)["messages"] for each in BROKERS}


def bodies(messages: Sequence[Json]) -> list[str]:
    return [base64.b64decode(each["body"]).decode() for each in messages]


def send_to_both(proxy: ProxyProcess, topic: str, on_each: int = ON_EACH) -> dict[str, list[Json]]:
    """Messages `0`, `1` ..., which the brokers take in turn, with the key that is their body; by broker."""
    make_topic(proxy, topic)
    with Producer(proxy.grpc, topics=[topic]) as producer:
        for number in range(len(BROKERS) * on_each):
            producer.send(Message(topic, b"%d" % number, keys=[f"k{number}"], tag="NEW"))
    sent = held(proxy, topic)
    assert {broker: len(messages) for broker, messages in sent.items()} == dict.fromkeys(BROKERS, on_each)
    return sent


def rows(window: Visit) -> Locator:
    return window.page.get_by_role("region", name="Messages").locator("tbody tr")


def listed(window: Visit) -> list[str]:
    """What the messages of the list begin with, from above."""
    return rows(window).locator("td:last-child").all_inner_texts()


def brokers_listed(window: Visit) -> list[str]:
    return rows(window).locator("td:nth-of-type(2)").all_inner_texts()


# --- messages


def test_the_newest_of_both_brokers_come_first_and_in_pages(seen: Visit, proxy: ProxyProcess, name: str) -> None:
    send_to_both(proxy, name, 15)
    seen.go(find(name))
    expect(rows(seen)).to_have_count(25)
    assert set(brokers_listed(seen)) == set(BROKERS)
    assert seen.violations() == []
    texts = listed(seen)
    times = seen.page.locator("tbody time").evaluate_all("all => all.map(each => each.dateTime)")
    seen.page.get_by_role("link", name="More").click()
    expect(rows(seen)).to_have_count(5)
    texts += listed(seen)
    times += seen.page.locator("tbody time").evaluate_all("all => all.map(each => each.dateTime)")
    assert sorted(map(int, texts)) == list(range(30))
    assert times == sorted(times, reverse=True)


def test_messages_are_found_by_time_key_id_and_offset_at_both_brokers(
    seen: Visit, proxy: ProxyProcess, name: str
) -> None:
    sent = send_to_both(proxy, name)
    everything = sorted(bodies([*sent["broker-0"], *sent["broker-1"]]))

    def found(**fields: str) -> list[str]:
        seen.go(find(name, **fields))
        return sorted(listed(seen))

    assert found(**{"from": "2001-01-01T00:00:00"}) == everything
    assert found(before="2999-01-01T00:00:00") == everything
    assert found(before="2001-01-01T00:00:00") == []
    assert found(tag="NEW") == everything
    for broker, messages in sent.items():
        last = messages[-1]
        assert found(key=last["system_properties"]["keys"][0]) == bodies([last])
        assert brokers_listed(seen) == [broker]
        assert found(id=last["system_properties"]["message_id"]) == bodies([last])
        assert brokers_listed(seen) == [broker]
        seen.go(find(name))
        seen.page.get_by_label("Broker", exact=True).select_option(broker)
        seen.fill("Queue", "0")
        seen.fill("Offset in that queue", "1")
        seen.press("Find")
        seen.page.wait_for_url("**offset=1")
        assert listed(seen) == bodies(messages[1:])
        assert set(brokers_listed(seen)) == {broker}


def test_a_message_of_either_broker_is_opened_and_says_which_groups_consumed_it(
    seen: Visit, proxy: ProxyProcess, name: str
) -> None:
    sent = send_to_both(proxy, name)
    for group in (name, f"{name}-slow"):
        ask(proxy.addresses["http"], "POST", "/groups", {"name": group, "consume_from": "earliest"})
    assert len(received(proxy, name, name, 2 * ON_EACH)) == 2 * ON_EACH
    with SimpleConsumer(proxy.grpc, f"{name}-slow", {name: "*"}) as consumer:
        taken = [view.body.decode() for _ in range(2) for view in consumer.receive(1, HELD_MS)]
        for broker, messages in sent.items():
            for message in (messages[0], messages[-1]):
                (body,) = bodies([message])
                seen.go(find(name))
                rows(seen).get_by_role("link", name=message["system_properties"]["message_id"]).click()
                seen.page.wait_for_url(f"**/one?**broker={broker}**")
                assert body_text(seen) == body
                groups = seen.page.get_by_role("region", name="Groups").locator("tbody").inner_text()
                assert re.search(rf"{name}\s+finished: acknowledged, filtered out or skipped", groups)
                state = "a consumer has it" if body in taken else "not delivered yet"
                assert re.search(rf"{name}-slow\s+{state}", groups)
    assert seen.violations() == []


def test_what_comes_to_either_broker_is_shown_live(seen: Visit, proxy: ProxyProcess, name: str) -> None:
    make_topic(proxy, name)
    seen.go(f"/console/messages/tail?topic={name}")
    arrived = seen.page.locator("#arrived > li")
    expect(arrived).to_have_count(0)
    with Producer(proxy.grpc, topics=[name]) as producer:
        for number in range(2):
            producer.send(Message(name, b"live-%d" % number))
            expect(arrived.filter(has_text=f"live-{number}")).to_have_count(1)
    sent = held(proxy, name)
    assert sorted(bodies([*sent["broker-0"], *sent["broker-1"]])) == ["live-0", "live-1"]
    assert all(sent.values())


# --- dead letters


def make_letters(proxy: ProxyProcess, name: str) -> Mapping[str, list[str]]:
    """A group gives up each message of the topic at its second attempt; the bodies of its letters, by broker."""
    sent = send_to_both(proxy, name)
    settings = {"name": name, "consume_from": "earliest", "max_attempts": ATTEMPTS}
    ask(proxy.addresses["http"], "POST", "/groups", settings)
    left = ATTEMPTS * sum(map(len, sent.values()))
    with SimpleConsumer(proxy.grpc, name, {name: "*"}) as consumer:
        while left:
            for view in consumer.receive(16, HELD_MS):
                view.nack()
                left -= 1
    return {broker: bodies(messages) for broker, messages in held(proxy, f"%DLQ%{name}").items()}


def test_dead_letters_of_both_brokers_are_listed_resent_exported_and_removed(
    seen: Visit, proxy: ProxyProcess, name: str
) -> None:
    letters = make_letters(proxy, name)
    everything = sorted([*letters["broker-0"], *letters["broker-1"]])
    assert everything == [str(number) for number in range(2 * ON_EACH)]
    assert all(letters.values())
    seen.go(f"/console/dead-letters?search={name}")
    seen.page.get_by_role("link", name=name).click()
    assert sorted(letter_rows(seen)) == everything
    table = seen.page.get_by_role("region", name="Dead letters").locator("tbody tr")
    assert set(table.locator("td:nth-child(5)").all_inner_texts()) == {f"{ATTEMPTS}"}
    assert sorted(table.locator("td:nth-child(9)").all_inner_texts()) == [
        broker for broker in BROKERS for _ in letters[broker]
    ]
    assert seen.violations() == []

    file = exported(seen, "Export all as JSON lines")
    lines = [json.loads(line) for line in file.splitlines()]
    assert sorted((line["broker"], line["body"]) for line in lines) == sorted(
        (broker, body) for broker, texts in letters.items() for body in texts
    )
    assert file == command_export(proxy, name)

    make_topic(proxy, f"{name}-repaired")
    for broker in BROKERS:
        seen.page.get_by_label(f"Choose offset 0 on {broker}").check()
    seen.fill("Send the chosen ones to", f"{name}-repaired")
    seen.press("Resend the chosen")
    assert seen.notice == f"2 letters were sent to {name}-repaired."
    assert outcomes(seen) == ["sent", "sent"]
    repaired = held(proxy, f"{name}-repaired")
    assert sorted(bodies([*repaired["broker-0"], *repaired["broker-1"]])) == sorted(
        letters[broker][0] for broker in BROKERS
    )

    seen.go(letters_path(name))
    seen.open("Resend all")
    confirmation = seen.page.get_by_label("Type the name of the group to go on").locator("visible=true")
    confirmation.fill(name)
    seen.press("Resend all")
    assert seen.notice == f"{len(everything)} letters were sent."
    assert received(proxy, name, name, len(everything)) == [text.encode() for text in everything]

    seen.go(letters_path(name))
    seen.open("Remove")
    confirmation.fill(name)
    seen.press("Remove dead letters")
    assert seen.notice == f"{len(everything)} dead letters of group {name} were removed."
    assert count_of(proxy, f"%DLQ%{name}") == 0
    assert "The group has no dead letters" in seen.text


# --- who consumes


def test_members_and_clients_are_seen_at_either_proxy(seen: Visit, proxy: ProxyProcess, name: str) -> None:
    make_topic(proxy, name)
    ask(proxy.addresses["http"], "POST", "/groups", {"name": name})
    with SimpleConsumer(proxy.grpc, name, {name: "NEW"}) as consumer:
        assert consumer.client_id
        seen.go(f"/console/groups/{name}")
        member = seen.page.get_by_role("region", name="Members").locator("tbody tr")
        expect(member).to_have_count(1)
        expect(member).to_contain_text(consumer.client_id)
        expect(member).to_contain_text("PYTHON")
        expect(member).to_contain_text(f"{name} NEW")
        seen.go(f"/console/clients?group={name}")
        client = seen.page.get_by_role("region", name="Clients").locator("tbody tr")
        expect(client).to_have_count(1)
        expect(client).to_contain_text(consumer.client_id)
        expect(client.locator("td:last-child")).to_have_text("proxy-0")
