"""What kustomize makes of the overlays, and what a cluster would make of that: pods with their words and variables.

Objects are plain JSON, as in the files. A variable's value is made as the kubelet makes it: `envFrom` first, `env` over
it, and `$(NAME)` in arguments is the container's variable of that name.
"""

import base64
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
OVERLAYS = tuple(sorted(path.name for path in (K8S / "overlays").iterdir()))
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ternmq/k8s"
WORKLOADS = frozenset({"Deployment", "StatefulSet", "Job", "CronJob"})

_VARIABLE = re.compile(r"\$(?:\$|\(([A-Za-z_][A-Za-z0-9_]*)\))")
_LABEL_FIELD = re.compile(r"metadata\.labels\['(.+)'\]")


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod as its workload makes the first one."""

    workload: Json
    name: str
    namespace: str
    labels: Mapping[str, str]
    spec: Json

    @property
    def containers(self) -> list[Json]:
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def component(self) -> str:
        """`proxy`, `broker`, `migration`, `lake`, `postgres`."""
        return self.labels.get("app.kubernetes.io/component") or self.labels["app.kubernetes.io/name"]


@functools.cache
def rendered(overlay: str) -> tuple[Json, ...]:
    """The objects of an overlay of this checkout; to be read only."""
    return rendered_folder(K8S / "overlays" / overlay)


def rendered_folder(folder: Path) -> tuple[Json, ...]:
    """The objects of a folder with a kustomization."""
    done = subprocess.run([*_kustomize(), folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def _kustomize() -> list[str]:
    if (CACHE / "kustomize").exists():
        return [str(CACHE / "kustomize"), "build"]
    if kustomize := shutil.which("kustomize"):
        return [kustomize, "build"]
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "kustomize is missing: run tests/k8s/install_tools.sh, as tools/check does"
    return [kubectl, "kustomize"]


def of_kind(objects: Iterable[Json], *kinds: str) -> list[Json]:
    """The objects of these kinds."""
    return [each for each in objects if each["kind"] in kinds]


def named(objects: Iterable[Json], kind: str, name: str) -> Json:
    """The one object of that kind and name."""
    (found,) = (each for each in of_kind(objects, kind) if each["metadata"]["name"] == name)
    return found


def pods(objects: Iterable[Json]) -> list[Pod]:
    """The first pod of each workload."""
    return [_first_pod(each) for each in of_kind(objects, *WORKLOADS)]


def _first_pod(workload: Json) -> Pod:
    metadata, spec = workload["metadata"], workload["spec"]
    template = (spec["jobTemplate"]["spec"] if workload["kind"] == "CronJob" else spec)["template"]
    suffix = "0" if workload["kind"] == "StatefulSet" else "7d9f-x2x4z"
    return Pod(
        workload=workload,
        name=f"{metadata['name']}-{suffix}",
        namespace=metadata["namespace"],
        labels=template["metadata"]["labels"],
        spec=template["spec"],
    )


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a selector (`matchLabels`, `matchExpressions`) has these labels; an empty one has all."""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}, selector
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        _meets(expression, labels) for expression in selector.get("matchExpressions", ())
    )


def _meets(expression: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case operator:
            assert operator == "DoesNotExist", operator
            return value is None


def settings_and_secrets(objects: Iterable[Json]) -> dict[tuple[str, str], dict[str, str]]:
    """(kind, name) of each ConfigMap and Secret, with what is in it."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for each in of_kind(objects, "ConfigMap", "Secret"):
        data = each.get("data", {})
        if each["kind"] == "Secret":
            data = {key: base64.b64decode(value).decode() for key, value in data.items()} | each.get("stringData", {})
        found[each["kind"], each["metadata"]["name"]] = data
    return found


def secrets_made_by_hand(overlay: str) -> list[Json]:
    """The Secrets that must be there before an overlay is applied, as its example files have them."""
    files = (K8S / "overlays" / overlay).glob("*secret.example.yaml")
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def environment(pod: Pod, container: Json, known: Mapping[tuple[str, str], Mapping[str, str]]) -> dict[str, str]:
    """The variables of a container, by what is known of ConfigMaps and Secrets; KeyError if something isn't there.

    What is optional and isn't there is no variable.
    """
    result: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        ((kind, reference),) = source.items()
        result |= known["ConfigMap" if kind == "configMapRef" else "Secret", reference["name"]]
    for variable in container.get("env", ()):
        given = variable.get("value")
        value = _from_elsewhere(variable["valueFrom"], pod, known) if given is None else expanded(given, result)
        if value is not None:
            result[variable["name"]] = value
    return result


def _from_elsewhere(source: Json, pod: Pod, known: Mapping[tuple[str, str], Mapping[str, str]]) -> str | None:
    ((kind, reference),) = source.items()
    if kind == "fieldRef":
        return _field(reference["fieldPath"], pod)
    holder = "ConfigMap" if kind == "configMapKeyRef" else "Secret", reference["name"]
    if reference.get("optional"):
        return known.get(holder, {}).get(reference["key"])
    return known[holder][reference["key"]]


def _field(path: str, pod: Pod) -> str:
    if label := _LABEL_FIELD.fullmatch(path):
        return pod.labels[label[1]]
    return {"metadata.name": pod.name, "metadata.namespace": pod.namespace}[path]


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` replaced; `$$` is one `$`, and an unknown name stays as it is."""
    return _VARIABLE.sub(lambda match: variables.get(match[1], match[0]) if match[1] else "$", text)


def arguments(container: Json, variables: Mapping[str, str]) -> list[str]:
    """What follows the image's entry point."""
    assert "command" not in container, "our images' entry point is the command `ternmq`, or passes its words on to it"
    return [expanded(each, variables) for each in container["args"]]
