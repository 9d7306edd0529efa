"""The stack of docker-compose.yml, under a name and on ports of its own."""

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
GUARDED_FILE = ROOT / "docker-compose.guarded.yml"
QUICK_FILE = Path(__file__).with_name("quick.yml")
PORTS = ("GRPC_PORT", "REMOTING_PORT", "SPARK_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
OBSERVABILITY, PIPELINE, REPLICATED = "observability", "pipeline", "replicated"
PROFILES = (OBSERVABILITY, PIPELINE, REPLICATED)
SHARD, REPLICAS = "shard-0", ["replica-a", "replica-b", "replica-c"]
BUILD_TIMEOUT_S, UP_TIMEOUT_S, HEALTHY_TIMEOUT_S = 800, 240, 90
UPGRADE_TIMEOUT_S = 400


def docker(*arguments: str, timeout_s: float = 60) -> str:
    return _output(["docker", *arguments], timeout_s)


def inspected(container: str) -> dict[str, Any]:
    """What the engine knows of a container or an image."""
    known: dict[str, Any] = json.loads(docker("inspect", container))[0]
    return known


def described(file: Path = COMPOSE_FILE) -> dict[str, dict[str, Any]]:
    """The services as the file describes them."""
    services: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text())["services"]
    return services


def composer() -> list[str]:
    """Debian's docker-compose if it is there, else the plugin of the client."""
    if shutil.which("docker-compose") is not None:
        return ["docker-compose"]
    if shutil.which("docker") is None:
        pytest.fail("docker is missing: run these tests by tests/containers/with_docker.sh, as tools/check does")
    return ["docker", "compose"]


class Stack:
    """Started by `with`; at the end nothing of it is left, its volumes included."""

    def __init__(self, *files: Path, services: Sequence[str] = ()) -> None:
        """`files` are laid over docker-compose.yml; `services` are those that are built and started, none: all."""
        self._files = (COMPOSE_FILE, *files, QUICK_FILE)
        self._services = services
        self.project = f"ternmq-tests-{secrets.token_hex(4)}"
        self.ports = {name: free_port() for name in PORTS}

    @property
    def endpoint(self) -> str:
        """The load balancer's, for clients."""
        return f"127.0.0.1:{self.ports['GRPC_PORT']}"

    @property
    def remoting(self) -> str:
        """The load balancer's, for clients of RocketMQ 4."""
        return f"127.0.0.1:{self.ports['REMOTING_PORT']}"

    def __enter__(self) -> Self:
        try:
            self.compose("build", *self._services, timeout_s=BUILD_TIMEOUT_S)
            self.up(*self._services)
        except BaseException as error:
            error.add_note(self.logs())
            self.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self, *services: str, profile: str | None = None) -> None:
        """Return when the services are started, with all those that they depend on, and these are healthy."""
        profiles = () if profile is None else ("--profile", profile)
        self.compose(*profiles, "up", "--detach", *services, timeout_s=UP_TIMEOUT_S)

    def down(self) -> None:
        profiles = [word for profile in PROFILES for word in ("--profile", profile)]
        self.compose(*profiles, "down", "--volumes", "--remove-orphans", timeout_s=120)
        of_project = ("--quiet", "--filter", f"label=com.docker.compose.project={self.project}")
        left = [docker("volume", "ls", *of_project), docker("network", "ls", *of_project)]
        assert (self.containers(), *left) == ([], "", ""), "the end leaves nothing"

    def compose(self, *arguments: str, timeout_s: float = 60) -> str:
        return _output(self._command(arguments), timeout_s, self._variables())

    @contextmanager
    def begun(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Compose at work, with all that it says in one pipe; killed at the end if it isn't done."""
        with subprocess.Popen(
            self._command(arguments),
            env={**os.environ, **self._variables()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def upgraded(self, *options: str, override: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """deploy/rolling-upgrade.sh, with the images that there are; `override` is laid over the files, as by a release
        that changes them."""
        files = (*self._files, *(() if override is None else (override,)))
        variables = {"COMPOSE_FILE": os.pathsep.join(map(str, files)), "COMPOSE_PROJECT_NAME": self.project}
        return subprocess.run(
            [str(ROOT / "deploy/rolling-upgrade.sh"), "--no-build", *options],
            cwd=ROOT,
            env={**os.environ, **self._variables(), **variables},
            capture_output=True,
            text=True,
            timeout=UPGRADE_TIMEOUT_S,
            check=False,
        )

    def _command(self, arguments: Sequence[str]) -> list[str]:
        files = [word for file in self._files for word in ("--file", str(file))]
        return [*composer(), "--project-name", self.project, *files, *arguments]

    def _variables(self) -> dict[str, str]:
        return {"REMOTING_ADDRESS": self.remoting, **{name: str(port) for name, port in self.ports.items()}}

    def containers(self) -> list[str]:
        return docker("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={self.project}").split()

    def container(self, service: str) -> str:
        """The id of a service's container, whatever this version of Compose calls it."""
        label = f"com.docker.compose.service={service}"
        of_project = f"label=com.docker.compose.project={self.project}"
        found = docker("ps", "--all", "--quiet", "--filter", of_project, "--filter", f"label={label}").split()
        assert len(found) == 1, (service, found)
        return found[0]

    def run_in(self, service: str, *command: str) -> str:
        return docker("exec", self.container(service), *command)

    def kill(self, service: str) -> None:
        """SIGKILL. The engine starts nothing again that was killed by its user."""
        docker("kill", self.container(service))

    def start(self, service: str) -> None:
        """Return when it is healthy again."""
        docker("start", self.container(service))
        self.wait_healthy(service)

    def wait_healthy(self, service: str) -> None:
        container, now = self.container(service), time.time()
        if inspected(container)["State"]["Health"]["Status"] == "healthy":
            return
        of_it = ("--filter", f"container={container}", "--filter", "event=health_status: healthy")
        until = ("--since", str(now), "--until", str(now + HEALTHY_TIMEOUT_S))
        with subprocess.Popen(["docker", "events", *of_it, *until], stdout=subprocess.PIPE, text=True) as events:
            assert events.stdout is not None
            event = events.stdout.readline()
            events.terminate()
        assert event, f"{service} did not get healthy\n{self.logs()}"

    def logs(self) -> str:
        return self.compose("logs", "--no-color", "--tail=40")


def _output(command: list[str], timeout_s: float, variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}: {(done.stdout + done.stderr)[-5000:]}"
    return done.stdout.strip()
