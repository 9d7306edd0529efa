"""What Helm makes of the chart, and what is Helm's own in that."""

import copy
import functools
import re
from typing import TYPE_CHECKING, Any

import yaml

from tests.k8s.rendering import Json
from tools.generate_kustomize import CHART, KUBERNETES, helm

if TYPE_CHECKING:
    import subprocess

RELEASE = "some-release"
# Labels and annotations that Helm and its users look for, and what rolls pods instead of a new name.
HELMS = frozenset({"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "app.kubernetes.io/version"})
_HELMS_PREFIX = "helm.sh/"
_CHECKSUM = "checksum/settings"
# Kustomize appends a hash to what it makes, the chart to the Job.
_GENERATED = re.compile(r"^(ternmq(?:-broker|-proxy|-registry)?)-[a-z0-9]{10}$")
_MIGRATION = re.compile(r"^registry-migration-[0-9a-f]{8}$")


def rendered_by(namespace: str, named: str | None, values: Json | None) -> "subprocess.CompletedProcess[str]":
    files = [] if named is None else ["--values", str(CHART / f"values-{named}.yaml")]
    words = ("--namespace", namespace, "--kube-version", KUBERNETES, *files, "--values", "-")
    return helm("template", RELEASE, str(CHART), *words, values=values)


def chart_objects(namespace: str, named: str | None, values: Json | None = None) -> tuple[Json, ...]:
    """All objects of the chart."""
    done = rendered_by(namespace, named, values)
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each is not None)


def comparable(objects: tuple[Json, ...]) -> dict[tuple[str, str], Json]:
    """By kind and name, without what is Helm's own or a generated name; lists whose order means nothing are sorted."""
    found = [_plain(each) for each in copy.deepcopy(objects)]
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(by_name) == len(objects)
    return by_name


@functools.singledispatch
def _plain(tree: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(tree, str):
        return "registry-migration" if _MIGRATION.match(tree) else _GENERATED.sub(r"\1", tree)
    return tree


@_plain.register
def _(tree: list) -> list[Any]:  # type: ignore[type-arg]
    plain = [_plain(each) for each in tree]
    if plain and all(isinstance(each, dict) and "name" in each for each in plain):
        return sorted(plain, key=lambda each: str(each["name"]))
    return plain


@_plain.register
def _(tree: dict) -> Json:  # type: ignore[type-arg]
    plain = {key: _plain(value) for key, value in tree.items() if not _is_helms(key)}
    return {key: value for key, value in plain.items() if not (key in ("labels", "annotations") and not value)}


def _is_helms(key: str) -> bool:
    return key in HELMS or key == _CHECKSUM or key.startswith(_HELMS_PREFIX)
