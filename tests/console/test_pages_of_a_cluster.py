"""The console of a proxy of a real cluster, whose brokers are drained, killed and removed; its replicas take turns."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from ternmq import Message
from ternmq.blocking import Producer
from tests.console.api import Json, ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.support.cluster_processes import ClusterProcesses, ReplicaProcess

pytestmark = [pytest.mark.cluster]

SHARD = "broker-0"
# News come by the registry, and then when the page renews itself.
PATIENCE_MS = 60_000
THOUSANDS = re.compile(r"[1-9],\d{3}")
# Tests of one cluster go to one process of ours.
OF_PAIR, OF_SHARD = pytest.mark.xdist_group("pair"), pytest.mark.xdist_group("shard")
# Who is killed is not heard of after two seconds.
SETTINGS = 'lease_ms = "2s"\n'


def cluster_in(folder: Path, *, brokers: int, replicas: int = 0, options: tuple[str, ...] = ()) -> ClusterProcesses:
    config = folder / "broker.toml"
    config.write_text(SETTINGS)
    options = ("--config", str(config), *options)
    return ClusterProcesses(folder, brokers=brokers, proxies=1, replicas=replicas, broker_options=options)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Two brokers."""
    with cluster_in(tmp_path_factory.mktemp("pair"), brokers=2) as running:
        yield running


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """One broker of two replicas, of which one is enough."""
    options = ("--min-insync", "1")
    with cluster_in(tmp_path_factory.mktemp("shard"), brokers=1, replicas=2, options=options) as running:
        yield running


def http(cluster: ClusterProcesses) -> str:
    return cluster.proxies[0].addresses["http"]


def told(cluster: ClusterProcesses, name: str) -> Json:
    """What the JSON API says of a broker."""
    return next(each for each in ask(http(cluster), "GET", "/brokers")["brokers"] if each["name"] == name)


def row(window: Visit, region: str, name: str) -> Locator:
    table = window.page.get_by_role("region", name=region, exact=True)
    return table.get_by_role("row").filter(has=window.page.get_by_role("rowheader", name=name, exact=True))


def wait_for(place: Locator, text: str | re.Pattern[str]) -> None:
    """Return when it says so."""
    expect(place).to_contain_text(text, timeout=PATIENCE_MS)


def wait_for_state(window: Visit, name: str, state: str) -> None:
    expect(row(window, "Brokers", name).get_by_role("cell").first).to_have_text(state, timeout=PATIENCE_MS)


def confirm(window: Visit, what: str, name: str) -> None:
    window.page.get_by_label(f"Type the name of the {what} to go on").locator("visible=true").fill(name)


# --- brokers


@OF_PAIR
@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_pages_of_brokers_can_be_used_by_everybody(
    browser: Browser, pair: ClusterProcesses, theme: str, width: int, height: int
) -> None:
    with visit(browser, http(pair), theme=theme, width=width, height=height) as window:
        for path, wanted in {
            "/console/brokers": "Numbers are as each broker told last",
            "/console/brokers/broker-1": "It has the only copy of its messages",
            "/console/brokers/broker-1/remaining": "None.",
            "/console/brokers/nobody": "There is no such thing",
            "/console/brokers/broker-1/replicas/a": "There is no such thing",
        }.items():
            window.go(path)
            assert wanted.lower() in window.text.lower(), path
            for summary in window.page.locator("summary").all():
                summary.click()
            assert window.violations() == [], path


