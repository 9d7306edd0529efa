"""The cluster that docs/cluster.md tells to start by hand comes up, and does what stands there."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.postgres import Postgres

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Postgres]:
    with Postgres(tmp_path) as running:
        yield running


def test_the_cluster_by_hand(postgres: Postgres, tmp_path: Path) -> None:
    (block,) = [text for text in BLOCK.findall(PAGE.read_text()) if "ternmq registry migrate" in text]
    ports: dict[str, int] = {}

    def free(address: "re.Match[str]") -> str:
        return f"127.0.0.1:{ports.setdefault(address[1], free_port())}"

    environ = {**os.environ, "TERNMQ_REGISTRY": postgres.url}
    printed = ""
    with ExitStack() as started:
        for line in block.splitlines():
            if line.startswith("export "):
                continue  # the test has a database of its own
            words = shlex.split(ADDRESS.sub(free, line), comments=True)
            if "8081" in ports:
                environ["TERNMQ_ENDPOINT"] = f"127.0.0.1:{ports['8081']}"
            command = [sys.executable, "-m", "ternmq_command.main", *words[1:]]
            if words[-1] == "&":
                server = subprocess.Popen(command[:-1], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True)
                started.callback(server.wait)
                started.callback(server.terminate)
                assert server.stdout is not None
                started.callback(server.stdout.close)
                assert server.stdout.readline().startswith("ready "), line
                continue
            done = subprocess.run(
                command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            printed += done.stdout
    assert "broker-0" in printed
    assert "broker-1" in printed
