"""Production's pods, with TLS and access control, run in Docker with the Secrets that the README makes: clients who
have keys are served by TLS, others by nobody, and proxies and brokers know each other by certificates.

Production has no PostgreSQL of its own; that of the overlay for trying out stands for it.
"""

import base64
import shlex
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from ternmq import ConnectionFailed, Credentials, Message, TlsOptions, Unauthorized
from ternmq.blocking import Admin, Producer, SimpleConsumer
from ternmq.options import ClientOptions
from tests.k8s.containers import Images, Node, Running, ready
from tests.k8s.rendering import Json, Pod, named, pods, rendered
from tests.k8s.test_guide import commands
from tests.support.until import read_until_text

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

POLL = timedelta(seconds=20)
SECRET = "the-first-secret-of-root"
PASSWORD = "of-the-registry-in-production"
URL = "postgresql://ternmq@postgres:5432/ternmq"
TOPIC = "shoes"
NO_CAPABILITIES = "0" * 16


@dataclass(frozen=True)
class Guarded:
    """Both brokers and a proxy, ready; `certs` are what the README has made of certificates."""

    brokers: list[Running]
    proxy: Running
    certs: Path

    @property
    def endpoint(self) -> str:
        return self.proxy.address("grpc")

    @property
    def options(self) -> ClientOptions:
        """Those of the user root."""
        return {"tls": self.tls, "credentials": self.root}

    @property
    def root(self) -> Credentials:
        return Credentials("root", SECRET)

    @property
    def tls(self) -> TlsOptions:
        return TlsOptions(ca=str(self.certs / "ca.pem"))

    @property
    def processes(self) -> list[Running]:
        return [*self.brokers, self.proxy]


def secret(name: str, data: dict[str, bytes]) -> Json:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ternmq"}, "data": encoded}


