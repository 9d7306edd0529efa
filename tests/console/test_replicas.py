"""A broker of two replicas in a real browser: leadership is moved, replicas come, go and are elected."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browsing import visit
from tests.console.test_cluster import PATIENCE_MS, row, site_of, told, wait_for
from tests.support.cluster_processes import ClusterProcesses, ReplicaProcess
from tests.support.stack import config_options

pytestmark = pytest.mark.cluster

SHARD = "broker-0"
THOUSANDS = re.compile(r"[1-9],\d{3}")


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """One broker of two replicas, of which one is enough."""
    folder = tmp_path_factory.mktemp("shard")
    # Who is killed is not heard of after that.
    options = (*config_options(folder, 'lease_ms = "2s"\n'), "--min-insync", "1")
    with ClusterProcesses(folder, brokers=1, proxies=1, replicas=2, broker_options=options) as running:
        yield running


def leader(cluster: ClusterProcesses) -> str:
    return next((each["name"] for each in told(cluster, SHARD)["replicas"] if each["leader"]), "")


def process_of(cluster: ClusterProcesses, name: str) -> ReplicaProcess:
    return next(each for each in cluster.replicas if each.replica == name)


def test_leadership_is_moved_and_replicas_come_and_go(browser: Browser, shard: ClusterProcesses) -> None:
    with visit(browser, site_of(shard).http) as window:
        window.go(f"/console/brokers/{SHARD}")
        main = window.page.locator("main")
        wait_for(main, "2 of 2 in sync")
        before = leader(shard)
        window.page.reload()
        assert window.violations() == []
        window.look_at({f"/console/brokers/{SHARD}/remaining": "None."})
        window.go(f"/console/brokers/{SHARD}")
        other = next(each.replica for each in shard.replicas if each.replica != before)
        window.open("Have another replica lead")
        window.page.get_by_label("Replica", exact=True).select_option(other)
        window.press("Have it lead")
        assert window.notice == f"Replica {other} was requested to lead broker {SHARD}."
        wait_for(row(window, "Replicas", other), "leader")
        wait_for(main, "2 of 2 in sync")
        assert leader(shard) == other
        window.open("Add a replica")
        window.press("Add a replica")
        assert window.notice == f"Broker {SHARD} may have 3 replicas: start the process of another one now."
        shard.add_replica(SHARD, "c", replicas=3)
        wait_for(main, "3 of 3 in sync")
        window.follow("c", exact=True)
        assert re.search(r"State\s+in sync", window.text)
        assert re.search(r"Lease until\s+20\d\d-\S+ \S+ UTC", window.text)
        window.open("Remove the replica")
        window.confirmation("replica").fill(SHARD)
        window.press("Remove the replica")
        assert "type the name, c, to confirm" in window.error
        window.open("Remove the replica")
        window.confirmation("replica").fill("c")
        window.press("Remove the replica")
        assert window.notice == f"Replica c of broker {SHARD} was removed."
        assert [each["name"] for each in told(shard, SHARD)["replicas"]] == ["a", "b"]


@pytest.mark.long  # half a minute of waiting for leases
def test_a_replica_that_is_behind_is_elected_when_one_says_so(browser: Browser, shard: ClusterProcesses) -> None:
    with visit(browser, site_of(shard).http) as window:
        window.go(f"/console/brokers/{SHARD}")
        main = window.page.locator("main")
        wait_for(main, "2 of 2 in sync")
        led = leader(shard)
        behind = next(name for name in ("a", "b") if name != led)
        process_of(shard, behind).kill9()
        wait_for(row(window, "Replicas", behind), "behind, away")
        site_of(shard).create_topic("lost")
        site_of(shard).send("lost", b"x" * 1000)
        wait_for(row(window, "Replicas", behind).get_by_role("cell").nth(2), THOUSANDS)  # of bytes behind
        process_of(shard, led).kill9()
        wait_for(main, "No heartbeat for some seconds")
        window.go(f"/console/brokers/{SHARD}/replicas/{behind}")
        window.open("Elect it although it is not in sync")
        assert "It is away: start its process first." in window.text
        process_of(shard, behind).start()
        expect(window.page.locator(".facts")).not_to_contain_text("away", timeout=PATIENCE_MS)
        window.page.reload()
        window.open("Elect it although it is not in sync")
        assert re.search(rf"At least {THOUSANDS.pattern} bytes of the log are lost", window.text)
        assert window.violations() == []
        window.confirmation("replica").fill(behind)
        window.press("Elect it")
        assert window.notice.startswith(f"Replica {behind} was elected to lead broker {SHARD}.")
        assert re.search(rf"At least {THOUSANDS.pattern} bytes of the log are lost\.$", window.notice)
        wait_for(row(window, "Replicas", behind), "leader")
        process_of(shard, led).start()
        wait_for(main, "2 of 2 in sync")
        assert leader(shard) == behind
