"""Every object is what Kubernetes knows: no field is misspelt, no name is too long, nothing is there twice."""

import re

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from tests.k8s.rendering import CACHE, Json, of_kind, pods, secrets_made_by_hand

# From the release that knows the preStop hook `sleep` without being asked to, to the newest that there is a schema of.
VERSIONS = ("1.30", "1.37")
# Of the Prometheus operator: kinds that Kubernetes itself has no schema of.
DEFINITIONS = {
    "ServiceMonitor": CACHE / "servicemonitors-v0.94.0.yaml",
    "PrometheusRule": CACHE / "prometheusrules-v0.94.0.yaml",
}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@pytest.mark.parametrize("version", VERSIONS)
def test_each_object_has_the_fields_of_its_kind_and_no_others(
    objects: tuple[Json, ...], overlay: str, version: str
) -> None:
    for each in [*objects, *secrets_made_by_hand(overlay)]:
        if each["kind"] not in DEFINITIONS:
            assert kubernetes_validate.validate(each, version, strict=True) == version


def test_what_is_the_operators_is_right_to_it(objects: tuple[Json, ...]) -> None:
    for each in of_kind(objects, *DEFINITIONS):
        of_operator(each["kind"]).validate(each)


def test_the_schemas_refuse_a_field_that_does_not_exist(objects: tuple[Json, ...]) -> None:
    deployment = next(iter(of_kind(objects, "Deployment")))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment | {"spec": {**deployment["spec"], "replica": 1}}, "1.37", strict=True)
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "a"}}
    spec = {"selector": {}, "endpoints": [{"port": "http", "scrapeInterval": "15s"}]}
    with pytest.raises(jsonschema.ValidationError):
        of_operator("ServiceMonitor").validate(monitor | {"spec": spec})
    rule = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": {"name": "a"}}
    groups = [{"name": "a", "rules": [{"alert": "A", "expr": "up == 0", "form": "1m"}]}]
    with pytest.raises(jsonschema.ValidationError):
        of_operator("PrometheusRule").validate(rule | {"spec": {"groups": groups}})


def test_names_are_unique_and_can_be_names(objects: tuple[Json, ...]) -> None:
    keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(set(keys)) == len(keys)
    for each in objects:
        assert _NAME.fullmatch(each["metadata"]["name"]), each["metadata"]["name"]
        for value in each["metadata"].get("labels", {}).values():
            assert _LABEL_VALUE.fullmatch(value), value
    for pod in pods(objects):
        # A StatefulSet's pods get its name and a revision's hash as a label, so it must be shorter than others.
        assert len(pod.workload["metadata"]["name"]) <= 52
        for container in pod.containers:
            for port in container.get("ports", ()):
                assert _PORT_NAME.fullmatch(port["name"]), port


def test_everything_is_in_the_overlays_namespace(objects: tuple[Json, ...]) -> None:
    (namespace,) = of_kind(objects, "Namespace")
    others = {each["metadata"]["namespace"] for each in objects if each["kind"] != "Namespace"}
    assert others == {namespace["metadata"]["name"]}


def of_operator(kind: str) -> jsonschema.Draft202012Validator:
    """By the operator's definition, closed: the API server would drop unknown fields without a word. It is not checked
    itself, since some of its patterns are Go's and not Python's."""
    file = DEFINITIONS[kind]
    assert file.exists(), f"{file.name} is missing: run tests/k8s/install_tools.sh, as tools/check does"
    definition = yaml.safe_load(file.read_text())
    (version,) = (each for each in definition["spec"]["versions"] if each["name"] == "v1")
    schema = closed(version["schema"]["openAPIV3Schema"])
    # What belongs to every object is left out of definitions.
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(schema)


def closed(schema: Json) -> Json:
    """A copy that refuses fields which the schema doesn't list."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: closed(inner) for name, inner in schema["properties"].items()}
        result.setdefault("additionalProperties", False)
    if isinstance(schema.get("items"), dict):
        result["items"] = closed(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = closed(schema["additionalProperties"])
    return result
