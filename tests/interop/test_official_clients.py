"""The official clients of five languages, unmodified: each builds its example, and each example does its whole round.

Builds happen in the user's cache folder, so that only the first run is slow. A missing toolchain is a failure; what to
install says `tests/interop/install_toolchains.sh`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.apache_rocketmq import ApacheRocketMQ, cache_folder
from tests.support.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "clients" / "examples"
COUNT = 50
TOPIC = "TopicTest"
BUILD_TIMEOUT_S = 800
# The programs give up by themselves after 60 s.
RUN_TIMEOUT_S = 90
OUTPUT_TAIL_CHARACTERS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How to build and start the example of one language, in the folder it was copied to."""

    tools: tuple[str, ...]
    build: Callable[[Path], list[list[str]]]
    start: Callable[[Path, Path], list[str]]
    pushed: str = str(COUNT)


CLIENTS = {
    "go": Client(
        tools=("go",),
        build=lambda folder: [["go", "build", "-o", "example", "."]],
        start=lambda folder, home: [f"{folder}/example"],
    ),
    "java": Client(
        tools=("java", "mvn"),
        build=lambda folder: [["mvn", "--batch-mode", "--quiet", "package"]],
        # Java takes the home folder from the user database, not from the environment.
        start=lambda folder, home: ["java", f"-Duser.home={home}", "-jar", f"{folder}/target/example.jar"],
    ),
    "node": Client(
        tools=("node", "npm"),
        build=lambda folder: [["npm", "ci", "--no-audit", "--no-fund"]],
        start=lambda folder, home: ["node", f"{folder}/example.mjs"],
    ),
    "python": Client(
        tools=(),
        build=lambda folder: [
            [sys.executable, "-m", "venv", "venv"],
            [f"{folder}/venv/bin/pip", "install", "--quiet", "--requirement", "requirements.txt"],
        ],
        start=lambda folder, home: [f"{folder}/venv/bin/python", f"{folder}/example.py"],
    ),
    "rust": Client(
        tools=("cargo",),
        build=lambda folder: [["cargo", "build", "--release", "--locked", "--quiet"]],
        start=lambda folder, home: [f"{folder}/target/release/example"],
        pushed="unsupported: rocketmq 5.0.0 has no push consumer",
    ),
}


class Programs:
    """The built examples; each is built when it is first asked for, in the test that needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._built = folder, set[str]()

    def build(self, language: str) -> Path:
        """The folder in which the example of `language` is built."""
        folder = self._folder / language
        if language not in self._built:
            folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / f"{language}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                _build(language, folder)
            self._built.add(language)
        return folder

    def round(self, language: str, *, endpoint: str, topic: str, home: Path) -> None:
        """Let the example do its round against `endpoint` and check what it printed."""
        folder, client = self.build(language), CLIENTS[language]
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
            self.build(language)
        with ThreadPoolExecutor(len(CLIENTS)) as pool:
            runs = [
                pool.submit(self.round, language, endpoint=endpoint, topic=topic, home=home / language)
                for language in CLIENTS
            ]
        for run in runs:
            run.result()


def _build(language: str, folder: Path) -> None:
    client = CLIENTS[language]
    missing = [tool for tool in client.tools if shutil.which(tool) is None]
    if missing:
        pytest.fail(f"{', '.join(missing)} missing: run tests/interop/install_toolchains.sh")
    # What a build in the repository may have left there is not for this one.
    leftovers = shutil.ignore_patterns("target", "node_modules", "venv", "__pycache__")
    shutil.copytree(EXAMPLES / language, folder, ignore=leftovers, dirs_exist_ok=True)
    for command in client.build(folder):
        result = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if result.returncode != 0:
            pytest.fail(f"{' '.join(command)} failed:\n{result.stdout[-OUTPUT_TAIL_CHARACTERS:]}")


def group_of(language: str) -> str:
    """The group of the simple consumer; the push consumer's has `-push` after it."""
    return f"example-{language}"


@pytest.fixture(scope="session")
def programs() -> Programs:
    return Programs(cache_folder() / "examples")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path / "server") as server:
        yield server


@pytest.mark.parametrize("language", CLIENTS)
def test_an_official_client_sends_receives_acks_and_is_pushed_to(
    language: str, programs: Programs, stack: Stack, tmp_path: Path
) -> None:
    programs.round(language, endpoint=stack.grpc, topic=TOPIC, home=tmp_path / "home")


def test_the_official_clients_share_a_topic(programs: Programs, stack: Stack, tmp_path: Path) -> None:
    programs.rounds(endpoint=stack.grpc, topic=TOPIC, home=tmp_path / "home")


def test_the_examples_do_the_same_with_apache_rocketmq(programs: Programs, tmp_path: Path) -> None:
    with ApacheRocketMQ() as peer:
        peer.create_topic(TOPIC)
        simple_groups = [group_of(language) for language in CLIENTS]
        peer.create_groups([*simple_groups, *(f"{group}-push" for group in simple_groups)])
        programs.rounds(endpoint=peer.endpoint, topic=TOPIC, home=tmp_path / "home")
