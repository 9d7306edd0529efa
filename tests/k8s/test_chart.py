"""The Helm chart, the folders of kustomize that are made of it, and values that mean nothing, which it refuses."""

import json
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from tests.k8s.chart import chart_objects, comparable, rendered_by
from tests.k8s.pod_security import broken
from tests.k8s.rendering import K8S, OVERLAYS, ROOT, Json, named, of_kind, pods, rendered, rendered_folder
from tests.k8s.test_guide import commands
from tests.k8s.test_schemas import DEFINITIONS, VERSIONS, of_operator
from tools.generate_kustomize import CHART, generated, helm

SECRETS = ("server", "cluster", "access")
NAMESPACES = {"dev": "ternmq-dev", "production": "ternmq", "replicated": "ternmq-replicated"}
# Components that no overlay has: what the README says to do to production, and the values that say the same.
CHOICES: dict[str, tuple[list[str], Json]] = {
    "replicas of each shard": (commands("Replicas"), {"broker": {"replicas": 3}}),
    "a port of the nodes": (commands("External access"), {"external": {"type": "NodePort"}}),
    "the lake, guarded": (commands("Lake pipeline"), {"lakePipeline": {"enabled": True, "topics": "orders,payments"}}),
}


def test_the_folders_are_what_the_chart_makes() -> None:
    """`python tools/generate_kustomize.py` writes them."""
    assert [name for name, text in generated().items() if (K8S / name).read_text() != text] == []


def kustomized(objects: tuple[Json, ...]) -> dict[tuple[str, str], Json]:
    """Without the Namespace: that of a release is there before the chart is, or made by `--create-namespace`."""
    return comparable(tuple(each for each in objects if each["kind"] != "Namespace"))


def check_alike(chart: dict[tuple[str, str], Json], kustomize: dict[tuple[str, str], Json]) -> None:
    assert chart.keys() == kustomize.keys()
    assert [line for key in chart for line in differences(chart[key], kustomize[key], "/".join(key))] == []


