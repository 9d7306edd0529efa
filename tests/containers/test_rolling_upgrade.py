"""deploy/rolling-upgrade.sh: one container after the other under clients at work, of whom none loses a message; what is
not healthy stops it."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ternmq.blocking import Admin
from tests.cluster.load import Account, Load, Way, working
from tests.containers.compose import REPLICAS, SHARD, Stack

# The first start builds the images.
pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

BROKERS, PROXIES = ["broker-0", "broker-1"], ["proxy-0", "proxy-1"]
MEMBERS = [*BROKERS, *PROXIES]
ROLLED = re.compile(r"^rolling-upgrade\.sh: (\S+): recreated$", re.MULTILINE)


def containers(stack: Stack, services: list[str]) -> dict[str, str]:
    return {service: stack.container(service) for service in services}


@asynccontextmanager
async def at_work(stack: Stack, topic: str, home: Path) -> AsyncIterator[Load]:
    """Producers and consumers of ours, through the load balancer."""
    way = Way(endpoint=stack.endpoint, door=stack.endpoint, languages=())
    async with working(way, topic, home) as load:
        yield load


async def rolled_under_load(stack: Stack, topic: str, home: Path, roll: Callable[[], str]) -> tuple[str, Account]:
    async with at_work(stack, topic, home) as load:
        async with load.phase("upgrade"):
            said = await asyncio.to_thread(roll)
        return said, await load.finish()


def done(stack: Stack, *options: str) -> str:
    result = stack.upgraded(*options)
    assert result.returncode == 0, result.stderr
    return result.stderr


def check_account(account: Account) -> None:
    print(account)  # for those who want to see what it costs: pytest -s
    assert account.acknowledged
    assert [(group, account.missing(group)) for group in account.delivered if account.missing(group)] == []


async def test_each_container_is_made_anew_one_by_one_and_no_message_is_lost(stack: Stack, tmp_path: Path) -> None:
    before = containers(stack, MEMBERS)
    said, account = await rolled_under_load(stack, "upgraded", tmp_path, lambda: done(stack, "--all"))
    check_account(account)
    assert ROLLED.findall(said) == MEMBERS
    after = containers(stack, MEMBERS)
    assert not set(before.values()) & set(after.values())
    for broker in BROKERS:
        assert f"{broker}: new messages go to others" in said
    with Admin(stack.endpoint) as admin:
        assert [each.draining for each in admin.list_brokers() if each.name in BROKERS] == [False, False]


def test_what_has_not_changed_is_left_alone(stack: Stack) -> None:
    before = containers(stack, [*MEMBERS, "load-balancer", "postgres"])
    assert "nothing has changed" in done(stack)
    assert containers(stack, [*MEMBERS, "load-balancer", "postgres"]) == before


@pytest.mark.long
def test_one_that_does_not_get_healthy_stops_it_and_the_same_call_goes_on_when_it_is_mended(
    stack: Stack, tmp_path: Path
) -> None:
    override = tmp_path / "docker-compose.override.yml"
    settings = "services:\n" + "".join(
        f"  {broker}: {{environment: {{TERNMQ_RETENTION_MS: {{}}}}}}\n" for broker in BROKERS
    )
    override.write_text(settings.replace("{}", "nonsense"))
    before = containers(stack, MEMBERS)
    stopped = stack.upgraded("--timeout", "20", override=override)
    assert stopped.returncode == 1
    assert "stopped: broker-0 is not healthy after 20 s" in stopped.stderr
    assert "retention" in stopped.stderr  # the end of its log
    assert "Not touched: broker-1" in stopped.stderr
    assert "broker broker-0 takes no new messages now; let it take messages again" in stopped.stderr
    after = containers(stack, MEMBERS)
    assert [name for name in MEMBERS if after[name] != before[name]] == ["broker-0"]
    override.write_text(settings.replace("{}", "48h"))
    mended = stack.upgraded(override=override)
    assert mended.returncode == 0, mended.stderr
    assert ROLLED.findall(mended.stderr) == BROKERS
    with Admin(stack.endpoint) as admin:
        admin.update_broker("broker-0", draining=False)
    assert ROLLED.findall(done(stack)) == BROKERS  # the file is what it was


@pytest.mark.long
async def test_the_leader_of_a_shard_goes_last_and_each_when_all_are_in_sync(replicated: Stack, tmp_path: Path) -> None:
    stack = replicated
    with Admin(stack.endpoint) as admin:
        leader, epoch = led(admin)
        said, account = await rolled_under_load(stack, "replicated", tmp_path, lambda: done(stack, "--all"))
        check_account(account)
        order = [service for service in ROLLED.findall(said) if service in REPLICAS]
        assert sorted(order) == REPLICAS
        assert order[-1] == f"replica-{leader}"
        successor, later = led(admin)
        assert (successor != leader, later > epoch) == (True, True)


def led(admin: Admin) -> tuple[str, int]:
    """Who leads, and since which epoch, when all replicas are in sync."""
    (shard,) = (each for each in admin.list_brokers() if each.name == SHARD)
    assert sum(each.in_sync for each in shard.replicas) == len(REPLICAS)
    assert shard.leader is not None
    return shard.leader.name, shard.epoch


def test_without_containers_it_says_so() -> None:
    """Of another project; nothing is made."""
    nothing = Stack()
    stopped = nothing.upgraded()
    assert stopped.returncode == 1
    assert "no container of this project is there" in stopped.stderr
    assert nothing.containers() == []