@OF_PAIR
def test_a_broker_is_seen_drained_restricted_and_let_again(browser: Browser, pair: ClusterProcesses) -> None:
    with visit(browser, http(pair)) as window:
        window.go("/console/brokers")
        for broker in pair.brokers[:2]:
            wait_for_state(window, broker.name, "live")
            wait_for(row(window, "Brokers", broker.name), broker.addresses["storage"])
            wait_for(row(window, "Components", broker.name), "well")
        window.page.get_by_role("link", name="broker-1", exact=True).click()
        assert re.search(rf"Epoch\s+{told(pair, 'broker-1')['epoch']}\s", window.text)
        window.open("Drain it")
        window.press("Drain")
        assert window.notice == "Broker broker-1 is draining: new messages go to others."
        assert re.search(r"State\s+live, draining", window.text)
        assert told(pair, "broker-1")["draining"] is True
        wait_for(window.page.locator("main"), "it can be stopped and removed")  # once it has told that
        window.open("End draining")
        window.press("Let it take messages")
        assert window.notice == "Broker broker-1 takes messages again."
        assert told(pair, "broker-1")["draining"] is False
        window.open("What clients may do")
        window.page.get_by_label("Clients may, in all of its queues").select_option("READ")
        window.press("Change")
        assert window.notice == "Broker broker-1 was changed."
        assert told(pair, "broker-1")["permission"] == "READ"
        window.open("What clients may do")
        window.page.get_by_label("Clients may, in all of its queues").select_option("READ_WRITE")
        window.press("Change")
        assert re.search(r"Clients may\s+read write", window.text)
        window.go("/console/clients")
        assert "No client is connected." in window.text


@OF_PAIR
def test_proxies_are_seen_to_come_and_to_go(browser: Browser, pair: ClusterProcesses) -> None:
    with visit(browser, http(pair)) as window:
        window.go("/console/brokers")
        own = pair.proxies[0]
        wait_for(row(window, "Proxies", f"{own.name} (this one)"), own.grpc)
        ended, killed = pair.add_proxy("proxy-1"), pair.add_proxy("proxy-2")
        for proxy in (ended, killed):
            its = row(window, "Proxies", proxy.name)
            wait_for(its, proxy.grpc)
            wait_for(its.get_by_role("cell").first, "nothing")  # is amiss, once it has its brokers
        told = {each["name"]: each for each in ask(http(pair), "GET", "/proxies")["proxies"]}
        assert [each.get("asked", False) for _, each in sorted(told.items())] == [True, False, False]
        assert window.violations() == []
        ended.terminate()
        window.page.reload()
        expect(row(window, "Proxies", ended.name)).to_have_count(0)
        killed.kill9()
        expect(row(window, "Proxies", killed.name)).to_have_count(0, timeout=PATIENCE_MS)  # the page renews itself


@OF_PAIR
def test_leases_are_seen(browser: Browser, pair: ClusterProcesses) -> None:
    with visit(browser, http(pair)) as window:
        window.go("/console/brokers")
        for region, name in (("Brokers", "broker-0"), ("Proxies", f"{pair.proxies[0].name} (this one)")):
            expect(row(window, region, name).locator("time")).to_have_count(2, timeout=PATIENCE_MS)  # since, and until
        window.page.get_by_role("link", name="broker-0", exact=True).click()
        assert re.search(r"Lease until\s+\S.* 20\d\d", window.text)
        window.page.get_by_role("link", name="The proxies of the cluster").click()
        assert window.path == "/console/brokers#proxies"


@OF_PAIR
def test_a_killed_broker_is_seen_as_away_and_removed_by_force_alone(browser: Browser, pair: ClusterProcesses) -> None:
    name = "broker-2"
    broker = pair.add_broker(name)
    with visit(browser, http(pair)) as window:
        window.go("/console/brokers")
        wait_for_state(window, name, "live")
        ask(http(pair), "POST", "/topics", {"name": "orders", "queues": 1})
        broker.kill9()
        wait_for_state(window, name, "not live")  # the page renews itself
        wait_for(row(window, "Components", name), "not heard of for some seconds")
        assert window.violations() == []
        window.go(f"/console/brokers/{name}")
        assert "Not heard of for some seconds" in window.error
        window.page.get_by_role("link", name="What is unfinished on it").click()
        assert "can't be reached" in window.error
        assert window.violations() == []
        window.go(f"/console/brokers/{name}")
        for typed, error in (("broker", "type the name, broker-2, to go on"), (name, "is away and was not drained")):
            window.open("Remove the broker")
            confirm(window, "broker", typed)
            window.press("Remove the broker")
            assert error in window.error
            assert told(pair, name)["name"] == name
        window.open("Remove the broker")
        window.page.get_by_label("Although messages are or may be there").check()
        confirm(window, "broker", name)
        window.press("Remove the broker")
        assert window.path == "/console/brokers"
        assert window.notice.startswith(f"Broker {name} was removed. Gone with it: its queues of 1 topic (orders)")
        expect(row(window, "Brokers", name)).to_have_count(0)
        assert name not in [each["name"] for each in ask(http(pair), "GET", "/brokers")["brokers"]]


