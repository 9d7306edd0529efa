"""Runs the load generator: builds it when its sources have changed, and starts one process for each run."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.bench.processes import cpu_s, pinned
from ternmq import Credentials
from tests.support.maven import cache_folder

SOURCES = Path(__file__).parents[1] / "loader"
BUILD_TIMEOUT_S = 900
NATS_SERVER = "nats-server"
# The variable in which the load generator gets the secret of `-access-key`.
SECRET_VARIABLE = "LOADER_SECRET"
Figures = dict[str, Any]


class LoadFailed(Exception):
    """The load generator could not be built, or could not run."""


@dataclass(frozen=True, slots=True)
class WayIn:
    """How the load generator connects: by TLS if there is a CA, with signed calls if there are credentials."""

    ca: Path | None = None
    credentials: Credentials | None = None

    def options(self) -> tuple[str, ...]:
        tls = ("-tls-ca", str(self.ca)) if self.ca else ()
        return (*tls, *(("-access-key", self.credentials.access_key) if self.credentials else ()))

    def environment(self) -> dict[str, str]:
        return {SECRET_VARIABLE: self.credentials.secret_key} if self.credentials else {}


PLAIN = WayIn()


@dataclass(frozen=True, slots=True)
class Run:
    """The output of the load generator, and processor seconds of the server from its begin to its last answer."""

    figures: Figures
    server_cpu_s: float

    @property
    def seconds(self) -> float:
        return float(self.figures["seconds"])

    @property
    def loader_share(self) -> float:
        """The share of a core that the load generator itself used."""
        return float(self.figures["loader_cpu_s"]) / self.seconds


def missing_go() -> str | None:
    """Return why nothing can be built in Go; None if it can."""
    if shutil.which("go") is None:
        return "Go is missing; tests/interop/install_toolchains.sh installs it"
    return None


def build_loader() -> Path:
    """Build the load generator; return its path."""
    return _built() / "loader"


def build_nats_server() -> Path:
    """Build NATS' server, in the version that the load generator's module names; return its path."""
    return _built() / NATS_SERVER


@cache
def _built() -> Path:
    """Build both programs; return their folder. A folder that exists is complete."""
    if reason := missing_go():
        raise LoadFailed(reason)
    folder = cache_folder() / "loader" / _fingerprint()
    if not folder.is_dir():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        making.mkdir(parents=True)
        # A folder with a slash: programs go into it under their own names.
        _go("build", "-trimpath", "-o", f"{making}/loader", ".")
        _go("build", "-trimpath", "-o", f"{making}/", "tool")
        # Of two builds at the same time the first rename wins; both folders hold the same programs.
        with contextlib.suppress(OSError):
            making.rename(folder)
    return folder


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for source in sorted((*SOURCES.glob("*.go"), *SOURCES.glob("go.*"))):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _go(*arguments: str) -> None:
    command = ["go", *arguments]
    result = subprocess.run(
        command,
        cwd=SOURCES,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if result.returncode != 0:
        raise LoadFailed(f"{' '.join(command)} failed:\n{result.stdout}")


def run(
    work: str, endpoint: str, *options: object, pids: Collection[int], cores: Collection[int], way_in: WayIn = PLAIN
) -> Run:
    """Run a work once; its cost is counted for the processes `pids`."""
    with held(work, endpoint, *options, cores=cores, way_in=way_in) as process:
        before = cpu_s(pids)
        figures = figures_of(process)
        return Run(figures, cpu_s(pids) - before)


@contextlib.contextmanager
def held(
    work: str, endpoint: str, *options: object, cores: Collection[int], way_in: WayIn = PLAIN
) -> Iterator["subprocess.Popen[str]"]:
    """Start the load generator, connected and about to begin; it disconnects at the end of the `with` block."""
    command = [str(build_loader()), work, "-endpoint", endpoint, "-paced", *way_in.options(), *map(str, options)]
    with (
        pinned(cores),
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **way_in.environment()},
        ) as process,
    ):
        try:
            _await_ready(process)
            yield process
        except BaseException:
            process.kill()
            raise


def _await_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise _failed(process)


def figures_of(process: "subprocess.Popen[str]") -> Figures:
    """Begin a load that is `held`, wait for its end, and return its figures."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise _failed(process)
    figures: Figures = json.loads(line)
    return figures


def _failed(process: "subprocess.Popen[str]") -> LoadFailed:
    assert process.stderr is not None
    process.kill()
    return LoadFailed(f"{process.args!r}: {process.stderr.read()}")
