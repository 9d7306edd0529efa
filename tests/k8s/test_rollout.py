"""What may be away at a time: by rollouts, by drains of nodes, by the autoscaler."""

from tests.k8s.rendering import Json, Pod, named, of_kind, pods, rendered, selects


def least_replicas(objects: tuple[Json, ...], workload: Json) -> int:
    """How many pods a workload has when there is least to do."""
    for each in of_kind(objects, "HorizontalPodAutoscaler"):
        target = each["spec"]["scaleTargetRef"]
        if (target["kind"], target["name"]) == (workload["kind"], workload["metadata"]["name"]):
            return int(each["spec"]["minReplicas"])
    return int(workload["spec"]["replicas"])


def test_each_kind_of_process_has_one_budget_that_lets_one_go(objects: tuple[Json, ...], ours: list[Pod]) -> None:
    """And each shard with replicas one of its own."""
    budgets = of_kind(objects, "PodDisruptionBudget")
    for component in ("broker", "proxy"):
        members = [pod for pod in ours if pod.component == component]
        for pod in members:
            # Two for a pod would forbid every eviction.
            (budget,) = (each for each in budgets if selects(each["spec"]["selector"], pod.labels))
            under_it = [each for each in members if selects(budget["spec"]["selector"], each.labels)]
            assert under_it == ([pod] if is_replicated(pod) else [each for each in members if not is_replicated(each)])
            assert budget["spec"]["maxUnavailable"] == 1
    assert len(budgets) == 2 + sum(is_replicated(pod) for pod in ours)


def is_replicated(pod: Pod) -> bool:
    """Whether it is one of several replicas of its shard."""
    return "ternmq/replicated" in pod.labels


def test_production_goes_on_while_one_is_away() -> None:
    objects = rendered("production")
    for component in ("broker", "proxy"):
        workloads = [pod.workload for pod in pods(objects) if pod.component == component]
        assert sum(least_replicas(objects, each) for each in workloads) >= 2


def test_a_rollout_of_proxies_takes_none_away_before_another_is_ready(objects: tuple[Json, ...]) -> None:
    spec = named(objects, "Deployment", "proxy")["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    (container,) = spec["template"]["spec"]["containers"]
    assert container["lifecycle"]["preStop"]["sleep"]["seconds"] >= 5
    assert "readinessProbe" in container


def test_an_apply_does_not_restart_all_shards_at_once(objects: tuple[Json, ...], ours: list[Pod]) -> None:
    assert of_kind(objects, "StatefulSet")
    for pod in (each for each in ours if each.component == "broker"):
        # Of a shard with replicas one pod goes after the other.
        wanted = ("RollingUpdate", 3) if is_replicated(pod) else ("OnDelete", 1)
        assert (pod.workload["spec"]["updateStrategy"]["type"], pod.workload["spec"]["replicas"]) == wanted


def test_brokers_are_on_different_hosts_and_proxies_are_spread(ours: list[Pod]) -> None:
    brokers = [pod for pod in ours if pod.component == "broker" and not is_replicated(pod)]
    for pod in brokers:
        (term,) = pod.spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        assert all(selects(term["labelSelector"], other.labels) for other in brokers)
    for pod in (each for each in ours if each.component == "proxy"):
        constraints = pod.spec["topologySpreadConstraints"]
        assert {each["topologyKey"] for each in constraints} == {
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
        }
        assert all(selects(each["labelSelector"], pod.labels) for each in constraints)


def test_volumes_outlive_whatever_is_deleted(objects: tuple[Json, ...]) -> None:
    for each in of_kind(objects, "StatefulSet"):
        policy = each["spec"]["persistentVolumeClaimRetentionPolicy"]
        assert policy == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_every_image_has_a_version(objects: tuple[Json, ...]) -> None:
    for pod in pods(objects):
        for container in pod.containers:
            name, _, tag = container["image"].rpartition("/")[2].partition(":")
            assert name
            assert tag not in {"", "latest"}


def test_processes_of_one_version_go_together(ours: list[Pod]) -> None:
    assert len({each["image"].rpartition(":")[2] for pod in ours for each in pod.containers}) == 1
