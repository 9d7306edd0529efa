"""What Prometheus and Grafana get in Kubernetes is what the compose file's get."""

import json
import re

import yaml

from tests.k8s.rendering import ROOT, Json, Pod, named, of_kind, pods, rendered, selects

DEPLOY = ROOT / "deploy/observability"
COMPONENT_LABEL = "__meta_kubernetes_service_label_app_kubernetes_io_component"
# What `kubectl apply` keeps of an object beside it is an annotation, and these are bounded.
ANNOTATIONS_BYTES_MAX = 256 * 1024


def test_the_rules_are_the_alerts() -> None:
    rule = named(rendered("production"), "PrometheusRule", "ternmq")
    assert rule["spec"] == yaml.safe_load((DEPLOY / "alerts.yml").read_text())


def test_the_dashboard_is_the_dashboard_where_the_sidecar_finds_it() -> None:
    dashboard = named(rendered("production"), "ConfigMap", "ternmq-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    ((name, text),) = dashboard["data"].items()
    assert name.endswith(".json")
    assert json.loads(text) == json.loads((DEPLOY / "grafana/dashboards/ternmq.json").read_text())
    assert len(json.dumps(dashboard)) < ANNOTATIONS_BYTES_MAX


def test_the_jobs_are_those_of_the_compose_file_and_an_instance_is_a_pod() -> None:
    objects = rendered("production")
    (endpoint,) = named(objects, "ServiceMonitor", "ternmq")["spec"]["endpoints"]
    labels = [relabeled(endpoint["relabelings"], pod, service) for pod, service in scraped(objects)]
    assert {each["job"] for each in labels} == {"ternmq-broker", "ternmq-proxy"}
    prometheus = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    assert {each["job"] for each in labels} <= {job["job_name"] for job in prometheus["scrape_configs"]}
    assert sorted(each["instance"] for each in labels) == ["broker-0-0", "broker-1-0", "proxy-7d9f-x2x4z"]


def scraped(objects: tuple[Json, ...]) -> list[tuple[Pod, Json]]:
    """Each pod that the ServiceMonitor finds, by the Service that it finds it by."""
    monitor = named(objects, "ServiceMonitor", "ternmq")["spec"]
    return [
        (pod, service)
        for service in of_kind(objects, "Service")
        if selects(monitor["selector"], service["metadata"]["labels"])
        and monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
        for pod in pods(objects)
        if selects({"matchLabels": service["spec"]["selector"]}, pod.labels)
    ]


def relabeled(relabelings: list[Json], pod: Pod, service: Json) -> dict[str, str]:
    """The labels that these rules make, as Prometheus does where a rule says no more than this."""
    known = {
        COMPONENT_LABEL: service["metadata"]["labels"]["app.kubernetes.io/component"],
        "__meta_kubernetes_pod_name": pod.name,
    }
    made: dict[str, str] = {}
    for rule in relabelings:
        assert rule.keys() <= {"sourceLabels", "targetLabel", "replacement"}
        (source,) = rule["sourceLabels"]
        made[rule["targetLabel"]] = re.sub(r"\$1", known[source], rule.get("replacement", "$1"))
    return made
