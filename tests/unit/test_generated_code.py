"""Generated code: it is what its sources say, and the protocol's gets along with that of the official Python client."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
OURS = "from ternmq_protos.v2 import admin_pb2, definition_pb2, service_pb2"
THEIRS = "from rocketmq.grpc_protocol import admin_pb2, definition_pb2, service_pb2"
# Both classes stand for the same message of the protocol, each in its own pool.
EXCHANGE = """
from rocketmq.grpc_protocol import service_pb2 as theirs
from ternmq_protos.v2 import service_pb2 as ours
sent = theirs.QueryRouteRequest()
sent.topic.name = "orders"
received = ours.QueryRouteRequest.FromString(sent.SerializeToString())
assert received.topic.name == "orders"
assert type(received) is not type(sent)
assert received.DESCRIPTOR.full_name == sent.DESCRIPTOR.full_name
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize("imports", [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours first", "theirs first"])
def test_the_official_clients_code_and_ours_live_in_one_interpreter(imports: tuple[str, str]) -> None:
    done = run("-c", "\n".join((*imports, EXCHANGE)))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "tool", ["generate_protos.py", "generate_remote_shard.py", "generate_admin.py", "generate_blocking.py"]
)
def test_the_generated_code_is_current(tool: str) -> None:
    done = run(f"tools/{tool}", "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_blocking_client_that_is_behind_its_source_is_found_and_made_anew(tmp_path: Path) -> None:
    for path in ("tools/generate_blocking.py", "pyproject.toml"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    package = tmp_path / "clients/python/ternmq"
    shutil.copytree(ROOT / "clients/python/ternmq", package)
    with (package / "consuming/simple_consumer.py").open("a") as source:
        source.write(
            '    async def drop(self, view: MessageView, *, why: str = "") -> int:\n        """It is dropped."""\n'
        )
    tool = str(tmp_path / "tools/generate_blocking.py")
    behind = run(tool, "--check")
    assert behind.returncode == 1
    assert behind.stderr == "stale: clients/python/ternmq/blocking.py; run python tools/generate_blocking.py\n"
    assert run(tool).returncode == run(tool, "--check").returncode == 0
    made = (package / "blocking.py").read_text()
    assert (
        '    def drop(self, view: MessageView, *, why: str = "") -> int:\n'
        '        """It is dropped."""\n'
        "        return run_and_wait(self._client.drop(view, why=why))\n"
    ) in made
