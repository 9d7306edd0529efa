"""The examples for clients of RocketMQ 4: each does its whole round."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.interop.programs import EXAMPLES, OUTPUT_TAIL_CHARACTERS, Programs
from tests.interop.remoting.running import Remoting, java_command

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT = 50
# The programs give up by themselves after 60 s.
RUN_TIMEOUT_S = 90
EXAMPLE_PROGRAMS = Programs("examples", EXAMPLES)


def command_of(client: str, home: Path) -> list[str]:
    if client == "go4":
        return [f"{EXAMPLE_PROGRAMS.build(client)}/program"]
    return java_command(EXAMPLE_PROGRAMS.build("java4"), client, "example.Example", home)


@pytest.mark.parametrize("client", ["java4", "java5", "go4"])
def test_an_example_sends_and_is_pushed_to(client: str, remoting: Remoting, tmp_path: Path) -> None:
    result = subprocess.run(
        [
            *command_of(client, tmp_path),
            remoting.stack.addresses["remoting"],
            f"example-{client}",
            f"group-{client}",
            str(COUNT),
        ],
        env={**os.environ, "HOME": str(tmp_path)},  # the clients write their logs there
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    errors = result.stderr[-OUTPUT_TAIL_CHARACTERS:]
    assert (result.returncode, result.stdout) == (0, f"sent {COUNT}\npushed {COUNT}\n"), errors