def differences(chart: Any, kustomize: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """A line for each place where they are not alike."""
    if isinstance(chart, dict) and isinstance(kustomize, dict):
        for key in chart.keys() | kustomize.keys():
            yield from differences(chart.get(key), kustomize.get(key), f"{path}.{key}")
    elif isinstance(chart, list) and isinstance(kustomize, list) and len(chart) == len(kustomize):
        for number, pair in enumerate(zip(chart, kustomize, strict=True)):
            yield from differences(*pair, f"{path}.{number}")
    elif chart != kustomize:
        yield f"{path}: {chart!r} by the chart, {kustomize!r} by kustomize"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_puts_an_overlay_together_as_the_chart_does(overlay: str) -> None:
    chart = chart_objects(NAMESPACES[overlay], overlay)
    check_alike(comparable(chart), kustomized(rendered(overlay)))


@pytest.mark.parametrize("choice", CHOICES)
def test_kustomize_puts_a_component_in_as_the_chart_does(choice: str, tmp_path: Path) -> None:
    lines, values = CHOICES[choice]
    shutil.copytree(K8S, tmp_path / "k8s")
    subprocess.run(["bash", "-euc", "\n".join(lines)], cwd=tmp_path, check=True, timeout=30)
    before = kustomized(rendered("production"))
    after = kustomized(rendered_folder(tmp_path / "k8s/overlays/production"))
    assert after != before
    check_alike(comparable(chart_objects("ternmq", "production", values)), after)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_object_is_one_to_kubernetes_and_to_the_operator(overlay: str) -> None:
    extras: Json = {
        "imagePullSecrets": [{"name": "pull"}],
        "broker": {
            "storageClassName": "fast",
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"operator": "Exists"}],
        },
        "proxy": {"nodeSelector": {"pool": "small"}, "tolerations": [{"key": "a", "operator": "Exists"}]},
        "external": {"type": "LoadBalancer", "annotations": {"a/b": "c"}, "sourceRanges": ["10.0.0.0/8"]},
        "lakePipeline": {"enabled": True, "storageClassName": "slow", "extraArgs": ["--max-offsets-per-trigger=1000"]},
        "monitoring": {"enabled": True},
    }
    objects = chart_objects(NAMESPACES[overlay], overlay, extras)
    assert {each["metadata"]["namespace"] for each in objects} == {NAMESPACES[overlay]}
    for each in objects:
        if each["kind"] in DEFINITIONS:
            of_operator(each["kind"]).validate(each)
        else:
            for version in VERSIONS:
                assert kubernetes_validate.validate(each, version, strict=True) == version
    assert {pod.name: broken(pod) for pod in pods(objects)} == {pod.name: [] for pod in pods(objects)}
    assert named(objects, "StatefulSet", "broker-0")["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_finds_nothing_wrong(overlay: str) -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(CHART / f"values-{overlay}.yaml"))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_changes_without_a_change(overlay: str) -> None:
    """No password and no certificate is made up by the chart, which another upgrade would replace."""
    assert chart_objects("ternmq", overlay) == chart_objects("ternmq", overlay)


def test_secrets_are_named_and_not_made_but_that_of_the_postgres_for_trying_out() -> None:
    names: Json = {
        "registry": {"secretName": "a-registry"},
        "guarded": {f"{each}Secret": f"a-{each}" for each in SECRETS},
    }
    names["lakePipeline"] = {"enabled": True, "keysSecret": "a-lake"}
    objects = chart_objects("ternmq", "production", names)
    assert not of_kind(objects, "Secret")
    text = json.dumps(objects)
    assert "ternmq-registry" not in text
    assert all(f'"a-{each}"' in text for each in (*SECRETS, "registry", "lake"))
    (secret,) = of_kind(chart_objects("ternmq", "dev"), "Secret")
    assert secret["metadata"]["name"] == "ternmq-registry"


def test_a_setting_rolls_the_pods_that_read_it_and_no_others() -> None:
    before = chart_objects("ternmq", "production")
    changed = {"settings": {"proxy": {"TERNMQ_TRACE_RATIO": "0.5"}}}
    after = chart_objects("ternmq", "production", changed)
    assert template_of(after, "Deployment", "proxy") != template_of(before, "Deployment", "proxy")
    assert template_of(after, "StatefulSet", "broker-0") == template_of(before, "StatefulSet", "broker-0")
    everybody = chart_objects("ternmq", "production", {"settings": {"all": {"TERNMQ_LOG_LEVEL": "debug"}}})
    for kind, name in (("Deployment", "proxy"), ("StatefulSet", "broker-0")):
        assert template_of(everybody, kind, name) != template_of(before, kind, name)


def template_of(objects: tuple[Json, ...], kind: str, name: str) -> Json:
    found: Json = named(objects, kind, name)["spec"]["template"]
    return found


def test_a_migration_that_is_another_has_another_name() -> None:
    """A Job can't be changed."""

    def name(values: Json) -> str:
        (job,) = of_kind(chart_objects("ternmq", "production", values), "Job")
        return str(job["metadata"]["name"])

    assert name({}) == name({"proxy": {"replicas": {"max": 5}}})
    assert name({}) != name({"images": {"proxy": {"tag": "0.2.0"}}})


def test_shards_have_their_own_sizes_and_numbers() -> None:
    values = {"shards": [{"number": 0}, {"number": 7, "replicas": 3, "storage": "1Ti"}]}
    objects = chart_objects("ternmq", "production", values)
    sizes = {
        each["metadata"]["name"]: (
            each["spec"]["replicas"],
            each["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"],
        )
        for each in of_kind(objects, "StatefulSet")
    }
    assert sizes == {"broker-0": (1, "200Gi"), "broker-7": (3, "1Ti")}
    replicas = named(objects, "StatefulSet", "broker-7")["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "TERNMQ_REPLICAS", "value": "3"} in replicas


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"registry": {"cidrs": []}}, "registry.cidrs is needed: where your PostgreSQL is"),
        ({"postgres": {"enabled": True, "password": "x"}}, "postgres.enabled and registry.cidrs exclude each other"),
        ({"postgres": {"enabled": True}, "registry": {"cidrs": []}}, "postgres.password is needed"),
        ({"shards": [{"number": 1}, {"number": 1}]}, "shards: two have the number 1"),
        ({"settings": {"all": {"TERNMQ_REGISTRY": "x"}}}, "settings.all.TERNMQ_REGISTRY: the chart itself says that"),
        ({"shards": []}, "shards: Array must have at least 1 items"),
        ({"broker": {"replicas": 6}}, "broker.replicas: Must be less than or equal to 5"),
        ({"broker": {"storage": "lots"}}, "broker.storage: Does not match pattern"),
        ({"settings": {"proxy": {"TERNMQ_TRACE_RATIO": 0.5}}}, "Invalid type. Expected: string, given: number"),
        ({"settings": {"proxy": {"trace_ratio": "0.5"}}}, "Additional property trace_ratio is not allowed"),
        ({"brokers": {"replicas": 3}}, "Additional property brokers is not allowed"),
        ({"external": {"type": "Ingress"}}, 'external.type must be one of the following: "None", "LoadBalancer"'),
        ({"registry": {"cidrs": ["db.example.com"]}}, "registry.cidrs.0: Does not match pattern"),
        ({"guarded": {"serverSecret": "No Name"}}, "guarded.serverSecret: Does not match pattern"),
    ],
)
def test_wrong_values_are_refused_with_their_names(values: Json, said: str) -> None:
    done = rendered_by("ternmq", "production", values)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_cluster_that_is_too_old_is_refused() -> None:
    production = str(CHART / "values-production.yaml")
    done = helm("template", "a", str(CHART), "--kube-version", "1.29.0", "--values", production)
    assert "requires kubeVersion: >=1.30.0" in done.stderr


