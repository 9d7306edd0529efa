"""A real API server with etcd takes all objects: `python -m tests.k8s.api_server`, which tools/soak runs.

The overlays of kustomize and the chart with its values files each come into a namespace of their own that enforces the
Pod Security Standard `restricted`, by server-side apply that refuses fields which the server does not know. There are
no controllers, so the first pod of each workload is made here as one would, and its claims too. Helm itself installs
the chart, changes it and takes it away. What must be refused is: a pod that breaks the standard, a field that is
misspelt, and a Job of kustomize's with another image.
`tests/k8s/install_api_server.sh` gets the programs.
"""

import copy
import json
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import trustme
import yaml

from tests.k8s.chart import chart_objects
from tests.k8s.rendering import CACHE, OVERLAYS, Json, Pod, named, of_kind, pods, rendered, secrets_made_by_hand
from tests.k8s.test_schemas import DEFINITIONS
from tests.support.ports import free_address
from tools.generate_kustomize import CHART, helm

KUBERNETES = "1.30.14"
NAMESPACED_CHART = "chart-{}"
START_TIMEOUT_S, CALL_TIMEOUT_S, STOP_TIMEOUT_S = 120.0, 30.0, 20.0
LOOK_INTERVAL_S = 0.3
LOG_TAIL = 4000
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
# The plural, and the group where there is one, are those of the path.
PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "PodDisruptionBudget": "poddisruptionbudgets",
}


class Refused(Exception):
    """The server took something not; `message` says why."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(f"{status}: {message}")


class ApiServer:
    """What is asked of it."""

    def __init__(self, address: str, token: str, authority: trustme.CA) -> None:
        self._address, self._token = address, token
        self._authority = authority.cert_pem.bytes()
        self._tls = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())

    def ask(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        request = urllib.request.Request(
            f"https://{self._address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S, context=self._tls) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            raise Refused(
                error.code, json.loads(text).get("message", "") if text[:1] == b"{" else text.decode()
            ) from None
        found: Json = json.loads(text) if text[:1] == b"{" else {}
        return found

    def kubeconfig(self, file: Path) -> Path:
        """What programs need to come here, written into that file."""
        cluster = {
            "server": f"https://{self._address}",
            "certificate-authority-data": b64encode(self._authority).decode(),
        }
        known = {
            "clusters": [{"name": "soak", "cluster": cluster}],
            "users": [{"name": "soak", "user": {"token": self._token}}],
            "contexts": [{"name": "soak", "context": {"cluster": "soak", "user": "soak"}}],
            "current-context": "soak",
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **known}))
        return file

    def apply(self, each: Json) -> Json:
        """Server-side, as `kubectl apply --server-side` does; unknown and repeated fields are refused."""
        path = f"{collection(each)}/{each['metadata']['name']}?fieldManager=soak&force=true&fieldValidation=Strict"
        return self.ask("PATCH", path, each, "application/apply-patch+yaml")

    def create(self, each: Json) -> Json:
        return self.ask("POST", f"{collection(each)}?fieldValidation=Strict", each)


def collection(each: Json) -> str:
    """The path of all objects of its kind, in its namespace if it has one."""
    version, kind = each["apiVersion"], each["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = each["metadata"].get("namespace")
    return f"{root}{f'/namespaces/{namespace}' if namespace else ''}/{PLURALS.get(kind, kind.lower() + 's')}"


# --- the programs


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """With an etcd of its own, in a folder that is gone afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ternmq-api-server-")))
        client, peer, port = (free_address() for _ in range(3))
        etcd = (
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls=http://{client}",
            f"--advertise-client-urls=http://{client}",
            f"--listen-peer-urls=http://{peer}",
            f"--initial-advertise-peer-urls=http://{peer}",
            f"--initial-cluster=default=http://{peer}",
        )
        stack.enter_context(running(folder, "etcd", *etcd))
        authority, token = trustme.CA(), secrets.token_hex(16)
        process = stack.enter_context(
            running(folder, f"kube-apiserver-{KUBERNETES}", *options(folder, client, port, authority, token))
        )
        server = ApiServer(port, token, authority)
        until_ready(server, process, folder)
        yield server


