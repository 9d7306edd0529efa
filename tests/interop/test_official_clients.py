"""The official clients of five languages, unmodified: each has its example do its whole round."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.interop.apache_rocketmq import ApacheRocketMQ
from tests.interop.programs import EXAMPLES, OUTPUT_TAIL_CHARACTERS, Programs
from tests.support.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT = 50
TOPIC = "TopicTest"
# The programs give up by themselves after 60 s.
RUN_TIMEOUT_S = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How to start the example of one language in the folder of its build, and what it says of pushed messages."""

    start: Callable[[Path, Path], list[str]]
    pushed: str = str(COUNT)


CLIENTS = {
    "go": Client(start=lambda folder, home: [f"{folder}/program"]),
    # Java takes the home folder from the user database, not from the environment.
    "java": Client(start=lambda folder, home: ["java", f"-Duser.home={home}", "-jar", f"{folder}/target/example.jar"]),
    "node": Client(start=lambda folder, home: ["node", f"{folder}/example.mjs"]),
    "python": Client(start=lambda folder, home: [f"{folder}/venv/bin/python", f"{folder}/example.py"]),
    "rust": Client(
        start=lambda folder, home: [f"{folder}/target/release/example"],
        pushed="unsupported: rocketmq 5.0.0 has no push consumer",
    ),
}


class Examples:
    """The examples of all languages, and their rounds."""

    def __init__(self) -> None:
        self._programs = Programs("examples", EXAMPLES)

    def round(self, language: str, *, endpoint: str, topic: str, home: Path) -> None:
        """Let the example do its round against `endpoint` and check what it printed."""
        folder, client = self._programs.build(language), CLIENTS[language]
        home.mkdir(parents=True, exist_ok=True)
        result = subprocess.run(
            [*client.start(folder, home), endpoint, topic, group_of(language), str(COUNT)],
            env={**os.environ, "HOME": str(home)},  # the clients write their logs there
            cwd=home,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        expected = f"sent {COUNT}\nreceived {COUNT}\nacked {COUNT}\npushed {client.pushed}\n"
        errors = result.stderr[-OUTPUT_TAIL_CHARACTERS:]
        assert (result.returncode, result.stdout) == (0, expected), f"{language} said:\n{errors}"

    def rounds(self, *, endpoint: str, topic: str, home: Path) -> None:
        """All examples at the same time on one topic, each with groups of its own."""
        for language in CLIENTS:
            self._programs.build(language)
        with ThreadPoolExecutor(len(CLIENTS)) as pool:
            runs = [
                pool.submit(self.round, language, endpoint=endpoint, topic=topic, home=home / language)
                for language in CLIENTS
            ]
        for run in runs:
            run.result()


def group_of(language: str) -> str:
    """The group of the simple consumer; the push consumer's has `-push` after it."""
    return f"example-{language}"


@pytest.fixture(scope="session")
def examples() -> Examples:
    return Examples()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path / "server") as server:
        yield server


@pytest.mark.parametrize("language", CLIENTS)
def test_an_official_client_sends_receives_acks_and_is_pushed_to(
    language: str, examples: Examples, stack: Stack, tmp_path: Path
) -> None:
    examples.round(language, endpoint=stack.grpc, topic=TOPIC, home=tmp_path / "home")


def test_the_official_clients_share_a_topic(examples: Examples, stack: Stack, tmp_path: Path) -> None:
    examples.rounds(endpoint=stack.grpc, topic=TOPIC, home=tmp_path / "home")


@pytest.mark.long
def test_the_examples_do_the_same_with_apache_rocketmq(examples: Examples, tmp_path: Path) -> None:
    with ApacheRocketMQ() as peer:
        peer.create_topic(TOPIC)
        simple_groups = [group_of(language) for language in CLIENTS]
        peer.create_groups([*simple_groups, *(f"{group}-push" for group in simple_groups)])
        examples.rounds(endpoint=peer.endpoint, topic=TOPIC, home=tmp_path / "home")
