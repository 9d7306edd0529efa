"""Programs that use the official clients, each built once in the user's cache folder, so that only the first is slow.
One that was built of the same sources by the same tools is not built again: another process may be running it.

A missing toolchain is a failure; what to install says `tests/interop/install_toolchains.sh`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.maven import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).parents[2] / "clients" / "examples"
# Ends what hangs: a cold build beside other tiers takes many minutes.
BUILD_TIMEOUT_S = 3000
OUTPUT_TAIL_CHARACTERS = 3000
# What a build in the repository may have left there is not for one in the cache folder.
LEFTOVERS = shutil.ignore_patterns("target", "node_modules", "venv", "__pycache__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """The tools that must be there, and the commands that build the program of a folder, in that folder."""

    tools: tuple[str, ...]
    commands: Callable[[Path], list[list[str]]]


# Programs of Rust share a folder for their dependencies, which are most of the work. The lock keeps its `example` for
# one build at a time, which begins without that of another program: Cargo takes both for the same. Without
# optimization a build takes a third of the time; tests do not measure these programs.
_RUST_SHARED = cache_folder() / "rust-target"
_RUST_LOCK = str(cache_folder() / "rust-target.lock")
_RUST_BUILD = (
    f"export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_TARGET_DIR='{_RUST_SHARED}'"
    " && cargo clean --release --locked --quiet --package example && cargo build --release --locked --quiet"
    f" && install -D '{_RUST_SHARED}/release/example' target/release/example"
)
TOOLCHAINS = {
    "go": Toolchain(tools=("go",), commands=lambda folder: [["go", "build", "-o", "program", "."]]),
    # The programs that the module names as tools.
    "go-tools": Toolchain(tools=("go",), commands=lambda folder: [["go", "build", "-o", "bin/", "tool"]]),
    "java": Toolchain(tools=("java", "mvn"), commands=lambda folder: [["mvn", "--batch-mode", "--quiet", "package"]]),
    "node": Toolchain(tools=("node", "npm"), commands=lambda folder: [["npm", "ci", "--no-audit", "--no-fund"]]),
    "python": Toolchain(
        tools=(),
        commands=lambda folder: [
            [sys.executable, "-m", "venv", "venv"],
            [f"{folder}/venv/bin/pip", "install", "--quiet", "--requirement", "requirements.txt"],
        ],
    ),
    "rust": Toolchain(tools=("cargo",), commands=lambda folder: [["flock", _RUST_LOCK, "bash", "-c", _RUST_BUILD]]),
}


TOOLCHAINS |= {f"{language}4": TOOLCHAINS[language] for language in ("go", "java", "node", "python")}


class Programs:
    """One program in several languages; each is built when it is first asked for, in the test that needs it.

    A program's sources are what the folders of its language in `sources` hold, the later ones laid over the earlier.
    """

    def __init__(self, name: str, *sources: Path) -> None:
        self._folder, self._sources = cache_folder() / name, sources
        self._built = set[str]()

    def build(self, language: str) -> Path:
        """The folder in which the program of `language` is built."""
        folder = self._folder / language
        if language not in self._built:
            folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / f"{language}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._build(language, folder)
            self._built.add(language)
        return folder

    def _build(self, language: str, folder: Path) -> None:
        toolchain = TOOLCHAINS[language]
        missing = [tool for tool in toolchain.tools if shutil.which(tool) is None]
        if missing:
            pytest.fail(f"{', '.join(missing)} missing: run tests/interop/install_toolchains.sh")
        commands, stamp = toolchain.commands(folder), self._folder / f"{language}.built"
        made_of = self._digest(language, [*map(str, map(shutil.which, toolchain.tools)), repr(commands)])
        if stamp.exists() and stamp.read_text() == made_of and any(folder.iterdir()):
            return
        stamp.unlink(missing_ok=True)
        for source in self._sources:
            shutil.copytree(source / language, folder, ignore=LEFTOVERS, dirs_exist_ok=True)
        for command in commands:
            _run(command, folder)
        stamp.write_text(made_of)

    def _digest(self, language: str, tools: list[str]) -> str:
        """Of what a program is built of, and by which tools."""
        digest = hashlib.sha256("\n".join(tools).encode())
        for source in self._sources:
            for folder, folders, names in os.walk(source / language):
                folders[:] = sorted(set(folders) - LEFTOVERS(folder, folders))
                for name in sorted(names):
                    path = Path(folder, name)
                    digest.update(f"{path.relative_to(source)}\n".encode() + path.read_bytes())
        return digest.hexdigest()


def _run(command: list[str], folder: Path) -> None:
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
