"""What docs/backup.md tells to do is done, word by word: backups are taken, things are lost, and come back."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.watching import consumed, eventually, in_routes, sent_code, serving, stored
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs" / "backup.md"
SECTION = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```\n(.*?)^```", re.DOTALL | re.MULTILINE)
WITHIN_S = 20.0


def blocks(section: str) -> list[str]:
    return BLOCK.findall(dict(SECTION.findall(PAGE.read_text()))[section])


class Shell:
    """Runs blocks of the page, whose folders are those of the test."""

    def __init__(self, cluster: ClusterProcesses, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        (folder / "backups").mkdir()
        program = folder / "bin" / "ternmq"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ternmq_command.main "$@"\n')
        program.chmod(0o700)
        (folder / "data-0").symlink_to(cluster.brokers[0].data)

    def run(self, block: str) -> str:
        environ = {
            **os.environ,
            "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}",
            "TERNMQ_REGISTRY": self._cluster.registry_url,
            "TERNMQ_ENDPOINT": self._cluster.proxies[0].grpc,
        }
        text = block.replace("/backups", str(self._folder / "backups"))
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=self._folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def lose_registry(self) -> None:
        self._cluster.postgres.execute("DROP SCHEMA public CASCADE")
        self._cluster.postgres.execute("CREATE SCHEMA public")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path / "cluster", brokers=1, proxies=1) as processes:
        yield processes


async def filled(client: RawClient) -> None:
    """A topic with three messages, of which one is consumed."""
    await client.create_topic("orders", queues=1)
    await in_routes([client], "orders", {"broker-0"}, within_s=WITHIN_S)
    for number in range(3):
        await client.send("orders", b"%d" % number)
    assert await consumed(client, "orders", "billing", 1)


async def takes_messages(client: RawClient) -> None:
    async def is_taken() -> bool:
        return (await sent_code(client, "orders", b"again"))[0] == "OK"

    await eventually(is_taken, within_s=WITHIN_S, what="messages are taken")


async def known_again(client: RawClient) -> None:
    async def is_known() -> bool:
        return (await sent_code(client, "made-now"))[0] == "OK"

    await eventually(is_known, within_s=WITHIN_S, what="the registry takes changes")


async def test_a_dump_brings_the_registry_back(cluster: ClusterProcesses, client: RawClient, tmp_path: Path) -> None:
    shell = Shell(cluster, tmp_path)
    await filled(client)
    [take] = blocks("Take a backup")
    shell.run(take)
    shell.lose_registry()
    shell.run(blocks("The registry is lost")[0])
    await known_again(client)
    await takes_messages(client)
    assert (await stored(client, "orders")) == {"broker-0": 4}
    assert sorted(await consumed(client, "orders", "billing", 1))
    assert {each.process.poll() for each in (*cluster.brokers, *cluster.proxies)} == {None}


async def test_an_export_and_the_stores_make_it_again(
    cluster: ClusterProcesses, client: RawClient, tmp_path: Path
) -> None:
    shell, [broker] = Shell(cluster, tmp_path), cluster.brokers
    await filled(client)
    shell.run(blocks("Take a backup")[0])
    await client.create_topic("later", queues=3)  # not in the export
    await in_routes([client], "later", {"broker-0"}, within_s=WITHIN_S)
    await client.send("later", b"kept")
    shell.lose_registry()
    _, anew, rebuild = blocks("The registry is lost")
    migrate, apply = anew.splitlines()
    shell.run(migrate)
    await serving(client, cluster.brokers)  # it has registered by itself
    shell.run(apply)
    await takes_messages(client)
    assert (await stored(client, "orders")) == {"broker-0": 4}
    broker.terminate()
    assert "later" in shell.run(rebuild)
    broker.start()
    await in_routes([client], "later", {"broker-0"}, within_s=WITHIN_S)
    await serving(client, cluster.brokers)
    assert await consumed(client, "later", "readers", 1) == [b"kept"]


async def test_a_broker_comes_back_from_its_backup(
    cluster: ClusterProcesses, client: RawClient, tmp_path: Path
) -> None:
    shell, [broker] = Shell(cluster, tmp_path), cluster.brokers
    await filled(client)
    shell.run(blocks("Take a backup")[0])
    broker.kill9()
    restore, start = blocks("A broker's data is lost")[0].splitlines()
    shell.run(restore)
    address = broker.addresses["storage"]
    words = shlex.split(
        start.removesuffix("&").replace("127.0.0.1:10911", address).replace("127.0.0.1:8090", "127.0.0.1:0")
    )
    command = [sys.executable, "-m", "ternmq_command.main", *words[1:], "--registry", cluster.registry_url]
    restored = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE)
    try:
        assert restored.stdout is not None
        assert (await restored.stdout.readline()).startswith(b"ready ")
        await takes_messages(client)
        assert (await stored(client, "orders")) == {"broker-0": 4}
    finally:
        restored.terminate()
        assert await restored.wait() == 0