def secrets_of_the_readme(folder: Path) -> list[Json]:
    """Do what the section says in this folder, with a kubectl that only notes its words, and read what they name."""
    tools = folder / "tools"
    tools.mkdir()
    for name, line in (
        ("ternmq", f'exec {shlex.quote(sys.executable)} -m ternmq_command.main "$@"'),
        ("kubectl", 'printf "%s\\n" "$*" >>kubectl.log'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    (folder / "init-secret").write_text(f"{SECRET}\n")
    script = "\n".join([f"PATH={shlex.quote(str(tools))}:$PATH", *commands("TLS and access control")])
    subprocess.run(["bash", "-euc", script], cwd=folder, check=True, timeout=60)
    return [_made(folder, shlex.split(line)) for line in (folder / "kubectl.log").read_text().splitlines()]


def _made(folder: Path, words: list[str]) -> Json:
    """The Secret of `--namespace ternmq create secret generic NAME --from-file=[KEY=]FILE ...`."""
    assert words[:5] == ["--namespace", "ternmq", "create", "secret", "generic"]
    data = dict[str, bytes]()
    for word in words[6:]:
        key, _, file = word.removeprefix("--from-file=").rpartition("=")
        data[key or file] = (folder / file).read_bytes()
    return secret(words[5], data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the README was followed: `certs`."""
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def node(images: Images, folder: Path) -> Iterator[Node]:
    """Where the pods run, with a PostgreSQL that is ready, and whose tables are made."""
    registry = secret("ternmq-registry", {"url": URL.encode(), "password": PASSWORD.encode()})
    objects = [*rendered("production"), *secrets_of_the_readme(folder), registry]
    postgres = [named(rendered("dev"), kind, "postgres") for kind in ("StatefulSet", "Service")]
    (database,) = pods(with_secret(postgres, registry))
    with Node([*objects, *postgres], images) as made:
        ready(made.run(database))
        migration = made.run(production("registry-migration"))
        assert migration.wait() == 0, migration.logs()
        yield made


def with_secret(objects: list[Json], registry: Json) -> list[Json]:
    """Those of another overlay, whose Secret of the registry has a name that kustomize has made."""
    (workload,) = (each for each in objects if each["kind"] == "StatefulSet")
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    (password,) = (each for each in container["env"] if each["name"] == "POSTGRES_PASSWORD")
    reference = {"secretKeyRef": {"name": registry["metadata"]["name"], "key": "password"}}
    env = [{**each, "valueFrom": reference} if each is password else each for each in container["env"]]
    template = workload["spec"]["template"]
    spec = {**template["spec"], "containers": [{**container, "env": env}]}
    changed = {**workload, "spec": {**workload["spec"], "template": {**template, "spec": spec}}}
    return [changed if each is workload else each for each in objects]


def production(workload: str) -> Pod:
    (found,) = (each for each in pods(rendered("production")) if each.workload["metadata"]["name"] == workload)
    return found


@pytest.fixture(scope="module")
def guarded(node: Node, folder: Path) -> Guarded:
    """All that production runs, one proxy of it."""
    brokers = [node.run(production(f"broker-{shard}")) for shard in range(2)]
    return Guarded([ready(each) for each in brokers], ready(node.run(production("proxy"))), folder / "certs")


def test_a_user_sends_to_both_brokers_and_receives_by_tls(guarded: Guarded) -> None:
    sent = {b"%d" % number for number in range(20)}
    with Producer(guarded.endpoint, topics=[TOPIC], **guarded.options) as producer:
        for body in sent:
            producer.send(Message(TOPIC, body))
    bodies = set[bytes]()
    with SimpleConsumer(guarded.endpoint, "packers", {TOPIC: "*"}, await_duration=POLL, **guarded.options) as consumer:
        while len(bodies) < len(sent) and (views := consumer.receive()):
            consumer.ack(views)
            bodies |= {view.body for view in views}
    assert bodies == sent
    with Admin(guarded.endpoint, tls=guarded.tls, credentials=guarded.root) as admin:
        queues = admin.describe_topic(TOPIC).queues
    assert {queue.broker for queue in queues if queue.max_offset} == {"broker-0", "broker-1"}, queues


@pytest.mark.parametrize(
    "credentials", [None, Credentials("root", "another-secret"), Credentials("nobody", "another-secret")]
)
def test_who_has_no_right_keys_is_refused(guarded: Guarded, credentials: Credentials | None) -> None:
    with (
        pytest.raises(Unauthorized),
        Producer(guarded.endpoint, topics=[TOPIC], tls=guarded.tls, credentials=credentials) as producer,
    ):
        producer.send(Message(TOPIC, b"lost"))


def test_who_comes_in_plain_text_is_refused(guarded: Guarded) -> None:
    with (
        pytest.raises(ConnectionFailed, match="this port takes TLS only"),
        Producer(guarded.endpoint, topics=[TOPIC], credentials=guarded.root, max_attempts=1) as producer,
    ):
        producer.send(Message(TOPIC, b"lost"))


def test_who_shows_no_certificate_of_the_cluster_gets_nothing_of_a_broker(guarded: Guarded) -> None:
    context = ssl.create_default_context(cafile=str(guarded.certs / "cluster-ca.pem"))
    for broker in guarded.brokers:
        host, _, port = broker.address("storage").rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=20) as raw,
            pytest.raises(ssl.SSLError, match="certificate required"),
            context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
        ):
            connection.recv(1)  # in TLS 1.3 a client believes itself to be in until it hears otherwise


def test_probes_and_prometheus_go_on_in_plain_text_and_nothing_says_insecure(guarded: Guarded) -> None:
    for process in guarded.processes:
        status, text = process.get("/health/ready", "http", timeout_s=5)
        assert status == 200
        assert "insecure" not in text
        status, text = process.get("/metrics", "http", timeout_s=5)
        assert status == 200
        assert "# TYPE " in text


def test_a_process_has_no_capability_and_can_write_to_no_image_and_no_secret(guarded: Guarded) -> None:
    for process in guarded.processes:
        told = dict(line.split(":\t", 1) for line in seen(process, "cat /proc/1/status").splitlines() if ":\t" in line)
        assert {told[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {NO_CAPABILITIES}
        assert (told["NoNewPrivs"], set(told["Uid"].split())) == ("1", {"10001"})
        mounts = {path: options.split(",") for _, path, _, options, *_ in map(str.split, mount_lines(process))}
        assert "ro" in mounts["/"]
        secrets = [mount["mountPath"] for mount in process.spec["volumeMounts"] if mount.get("readOnly")]
        assert secrets
        assert all("ro" in mounts[path] for path in secrets)


def test_secrets_are_roots_and_only_the_group_reads_them(guarded: Guarded) -> None:
    for process in guarded.processes:
        told = seen(process, "stat -L -c '%u %g %a' /etc/ternmq/*/tls.key").splitlines()
        assert set(told) == {"0 10001 440"}


def test_a_refusal_is_in_the_audit_log_and_no_secret_in_any_log(guarded: Guarded, folder: Path) -> None:
    with (
        pytest.raises(Unauthorized),
        Producer(
            guarded.endpoint, topics=["hats"], tls=guarded.tls, credentials=Credentials("mallory", "another-secret")
        ) as producer,
    ):
        producer.send(Message("hats", b"lost"))
    read_until_text(guarded.proxy.logs, "mallory")
    hidden = [SECRET, PASSWORD, (folder / "secrets-key").read_text().strip()]
    for process in guarded.processes:
        assert [each for each in hidden if each in process.logs()] == []


def test_another_proxy_serves_the_user_who_is_there_and_ends_in_time(node: Node, guarded: Guarded) -> None:
    """It finds root made, and whoever signs as root: all proxies have the same key of secrets."""
    proxy = ready(node.run(replace(guarded.proxy.pod, name=guarded.proxy.pod.name + "-2")))
    with Producer(proxy.address("grpc"), topics=["boots"], **guarded.options) as producer:
        producer.send(Message("boots", b"a pair"))
    assert "created the super user" not in proxy.logs()
    assert proxy.stop() == 0, proxy.logs()


def seen(process: Running, script: str) -> str:
    done = process.run_inside("sh", "-euc", script)
    assert done.returncode == 0, done.stdout
    return done.stdout


def mount_lines(process: Running) -> list[str]:
    return seen(process, "cat /proc/mounts").splitlines()