def test_every_value_is_in_the_schema_and_the_other_way_round() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(leaves(values)) == set(described(schema)) - {"global"}


def leaves(values: Json, prefix: str = "") -> list[str]:
    """The names of values, as --set has them; what users name themselves (settings, labels) is one value."""
    found: list[str] = []
    for key, value in values.items():
        name = prefix + key
        open_ended = name in OPEN_ENDED or not isinstance(value, dict) or not value
        found += [name] if open_ended else leaves(value, f"{name}.")
    return found


OPEN_ENDED = {
    *(f"settings.{kind}" for kind in ("all", "proxy", "broker")),
    *(f"{part}.resources.{kind}" for part in ("broker", "proxy", "lakePipeline") for kind in ("requests", "limits")),
}


def described(schema: Json, prefix: str = "") -> list[str]:
    found: list[str] = []
    for key, inner in schema["properties"].items():
        name = prefix + key
        found += described(inner, f"{name}.") if "properties" in inner else [name]
        if inner.get("type") == "object" and "properties" in inner:
            assert inner["additionalProperties"] is False, name
    return found


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_what_is_packaged_renders_the_same(tmp_path: Path) -> None:
    """With the files of alerts and dashboard in it."""
    done = helm("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tgz")
    words = ("--namespace", "ternmq", "--kube-version", "1.30.0", "--values", str(CHART / "values-production.yaml"))
    assert helm("template", "a", str(archive), *words).stdout == helm("template", "a", str(CHART), *words).stdout


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_notes_name_what_is_still_to_be_made(overlay: str, tmp_path: Path) -> None:
    notes = notes_of(overlay, tmp_path)
    assert "ternmq.somewhere.svc:8081" in notes
    secrets = {"ternmq-registry", "ternmq-server", "ternmq-cluster", "ternmq-access"}
    assert {each for each in secrets if each in notes} == (secrets if overlay == "production" else set())
    assert ("for pod in" in notes) is (overlay != "replicated")


def notes_of(overlay: str, folder: Path) -> str:
    """Helm shows them to who installs the chart in a cluster; here they are a template like others."""
    copied = folder / "chart"
    shutil.copytree(CHART, copied)
    notes = (copied / "templates/NOTES.txt").read_text()
    (copied / "templates/NOTES.txt").unlink()
    (copied / "templates/_notes.tpl").write_text(f'{{{{ define "notes" }}}}{notes}{{{{ end }}}}')
    (copied / "templates/notes.yaml").write_text('notes: {{ include "notes" . | toJson }}\n')
    words = ("--namespace", "somewhere", "--kube-version", "1.30.0", "--show-only", "templates/notes.yaml")
    done = helm("template", "a", str(copied), *words, "--values", str(CHART / f"values-{overlay}.yaml"))
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["notes"])
