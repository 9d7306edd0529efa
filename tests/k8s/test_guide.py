"""What the README says to do to these files can be done, and does what it says."""

import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from tests.k8s.rendering import K8S, Json, Pod, named, of_kind, pods, rendered, rendered_folder, secrets_made_by_hand
from tests.k8s.test_schemas import VERSIONS


def commands(heading: str) -> list[str]:
    """The lines of a section's last block of commands."""
    section = (K8S / "README.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    *_, block = re.finditer(r"```sh\n(.*?)```", section, re.DOTALL)
    return block[1].splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a copy of k8s/ in it, to be changed."""
    shutil.copytree(K8S, tmp_path / "k8s")
    return tmp_path


def production_after(checkout: Path, lines: list[str]) -> tuple[Json, ...]:
    subprocess.run(["bash", "-euc", "\n".join(lines)], cwd=checkout, check=True, timeout=30)
    return rendered_folder(checkout / "k8s/overlays/production")


def by_name(objects: tuple[Json, ...]) -> dict[tuple[str, str], Json]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_another_shard_is_like_the_others_and_changes_none_of_them(checkout: Path) -> None:
    before, after = by_name(rendered("production")), by_name(production_after(checkout, commands("Add a shard")))
    assert after.keys() - before.keys() == {("StatefulSet", "broker-2"), ("Service", "broker-2")}
    assert {key: after[key] for key in before} == before
    first, third = pod(before, "broker-1"), pod(after, "broker-2")
    assert third.spec == first.spec
    assert third.labels == {**first.labels, "ternmq/shard": "2"}


def pod(objects: dict[tuple[str, str], Json], workload: str) -> Pod:
    (found,) = pods([objects["StatefulSet", workload]])
    return found


def test_a_port_of_the_nodes_can_stand_for_the_load_balancer(checkout: Path) -> None:
    objects = production_after(checkout, commands("External access"))
    service = named(objects, "Service", "ternmq-external")
    kubernetes_validate.validate(service, VERSIONS[-1], strict=True)
    assert service["spec"]["type"] == "NodePort"
    assert [port["nodePort"] for port in service["spec"]["ports"]] == [30081]
    assert not [each for each in of_kind(objects, "Service") if each["spec"].get("type") == "LoadBalancer"]


def test_a_setting_is_changed_by_a_map_of_the_same_name(checkout: Path) -> None:
    overlay = checkout / "k8s/overlays/production/kustomization.yaml"
    generator = "configMapGenerator:\n- {name: ternmq-broker, behavior: merge, literals: [TERNMQ_RETENTION_MS=24h]}\n"
    overlay.write_text(overlay.read_text() + generator)
    before, after = rendered("production"), rendered_folder(overlay.parent)
    (data,) = (each["data"] for each in of_kind(after, "ConfigMap") if "TERNMQ_RETENTION_MS" in each["data"])
    (unchanged,) = (each["data"] for each in of_kind(before, "ConfigMap") if "TERNMQ_RETENTION_MS" in each["data"])
    assert data == unchanged | {"TERNMQ_RETENTION_MS": "24h"}
    assert data["TERNMQ_SHUTDOWN_GRACE_MS"] == "5s"
    # Brokers get a map with another name, proxies keep theirs and are not restarted.
    assert named(after, "StatefulSet", "broker-0") != named(before, "StatefulSet", "broker-0")
    assert named(after, "Deployment", "proxy") == named(before, "Deployment", "proxy")


def test_what_prometheus_is_to_take_gets_its_label_and_nothing_else_does(checkout: Path) -> None:
    before, after = by_name(rendered("production")), by_name(production_after(checkout, commands("Monitoring")))
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {("ServiceMonitor", "ternmq"), ("PrometheusRule", "ternmq")}
    assert all(after[key]["metadata"]["labels"] == {"release": "kube-prometheus-stack"} for key in changed)
    assert all(after[key]["spec"] == before[key]["spec"] for key in changed)


def test_what_the_rollout_names_is_there() -> None:
    lines = " ".join(commands("Rolling upgrade"))
    objects = rendered("production")
    assert "job/registry-migration" in lines
    assert named(objects, "Job", "registry-migration")
    assert "deployment/proxy" in lines
    assert named(objects, "Deployment", "proxy")
    assert "--selector 'app.kubernetes.io/component=broker,!ternmq/replicated'" in lines
    selected = [each for each in pods(objects) if each.component == "broker" and "ternmq/replicated" not in each.labels]
    assert {each.workload["kind"] for each in selected} == {"StatefulSet"}


def test_secrets_are_made_with_the_keys_that_the_examples_have() -> None:
    lines = re.sub(r"\\\n\s*", "", "\n".join(commands("TLS and access control")))
    made = {
        found[1]: set(re.findall(r"--from-file=([\w.-]+)", found[2]))
        for found in re.finditer(r"create secret generic (\S+)(.*)", lines)
    }
    examples = {
        each["metadata"]["name"]: set(each["stringData"])
        for each in secrets_made_by_hand("production")
        if each["metadata"]["name"] != "ternmq-registry"
    }
    assert made == examples


def test_certificates_for_trying_out_are_for_the_names_that_the_overlay_gives() -> None:
    """Those that brokers advertise, and the Service of the clients."""
    hosts = set(re.findall(r"--host (\S+)", " ".join(commands("TLS and access control"))))
    brokers = [each for each in pods(rendered("production")) if each.component == "broker"]
    wanted = {f"{each.name}.{each.workload['spec']['serviceName']}.{each.namespace}.svc" for each in brokers}
    clients = named(rendered("production"), "Service", "ternmq")
    assert hosts - {"mq.example.com"} == {*wanted, f"{clients['metadata']['name']}.ternmq.svc"}
