"""Runs pods of an overlay in Docker, as a node would: same words, variables, user, file systems, names.

Volume claims  are volumes; what fsGroup does to them is done by the owner that their folder has in the image.
emptyDir       is a tmpfs where everybody may write and run programs, of the same size.
Secrets        are volumes too, read-only, laid out as by the kubelet: root's files, which fsGroup may read.
Names          of Services and of StatefulSets' pods are aliases in one network for all.
Ports          are published on 127.0.0.1, each under a number of its own, as a NodePort would be.
"""

import io
import json
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.k8s.rendering import ROOT, Json, Pod, arguments, environment, of_kind, selects, settings_and_secrets

BUILD_TIMEOUT_S = 800
COMMAND_TIMEOUT_S = 90
PROBE_INTERVAL_S = 0.2
# The overlay for trying out names the number of the official image's user; its stand-in's has the first that was free.
_POSTGRES = b"""
FROM postgres:17
USER root
RUN groupmod --gid 999 postgres && usermod --uid 999 postgres
"""
_KUBELETS_FOLDER = "..2026_11_23_00_00_00.1"
_SECRET_PATH = "/secret"


def docker(
    *words: str, check: bool = True, given: bytes = b"", timeout_s: float = COMMAND_TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Run the client, `given` at its standard input, and give what it said on both ways out."""
    ran = subprocess.run(
        ["docker", *words],
        cwd=ROOT,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
    )
    done = subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(errors="replace"))
    assert not check or done.returncode == 0, f"docker {' '.join(words)}: {done.stdout[-5000:]}"
    return done


class Images(dict[str, str]):
    """The images of this checkout, by the names that the overlays have for them; each is built when it is first run."""

    def __missing__(self, name: str) -> str:
        if name == "postgres:17":
            tag, words, given = "ternmq-postgres:uid-999", ["-"], _POSTGRES
        else:
            ours = name.partition("/")[2].partition(":")[0]
            tag, words, given = f"ternmq/{ours}:tests", ["--file", f"deploy/docker/{ours}.Dockerfile", "."], b""
        docker("build", "--tag", tag, *words, given=given, timeout_s=BUILD_TIMEOUT_S)
        self[name] = tag
        return tag


@dataclass(frozen=True, eq=False)
class Running:
    """A container that was started as one of a pod's."""

    pod: Pod
    spec: Json
    id: str

    def state(self) -> Json:
        """What the engine knows of it: `Running`, `ExitCode`."""
        found: Json = json.loads(docker("inspect", "--format", "{{json .State}}", self.id).stdout)
        return found

    def logs(self) -> str:
        """All that it has written."""
        return docker("logs", self.id).stdout

    def wait(self, timeout_s: float = COMMAND_TIMEOUT_S) -> int:
        """Its exit code, when it has ended by itself."""
        return int(docker("wait", self.id, timeout_s=timeout_s).stdout)

    def address(self, port: str) -> str:
        """Where a port that the pod names can be reached from here."""
        (number,) = (each["containerPort"] for each in self.spec["ports"] if each["name"] == port)
        return docker("port", self.id, f"{number}/tcp").stdout.splitlines()[0].strip()

    def get(self, path: str, port: str, timeout_s: float) -> tuple[int, str]:
        """Status and body of an HTTP answer; status 0 if there is none."""
        try:
            with urllib.request.urlopen(f"http://{self.address(port)}{path}", timeout=timeout_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except OSError as error:
            return 0, str(error)

    def run_inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it."""
        return docker("exec", self.id, *words, check=False)

    def ask(self, probe: Json) -> bool:
        """Probe once, as the kubelet does."""
        if "exec" in probe:
            return self.run_inside(*probe["exec"]["command"]).returncode == 0
        request = probe["httpGet"]
        status, _ = self.get(request["path"], request["port"], probe["timeoutSeconds"])
        return 200 <= status < 400

    def passes(self, name: str) -> None:
        """Probe, more often than the kubelet, until it succeeds, and fail when the kubelet would give up."""
        probe = self.spec[name]
        deadline = time.monotonic() + probe.get("failureThreshold", 3) * probe["periodSeconds"]
        while time.monotonic() < deadline:
            assert self.state()["Running"], f"{self.pod.name} ended: {self.logs()}"
            if self.ask(probe):
                return
            time.sleep(PROBE_INTERVAL_S)
        raise AssertionError(f"{self.pod.name} fails its {name}: {self.logs()}")

    def stop(self) -> int:
        """SIGTERM, and SIGKILL when its time is over; the exit code, which is 137 then."""
        grace_s = self.pod.spec["terminationGracePeriodSeconds"]
        docker("stop", "--time", str(grace_s), self.id)
        return int(self.state()["ExitCode"])


def ready(container: Running) -> Running:
    """Wait as the kubelet does, until it is in its Services."""
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        container.passes(probe)
    return container


class Node:
    """A network, volumes and containers, all gone at the end of `with`."""

    def __init__(self, objects: Sequence[Json], images: Mapping[str, str]) -> None:
        """`images` stand for those of the overlay."""
        self._objects, self._images = objects, images
        self._known = settings_and_secrets(objects)
        self._name = f"ternmq-k8s-{uuid.uuid4().hex[:8]}"
        self._containers: list[str] = []
        self._volumes: list[str] = []

    def __enter__(self) -> "Node":
        docker("network", "create", self._name)
        return self

    def __exit__(self, *_: object) -> None:
        for container in self._containers:
            docker("rm", "--force", "--volumes", container, check=False)
        for volume in self._volumes:
            docker("volume", "rm", volume, check=False)
        docker("network", "rm", self._name, check=False)

    def run(self, pod: Pod) -> Running:
        """Start the pod's one container."""
        (container,) = pod.containers
        variables = environment(pod, container, self._known)
        words = arguments(container, variables) if "args" in container else []
        image = self._images[container["image"]]
        options = [*_identity(pod, container), *self._network(pod, container)]
        options += self._file_systems(pod, container, image)
        options += [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        started = docker("run", "--detach", *options, image, *words)
        running = Running(pod, container, started.stdout.strip().splitlines()[-1])
        self._containers.append(running.id)
        return running

    def _network(self, pod: Pod, container: Json) -> list[str]:
        options = ["--network", self._name]
        for name in _names(pod, self._objects):
            options += ["--network-alias", name]
        for port in container.get("ports", ()):
            options += ["--publish", f"127.0.0.1::{port['containerPort']}"]
        return options

    def _file_systems(self, pod: Pod, container: Json, image: str) -> list[str]:
        volumes = {each["name"]: each for each in pod.spec.get("volumes", ())}
        options = []
        for mount in container.get("volumeMounts", ()):
            name, path = mount["name"], mount["mountPath"]
            source = volumes.get(name, {})
            if "emptyDir" in source:
                options += ["--tmpfs", f"{path}:exec,mode=1777,size={_in_docker(source['emptyDir']['sizeLimit'])}"]
            elif "secret" in source:
                options += ["--volume", f"{self._secret_volume(pod, source, image)}:{path}:ro"]
            else:
                options += ["--volume", f"{self._volume(pod, name)}:{path}"]
        return options

    def _secret_volume(self, pod: Pod, source: Json, image: str) -> str:
        volume = self._volume(pod, source["name"])
        files = self._known["Secret", source["secret"]["secretName"]]
        if items := source["secret"].get("items"):
            files = {item["path"]: files[item["key"]] for item in items}
        group = pod.spec["securityContext"].get("fsGroup", 0)
        archive = _laid_out(files, mode=source["secret"].get("defaultMode", 0o644), group=group)
        holder = docker("create", "--volume", f"{volume}:{_SECRET_PATH}", image).stdout.strip().splitlines()[-1]
        try:
            docker("cp", "-", f"{holder}:{_SECRET_PATH}", given=archive)
        finally:
            docker("rm", holder)
        return volume

    def _volume(self, pod: Pod, claim: str) -> str:
        volume = f"{self._name}-{claim}-{pod.name}"
        if volume not in self._volumes:
            docker("volume", "create", volume)
            self._volumes.append(volume)
        return volume


def _identity(pod: Pod, container: Json) -> Iterator[str]:
    """Who the process is, and what it may."""
    shared, own = pod.spec["securityContext"], container["securityContext"]
    yield from ("--user", f"{shared['runAsUser']}:{shared['runAsGroup']}")
    if "fsGroup" in shared:
        yield from ("--group-add", str(shared["fsGroup"]))
    for capability in own["capabilities"]["drop"]:
        yield from ("--cap-drop", capability)
    if own["allowPrivilegeEscalation"] is False:
        yield from ("--security-opt", "no-new-privileges:true")
    if own["readOnlyRootFilesystem"]:
        yield "--read-only"
    limits = container["resources"]["limits"]
    yield from ("--memory", _in_docker(limits["memory"]))
    if "cpu" in limits:
        yield from ("--cpus", limits["cpu"])


def _laid_out(files: Mapping[str, str], *, mode: int, group: int) -> bytes:
    """The archive of a volume of these files: links into a folder that a changed Secret replaces as a whole."""
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w") as archive:

        def add(name: str, kind: bytes, mode: int, *, content: bytes = b"", target: str = "") -> None:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.gid, entry.size, entry.linkname = kind, mode, group, len(content), target
            archive.addfile(entry, io.BytesIO(content))

        add(_KUBELETS_FOLDER, tarfile.DIRTYPE, 0o755)
        add("..data", tarfile.SYMTYPE, 0o777, target=_KUBELETS_FOLDER)
        for name, text in files.items():
            add(f"{_KUBELETS_FOLDER}/{name}", tarfile.REGTYPE, mode, content=text.encode())
            add(name, tarfile.SYMTYPE, 0o777, target=f"..data/{name}")
    return result.getvalue()


def _names(pod: Pod, objects: Sequence[Json]) -> Iterator[str]:
    """What DNS has for the pod: the Services that lead to it, and the pod itself behind its StatefulSet's."""
    for service in of_kind(objects, "Service"):
        if selects({"matchLabels": service["spec"]["selector"]}, pod.labels):
            yield from _with_namespace(service["metadata"]["name"], pod.namespace)
    if governing := pod.workload["spec"].get("serviceName"):
        yield from _with_namespace(f"{pod.name}.{governing}", pod.namespace)


def _with_namespace(name: str, namespace: str) -> tuple[str, str]:
    return name, f"{name}.{namespace}.svc"


def _in_docker(quantity: Any) -> str:  # noqa: ANN401 - text or number
    """`512Mi` is `512m` to Docker."""
    return str(quantity).removesuffix("i").lower()
