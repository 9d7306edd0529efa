"""The registry's password is changed under a cluster that runs: no process is started anew, and no message waits."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.cluster.watching import (
    broker_names,
    clients_of,
    command,
    consumed,
    eventually,
    health,
    in_routes,
    send_each,
    sent_code,
    serving,
)
from tests.support.cluster_processes import BrokerProcess, MemberProcess, ProxyProcess, empty_registry
from tests.support.embedded import RawClient
from tests.support.postgres import GUARDED, Postgres
from tests.support.stack import config_options

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FIRST, SECOND = "first-of-the-secrets", "second-of-the-secrets"
HEALED_WITHIN_S = 20.0
SETTINGS = 'lease_ms = "1s"\n'


@dataclass(frozen=True)
class Guarded:
    """A broker and a proxy, whose registry wants the password that is in the file."""

    postgres: Postgres
    file: Path
    broker: BrokerProcess
    proxy: ProxyProcess

    @property
    def members(self) -> tuple[MemberProcess, ...]:
        return self.broker, self.proxy


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    file = tmp_path / "password"
    file.write_text(f"{FIRST}\n")
    with Postgres(tmp_path, holds=empty_registry()) as postgres:
        postgres.guard(FIRST)
        url, password = postgres.url_of("postgres", GUARDED), ("--registry-password-file", str(file))
        with (
            BrokerProcess(tmp_path / "b", "broker-0", url, *password, *config_options(tmp_path, SETTINGS)) as broker,
            ProxyProcess(tmp_path / "p", "proxy-0", url, *password) as proxy,
        ):
            yield Guarded(postgres, file, broker, proxy)


@pytest.fixture
async def client(guarded: Guarded) -> AsyncIterator[RawClient]:
    async with clients_of([guarded.proxy]) as [raw]:
        await serving(raw, [guarded.broker])
        yield raw


async def said(member: MemberProcess, what: str) -> None:
    async def is_said() -> bool:
        return what in member.log.read_text()

    await eventually(is_said, within_s=HEALED_WITHIN_S, what=f"{member.name} has said: {what}")


async def test_a_password_is_changed_without_a_restart(guarded: Guarded, client: RawClient) -> None:
    topic = await client.create_topic("orders", queues=1)
    await in_routes([client], topic, {"broker-0"}, within_s=HEALED_WITHIN_S)
    await send_each(client, topic, b"0")
    assert await consumed(client, topic, "readers", 1) == [b"0"]  # topic and group are known to the broker
    guarded.postgres.guard(SECOND)
    assert guarded.postgres.cut_guarded() > 1
    # Whoever is first, the database or the file: as long as they differ it is as if the registry was out.
    refused, text = await sent_code(client, "made-by-its-use")
    assert refused == "HA_NOT_AVAILABLE"
    assert "password authentication failed" in text
    await send_each(client, topic, b"1", b"2")
    assert sorted(await consumed(client, topic, "readers", 2)) == [b"1", b"2"]
    await said(guarded.broker, "the lease can't be renewed: ")
    guarded.file.write_text(f"{SECOND}\n")

    async def is_back() -> bool:
        return (await sent_code(client, "made-by-its-use"))[0] == "OK"

    await eventually(is_back, within_s=HEALED_WITHIN_S, what="the registry takes changes with the new password")

    await said(guarded.broker, "the lease is renewed again")
    assert await broker_names(client) == {"broker-0"}
    for member in guarded.members:
        assert (await health(member, "ready"))[0] == 200
        assert member.process.poll() is None


async def test_nobody_sees_a_password(guarded: Guarded) -> None:
    guarded.postgres.guard(SECOND)
    guarded.postgres.cut_guarded()
    url, file = guarded.postgres.url_of("postgres", GUARDED), str(guarded.file)
    registry = ("--registry", url, "--registry-password-file", file)
    told = await command(guarded.proxy, "doctor", *registry)
    assert "password authentication failed" in told.stdout
    guarded.file.write_text(SECOND)
    told = await command(guarded.proxy, "doctor", *registry)
    assert "ok       registry" in told.stdout
    shown = [told.stdout, told.stderr]
    for member in guarded.members:
        process = psutil.Process(member.process.pid)
        shown += [member.log.read_text(), " ".join(process.cmdline()), str(process.environ())]
        shown += [(await health(member, "ready"))[1]]
    assert not [each for each in shown if FIRST in each or SECOND in each]
    assert await asyncio.to_thread(guarded.broker.terminate) == 0
