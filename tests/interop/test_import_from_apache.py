"""`ternmq import rocketmq` reads a real Apache RocketMQ with access control, and creates what it has."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.interop.guarded.apache import GuardedApacheRocketMQ
from tests.support.stack import Stack

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

ROOT, ROOT_SECRET = "root", "the-secret-of-root"
SECRET = "the-secret-of-a-client"


async def run_command(*words: str) -> tuple[str, str]:
    keys = {"ROCKETMQ_ACCESS_KEY": ROOT, "ROCKETMQ_SECRET_KEY": ROOT_SECRET}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ternmq_command.main", *words),
        env=keys,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, (words, errors)
    return output.decode(), errors.decode()


async def test_topics_groups_and_users_of_a_real_cluster_are_created(tmp_path: Path) -> None:
    with GuardedApacheRocketMQ(None, super_user=(ROOT, ROOT_SECRET)) as peer, Stack(tmp_path / "server") as stack:
        for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"):
            peer.create_topic(f"topic-{kind.lower()}", kind, queues=6)
        peer.admin("updateTopic", "-t", "topic-plain", "-r", "3", "-w", "3", "-p", "4")
        peer.create_groups(["group-plain"])
        peer.create_groups(["group-fifo"], ordered=True)
        peer.create_user("client", SECRET, "Topic:topic-*", "Group:*")
        source = ("--namesrv", peer.namesrv_address)
        planned, notes = await run_command("import", "rocketmq", *source, "--endpoint", stack.grpc)
        assert "nothing was changed" in notes
        assert SECRET not in planned + notes
        await run_command("import", "rocketmq", *source, "--endpoint", stack.grpc, "--yes")
        exported = yaml.safe_load((await run_command("export", "--endpoint", stack.grpc))[0])
        topics = {each["name"]: each for each in exported["topics"]}
        groups = {each["name"]: each for each in exported["groups"]}
        users = {each["name"]: each for each in exported["users"]}
        assert {name: (each["type"], each["queues"], each["permission"]) for name, each in topics.items()} == {
            "topic-normal": ("normal", 6, "read-write"),
            "topic-fifo": ("fifo", 6, "read-write"),
            "topic-delay": ("delay", 6, "read-write"),
            "topic-transaction": ("transaction", 6, "read-write"),
            # Without a type, clients of 4.x send what they like.
            "topic-plain": ("mixed", 3, "read"),
        }
        assert {name: (each["fifo"], each["max_attempts"]) for name, each in groups.items()} == {
            "group-plain": (False, 17),
            "group-fifo": (True, 17),
        }
        assert users["client"]["policies"] == [
            {"allow": "Group:*", "actions": "Pub,Sub"},
            {"allow": "Topic:topic-*", "actions": "Pub,Sub"},
        ]
        again, _ = await run_command("import", "rocketmq", *source, "--endpoint", stack.grpc)
        assert again == "nothing to do\n"
