"""Generated code: it is what the `.proto` files say, and it gets along with that of the official Python client."""

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


def test_the_generated_code_is_current() -> None:
    done = run("tools/generate_protos.py", "--check")
    assert (done.returncode, done.stderr) == (0, "")
