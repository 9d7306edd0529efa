"""What programs written for Apache RocketMQ notice, seen by the official Java client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import command_of, in_each
from tests.interop.programs import EXAMPLES, Programs
from tests.interop.server import Server
from tests.support.embedded import code
from tests.support.stack import Stack

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]
DIFFERENCES = Programs("differences", EXAMPLES, Path(__file__).with_name("differences"))
CASE_S = 120.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    DIFFERENCES.build("java")
    with Stack(tmp_path / "server") as stack:
        async with Server(stack, tmp_path) as server:
            yield server


async def seen(server: Server, home: Path, case: str, kind: "pb.MessageType") -> str:
    """The line that the program prints."""
    asked = admin_pb2.Topic(name=f"differences-{case}", queues=1, type=kind, mixed=case == "mixed")
    assert code(await server.client.admin("CreateTopic", topic=asked)) == "OK"
    group = await server.create_group(f"differences-{case}", fifo=kind == pb.FIFO)
    command = command_of(DIFFERENCES.build("java"), "java", home / case, name="", java_class="differences.Differences")
    program = await asyncio.create_subprocess_exec(
        *command,
        server.endpoint,
        case,
        asked.name,
        group,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(CASE_S):
        output, errors = await program.communicate()
    assert program.returncode == 0, errors.decode()[-2000:]
    return output.decode().rstrip("\n")


def check_tag(line: str) -> None:
    assert line == "received longest"


def check_delay(line: str) -> None:
    within, beyond = line.split(", ", 1)
    assert within == "done"
    assert beyond.startswith("40012 the delivery time is ")


def check_handle(line: str) -> None:
    attempts, late = line.split(", ", 1)
    assert attempts == "attempts 1 2"
    assert late.startswith("40013 ")
    assert "INVALID_RECEIPT_HANDLE" in late


def check_invisible(line: str) -> None:
    small, large, change = line.split(", ")
    assert small.startswith("40011 the invisibleTime is too small")
    assert large.startswith("40011 the invisibleTime is too large")
    assert change.startswith("40011 the invisibleTime is too large")


def check_mixed(line: str) -> None:
    assert line == "received normal ordered timed"


def check_gap(line: str) -> None:
    assert line == "0 1 2 then 0 3 4", "what was acknowledged behind a gap does not come again"


CASES: dict[str, tuple[Callable[[str], None], "pb.MessageType"]] = {
    "tag": (check_tag, pb.NORMAL),
    "delay": (check_delay, pb.DELAY),
    "handle": (check_handle, pb.NORMAL),
    "invisible": (check_invisible, pb.NORMAL),
    "mixed": (check_mixed, pb.NORMAL),
    "gap": (check_gap, pb.FIFO),
}


async def test_programs_see_what_they_see_of_apache_or_what_the_docs_say(server: Server, tmp_path: Path) -> None:
    async def check(case: str) -> None:
        checked, kind = CASES[case]
        checked(await seen(server, tmp_path, case, kind))

    await in_each(CASES, check)