def options(folder: Path, etcd: str, address: str, authority: trustme.CA, token: str) -> list[str]:
    issued = authority.issue_cert("127.0.0.1")
    certificate, key, tokens = folder / "server.pem", folder / "server.key", folder / "tokens.csv"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    tokens.write_text(f'{token},soak,soak,"system:masters"\n')
    return [
        f"--etcd-servers=http://{etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={address.partition(':')[2]}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://soak.example",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
    ]


@contextmanager
def running(folder: Path, name: str, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
    program = CACHE / name
    assert program.exists(), f"{name} is missing: run tests/k8s/install_api_server.sh, as tools/soak does"
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([program, *words], stdout=log, stderr=log, cwd=folder)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_ready(server: ApiServer, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            server.ask("GET", "/readyz")
        except (Refused, OSError):
            said = (folder / f"kube-apiserver-{KUBERNETES}.log").read_text()[-LOG_TAIL:]
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(LOOK_INTERVAL_S)
        else:
            return


# --- what it has to take


def main() -> int:
    if shutil.which("kubectl") is None and not (CACHE / "kustomize").exists():
        sys.exit("kustomize is missing: run tests/k8s/install_tools.sh, as tools/soak does")
    with api_server() as server, tempfile.TemporaryDirectory() as folder:
        know_the_operators_kinds(server)
        for overlay in OVERLAYS:
            say(f"kustomize, {overlay}", takes(server, [*rendered(overlay), *secrets_made_by_hand(overlay)]))
            namespace = NAMESPACED_CHART.format(overlay)
            chart = [*chart_objects(namespace, overlay), *in_namespace(secrets_of(overlay), namespace)]
            say(f"chart, {overlay}", takes(server, [namespace_of(namespace), *chart]))
            upgraded = chart_objects(namespace, overlay, {"images": {"proxy": {"tag": "0.2.0"}}})
            say(f"chart, {overlay}, another version", takes(server, upgraded))
        say("helm", installs(server, Path(folder)))
        refuses(server)
    return 0


def say(what: str, taken: str) -> None:
    sys.stdout.write(f"{what}: {taken}\n")
    sys.stdout.flush()


def know_the_operators_kinds(server: ApiServer) -> None:
    for file in DEFINITIONS.values():
        definition = yaml.safe_load(file.read_text())
        server.apply(definition)
        path = f"{collection(definition)}/{definition['metadata']['name']}"
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_established(server.ask("GET", path)):
            assert time.monotonic() < deadline, file.name
            time.sleep(LOOK_INTERVAL_S)


def is_established(definition: Json) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def takes(server: ApiServer, objects: Iterable[Json]) -> str:
    """Everything, twice, and the first pod of each workload; the second time nothing changes."""
    ordered = sorted(objects, key=lambda each: each["kind"] not in ("Namespace", "ServiceAccount"))
    for each in ordered:
        assert content(server.apply(each)) == content(server.apply(each)), each["metadata"]["name"]
    made = [pod for pod in pods(tuple(ordered)) if makes(server, pod)]
    return f"{len(ordered)} objects, {len(made)} pods"


def content(each: Json) -> Json:
    """Without what the server notes of the writing itself."""
    noted = ("resourceVersion", "managedFields")
    return {**each, "metadata": {key: value for key, value in each["metadata"].items() if key not in noted}}


def makes(server: ApiServer, pod: Pod) -> bool:
    """As its controller would; False: there is one of that name, of an earlier version."""
    for template in pod.workload["spec"].get("volumeClaimTemplates", ()):
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **copy.deepcopy(template)}
        claim["metadata"] |= {"name": f"{template['metadata']['name']}-{pod.name}", "namespace": pod.namespace}
        server.apply(claim)
    try:
        server.create(pod_object(pod))
    except Refused as error:
        if error.status != 409:
            raise
        return False
    return True


def pod_object(pod: Pod) -> Json:
    claims = [each["metadata"]["name"] for each in pod.workload["spec"].get("volumeClaimTemplates", ())]
    spec = copy.deepcopy(pod.spec)
    spec["volumes"] = [
        *spec.get("volumes", ()),
        *({"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod.name}"}} for name in claims),
    ]
    metadata = {"name": pod.name, "namespace": pod.namespace, "labels": dict(pod.labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def namespace_of(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(RESTRICTED)}}


def secrets_of(overlay: str) -> list[Json]:
    return copy.deepcopy(secrets_made_by_hand(overlay))


def in_namespace(objects: Iterable[Json], namespace: str) -> Iterator[Json]:
    for each in objects:
        yield each | {"metadata": {**each["metadata"], "namespace": namespace}}


def installs(server: ApiServer, folder: Path) -> str:
    """Install, another version with a shard more, and the end, of which the claims are left that the chart keeps."""
    config = str(server.kubeconfig(folder / "kubeconfig"))
    words = ("--namespace", "helm", "--kubeconfig", config)
    values = ("--values", str(CHART / "values-production.yaml"), "--set", "lakePipeline.enabled=true")
    done = helm("install", "ternmq", str(CHART), *words, "--create-namespace", *values)
    assert done.returncode == 0, done.stderr
    assert "ternmq.helm.svc:8081" in done.stdout
    later = ("--set", "images.proxy.tag=0.2.0", "--set", "shards[2].number=2")
    done = helm("upgrade", "ternmq", str(CHART), *words, *values, *later)
    assert done.returncode == 0, done.stderr
    brokers = [
        each["metadata"]["name"] for each in server.ask("GET", "/apis/apps/v1/namespaces/helm/statefulsets")["items"]
    ]
    assert brokers == ["broker-0", "broker-1", "broker-2"]
    done = helm("uninstall", "ternmq", *words)
    assert done.returncode == 0, done.stderr
    kept = server.ask("GET", "/api/v1/namespaces/helm/persistentvolumeclaims")["items"]
    assert [each["metadata"]["name"] for each in kept] == ["lake"]
    assert not server.ask("GET", "/apis/apps/v1/namespaces/helm/statefulsets")["items"]
    return "installed, upgraded and uninstalled; the lake is kept"


# --- what it must not take


def refuses(server: ApiServer) -> None:
    """So that what was taken says something."""
    objects = rendered("production")
    (proxy,) = (each for each in pods(objects) if each.component == "proxy")
    wrong = pod_object(proxy)
    wrong["metadata"]["name"] = "root"
    wrong["spec"]["securityContext"]["runAsNonRoot"] = False
    refused(server.create, wrong, 'violates PodSecurity "restricted')
    misspelt = copy.deepcopy(named(objects, "Deployment", "proxy"))
    misspelt["spec"]["replica"] = 1
    refused(server.apply, misspelt, "field not declared in schema")
    job = copy.deepcopy(of_kind(objects, "Job")[0])
    job["spec"]["template"]["spec"]["containers"][0]["image"] = "ternmq/proxy:0.2.0"
    refused(server.apply, job, "field is immutable")
    rule = copy.deepcopy(named(objects, "PrometheusRule", "ternmq"))
    rule["spec"]["groups"][0]["rules"][0]["form"] = "1m"
    refused(server.apply, rule, ".spec.groups")
    say(
        "refused",
        "a pod that may run as root, a field that is misspelt, a Job with another image, a rule with an unknown field",
    )


def refused(call: Any, each: Json, why: str) -> None:  # noqa: ANN401 - a method of the server
    said = "it was taken"
    try:
        call(each)
    except Refused as error:
        said = error.message
    assert why in said, f"{each['kind']} {each['metadata']['name']}: {said}"


if __name__ == "__main__":
    sys.exit(main())