# --- replicas


def leader(cluster: ClusterProcesses) -> str:
    return next((each["name"] for each in told(cluster, SHARD)["replicas"] if each["leader"]), "")


def process_of(cluster: ClusterProcesses, name: str) -> ReplicaProcess:
    return next(each for each in cluster.replicas if each.replica == name)


@OF_SHARD
def test_leadership_is_moved_and_replicas_come_and_go(browser: Browser, shard: ClusterProcesses) -> None:
    with visit(browser, http(shard)) as window:
        window.go(f"/console/brokers/{SHARD}")
        main = window.page.locator("main")
        wait_for(main, "2 of 2 in sync")
        before = leader(shard)
        window.page.reload()
        assert window.violations() == []
        other = next(each.replica for each in shard.replicas if each.replica != before)
        window.open("Have another replica lead")
        window.page.get_by_label("Replica", exact=True).select_option(other)
        window.press("Have it lead")
        assert window.notice == f"Replica {other} was asked to lead broker {SHARD}."
        wait_for(row(window, "Replicas", other), "leader")
        wait_for(main, "2 of 2 in sync")
        assert leader(shard) == other
        window.open("Add a replica")
        window.press("Add a replica")
        assert window.notice == f"Broker {SHARD} may have 3 replicas: start another one's process now."
        shard.add_replica(SHARD, "c", replicas=3)
        wait_for(main, "3 of 3 in sync")
        window.page.get_by_role("link", name="c", exact=True).click()
        assert re.search(r"State\s+in sync", window.text)
        assert re.search(r"Lease until\s+\S.* 20\d\d", window.text)
        window.open("Remove the replica")
        confirm(window, "replica", SHARD)
        window.press("Remove the replica")
        assert "type the name, c, to go on" in window.error
        window.open("Remove the replica")
        confirm(window, "replica", "c")
        window.press("Remove the replica")
        assert window.notice == f"Replica c of broker {SHARD} was removed."
        assert [each["name"] for each in told(shard, SHARD)["replicas"]] == ["a", "b"]


@OF_SHARD
@pytest.mark.long  # half a minute of waiting for leases
def test_a_replica_that_is_behind_is_elected_when_one_says_so(browser: Browser, shard: ClusterProcesses) -> None:
    with visit(browser, http(shard)) as window:
        window.go(f"/console/brokers/{SHARD}")
        main = window.page.locator("main")
        wait_for(main, "2 of 2 in sync")
        led = leader(shard)
        behind = next(name for name in ("a", "b") if name != led)
        process_of(shard, behind).kill9()
        wait_for(row(window, "Replicas", behind), "behind, away")
        ask(http(shard), "POST", "/topics", {"name": "lost", "queues": 1})
        with Producer(shard.proxies[0].grpc, topics=["lost"]) as producer:
            producer.send(Message("lost", b"x" * 1000))
        wait_for(row(window, "Replicas", behind).get_by_role("cell").nth(2), THOUSANDS)  # of bytes behind
        process_of(shard, led).kill9()
        wait_for(main, "Not heard of for some seconds")
        window.go(f"/console/brokers/{SHARD}/replicas/{behind}")
        window.open("Elect it although it is not in sync")
        assert "It is away: start its process first." in window.text
        process_of(shard, behind).start()
        expect(window.page.locator(".facts")).not_to_contain_text("away", timeout=PATIENCE_MS)
        window.page.reload()
        window.open("Elect it although it is not in sync")
        assert re.search(rf"At least {THOUSANDS.pattern} bytes of the log are lost", window.text)
        assert window.violations() == []
        confirm(window, "replica", behind)
        window.press("Elect it")
        assert window.notice.startswith(f"Replica {behind} was elected to lead broker {SHARD}.")
        assert re.search(rf"At least {THOUSANDS.pattern} bytes of the log are lost\.$", window.notice)
        wait_for(row(window, "Replicas", behind), "leader")
        process_of(shard, led).start()
        wait_for(main, "2 of 2 in sync")
        assert leader(shard) == behind
