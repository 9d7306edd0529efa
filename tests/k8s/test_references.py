"""Whatever names something else names what is there: selectors, ports, probes, keys, volumes, accounts."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.k8s.rendering import Json, Pod, arguments, environment, named, of_kind, pods, selects

PROBES = {"startupProbe": "/health/started", "livenessProbe": "/health/live", "readinessProbe": "/health/ready"}
LISTENERS = {
    "broker": {"storage": "storage", "http": "http"},
    "proxy": {"grpc": "grpc", "http": "http", "remoting": "remoting"},
}
Known = Mapping[tuple[str, str], Mapping[str, str]]


def served(objects: tuple[Json, ...], service: Json) -> list[Pod]:
    return [pod for pod in pods(objects) if selects({"matchLabels": service["spec"]["selector"]}, pod.labels)]


def ports(pod: Pod) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for each in pod.containers for port in each.get("ports", ())}


def keys_of(tree: Any, kind: str) -> list[Json]:  # noqa: ANN401 - any JSON
    """All values of that key, however deep."""
    if isinstance(tree, dict):
        found = [tree[kind]] if kind in tree else []
        return found + [value for inner in tree.values() for value in keys_of(inner, kind)]
    return [value for inner in tree for value in keys_of(inner, kind)] if isinstance(tree, list) else []


def test_workloads_select_the_pods_that_they_make_and_no_others(objects: tuple[Json, ...]) -> None:
    for each in of_kind(objects, "Deployment", "StatefulSet"):
        selected = [pod.workload for pod in pods(objects) if selects(each["spec"]["selector"], pod.labels)]
        assert selected == [each]


def test_services_lead_to_ports_of_pods(objects: tuple[Json, ...]) -> None:
    for service in of_kind(objects, "Service"):
        assert served(objects, service), service["metadata"]["name"]
        for pod in served(objects, service):
            for port in service["spec"]["ports"]:
                assert port["targetPort"] in ports(pod)


def test_the_clients_services_lead_to_proxies_and_their_ports_for_clients_alone(objects: tuple[Json, ...]) -> None:
    services = [
        each
        for each in of_kind(objects, "Service")
        if each["metadata"]["labels"].get("app.kubernetes.io/component") == "clients"
    ]
    assert services
    for each in services:
        assert {pod.component for pod in served(objects, each)} == {"proxy"}
        inside = each["metadata"]["name"] == "ternmq"
        expected = [(8081, "grpc"), *([(9876, "remoting")] if inside else [])]
        assert [(port["port"], port["targetPort"]) for port in each["spec"]["ports"]] == expected


def test_each_statefulset_has_a_headless_service_of_its_own(objects: tuple[Json, ...]) -> None:
    for each in of_kind(objects, "StatefulSet"):
        service = named(objects, "Service", each["spec"]["serviceName"])
        assert service["spec"]["clusterIP"] == "None"
        assert [pod.workload for pod in served(objects, service)] == [each]


def test_a_broker_advertises_the_name_that_dns_gives_its_pod(
    objects: tuple[Json, ...], ours: list[Pod], known: Known
) -> None:
    for pod in (each for each in ours if each.component == "broker"):
        (container,) = pod.containers
        words = arguments(container, environment(pod, container, known))
        (advertised,) = (word.partition("=")[2] for word in words if word.startswith("--advertised-storage="))
        service = named(objects, "Service", pod.workload["spec"]["serviceName"])
        # Proxies call whom the registry names: a broker that isn't ready must have its name all the same.
        assert service["spec"]["publishNotReadyAddresses"] is True
        port = next(each for each in service["spec"]["ports"] if each["name"] == "storage")
        host = f"{pod.name}.{service['metadata']['name']}.{pod.namespace}.svc"
        assert advertised == f"{host}:{ports(pod)[port['targetPort']]}"


def test_listeners_are_on_the_ports_that_the_container_names(ours: list[Pod], known: Known) -> None:
    for pod in (each for each in ours if each.component in LISTENERS):
        (container,) = pod.containers
        words = dict(word[2:].split("=", 1) for word in arguments(container, environment(pod, container, known))[1:])
        listening = {name: words[flag] for name, flag in LISTENERS[pod.component].items()}
        assert listening == {name: f"0.0.0.0:{port}" for name, port in ports(pod).items()}


def test_the_three_probes_ask_three_questions_on_a_port_that_is_there(ours: list[Pod]) -> None:
    for pod in (each for each in ours if each.component in LISTENERS):
        (container,) = pod.containers
        for probe, path in PROBES.items():
            assert container[probe]["httpGet"] == {"path": path, "port": "http"}


def test_a_process_has_time_to_begin_and_is_not_killed_for_one_slow_answer(ours: list[Pod]) -> None:
    for pod in (each for each in ours if each.component in LISTENERS):
        (container,) = pod.containers
        startup, live = container["startupProbe"], container["livenessProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 120
        assert live["periodSeconds"] * live["failureThreshold"] >= 30


@pytest.mark.parametrize(
    "kind", ["configMapRef", "secretRef", "configMapKeyRef", "secretKeyRef", "configMap", "secret"]
)
def test_settings_and_secrets_that_are_named_are_there(objects: tuple[Json, ...], known: Known, kind: str) -> None:
    for pod in pods(objects):
        for reference in keys_of(pod.spec, kind):
            if reference.get("optional"):
                continue
            name = reference["secretName"] if kind == "secret" else reference["name"]
            holder = known["ConfigMap" if kind.startswith("config") else "Secret", name]
            keys = [reference["key"]] if "key" in reference else [each["key"] for each in reference.get("items", ())]
            assert set(keys) <= holder.keys()


def test_no_setting_and_no_secret_is_there_for_nobody(objects: tuple[Json, ...], known: Known) -> None:
    kinds = {"ConfigMap": ("configMapRef", "configMapKeyRef"), "Secret": ("secretRef", "secretKeyRef", "secret")}
    specs = [pod.spec for pod in pods(objects)]
    references = [(kind, ref) for kind, keys in kinds.items() for key in keys for ref in keys_of(specs, key)]
    named_ones = {(kind, ref.get("secretName") or ref["name"]) for kind, ref in references if not ref.get("optional")}
    assert named_ones | grafanas(objects) == set(known)


def grafanas(objects: tuple[Json, ...]) -> set[tuple[str, str]]:
    """Dashboards, which the sidecar of Grafana finds by their label."""
    maps = (each["metadata"] for each in of_kind(objects, "ConfigMap"))
    return {("ConfigMap", each["name"]) for each in maps if each.get("labels", {}).get("grafana_dashboard") == "1"}


def test_volumes_that_are_mounted_are_there_and_all_are_mounted(objects: tuple[Json, ...]) -> None:
    for pod in pods(objects):
        claims = pod.workload["spec"].get("volumeClaimTemplates", ())
        volumes = {each["name"] for each in pod.spec.get("volumes", ())} | {each["metadata"]["name"] for each in claims}
        mounted = {mount["name"] for each in pod.containers for mount in each.get("volumeMounts", ())}
        assert mounted == volumes


def test_claims_that_are_named_are_there_and_each_is_of_one_pod(objects: tuple[Json, ...]) -> None:
    claims = [ref["claimName"] for pod in pods(objects) for ref in keys_of(pod.spec, "persistentVolumeClaim")]
    assert sorted(claims) == sorted(each["metadata"]["name"] for each in of_kind(objects, "PersistentVolumeClaim"))


def test_a_brokers_data_are_on_its_claim(ours: list[Pod], known: Known) -> None:
    for pod in (each for each in ours if each.component == "broker"):
        (container,) = pod.containers
        words = arguments(container, environment(pod, container, known))
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert f"--data-dir={mounts['data']}" in words
        (claim,) = pod.workload["spec"]["volumeClaimTemplates"]
        assert claim["metadata"]["name"] == "data"


def test_accounts_are_there_and_have_no_token(objects: tuple[Json, ...]) -> None:
    accounts = {each["metadata"]["name"]: each for each in of_kind(objects, "ServiceAccount")}
    assert {pod.spec["serviceAccountName"] for pod in pods(objects)} == accounts.keys()
    assert all(each["automountServiceAccountToken"] is False for each in accounts.values())


def test_the_autoscaler_scales_the_proxies_which_name_no_number_themselves(objects: tuple[Json, ...]) -> None:
    (scaler,) = of_kind(objects, "HorizontalPodAutoscaler")
    target = scaler["spec"]["scaleTargetRef"]
    deployment = named(objects, target["kind"], target["name"])
    assert "replicas" not in deployment["spec"]
    # A share of the CPU is a share of what the containers ask for.
    (metric,) = scaler["spec"]["metrics"]
    assert (metric["resource"]["name"], metric["resource"]["target"]["type"]) == ("cpu", "Utilization")
    assert all("cpu" in each["resources"]["requests"] for each in deployment["spec"]["template"]["spec"]["containers"])


def test_every_process_is_scraped_by_one_service(objects: tuple[Json, ...], ours: list[Pod]) -> None:
    for monitor in of_kind(objects, "ServiceMonitor"):
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["path"] == "/metrics"
        scraped = [
            pod.name
            for service in of_kind(objects, "Service")
            if selects(monitor["spec"]["selector"], service["metadata"]["labels"])
            for port in service["spec"]["ports"]
            if port["name"] == endpoint["port"]
            for pod in served(objects, service)
        ]
        assert sorted(scraped) == sorted(pod.name for pod in ours if pod.component in LISTENERS)
