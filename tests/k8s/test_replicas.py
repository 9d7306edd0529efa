"""Shards with replicas: those of one shard know each other, are apart, and go one at a time."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ternmq_common.server_settings import BrokerServerSettings
from tests.k8s.reachability import End, allowed
from tests.k8s.rendering import (
    K8S,
    Json,
    Pod,
    named,
    of_kind,
    pods,
    rendered,
    rendered_folder,
    secrets_made_by_hand,
    selects,
    settings_and_secrets,
)
from tests.k8s.test_guide import commands, production_after
from tests.k8s.test_settings import settings

STORAGE = 10911


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, ...]:
    """Production after what the README says of replicas."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(K8S, folder / "k8s")
    return production_after(folder, commands("Replicas"))


def brokers(objects: tuple[Json, ...]) -> list[list[Pod]]:
    """The pods of each shard."""
    first = [pod for pod in pods(objects) if pod.component == "broker"]
    return [
        [
            replace(pod, name=f"{pod.workload['metadata']['name']}-{number}")
            for number in range(pod.workload["spec"]["replicas"])
        ]
        for pod in first
    ]


def test_every_pod_of_a_shard_is_one_replica_of_it_by_its_own_name(production: tuple[Json, ...]) -> None:
    known = settings_and_secrets([*production, *secrets_made_by_hand("production")])
    for number, shard in enumerate(brokers(production)):
        loaded = [settings(pod, known) for pod in shard]
        assert len(loaded) == 3
        for pod, each in zip(shard, loaded, strict=True):
            assert isinstance(each, BrokerServerSettings)
            assert (each.broker_name, each.replicas, each.replica_name) == (f"broker-{number}", 3, pod.name)
            assert each.advertised_storage == f"{pod.name}.broker-{number}.{pod.namespace}.svc:{STORAGE}"


def test_replicas_of_a_shard_have_hosts_of_their_own_and_may_share_them_with_other_shards(
    production: tuple[Json, ...],
) -> None:
    shards = brokers(production)
    assert len(shards) == 2
    for shard in shards:
        affinity = shard[0].spec["affinity"]["podAntiAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        for other in shards:
            assert selects(term["labelSelector"], other[0].labels) is (other is shard)


def test_for_trying_out_one_host_is_enough() -> None:
    ((pod, *_),) = brokers(rendered("replicated"))
    affinity = pod.spec["affinity"]["podAntiAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in affinity
    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert selects(preferred["podAffinityTerm"]["labelSelector"], pod.labels)


def test_replicas_of_one_shard_reach_each_other_and_those_of_another_do_not(production: tuple[Json, ...]) -> None:
    ends = [[End(pod.name, pod.namespace, pod.labels) for pod in shard] for shard in brokers(production)]
    for shard in ends:
        for source in shard:
            for other in ends:
                for target in other:
                    assert allowed(production, source, target, STORAGE) is (other is shard)
    (proxy,) = (End("proxy", pod.namespace, pod.labels) for pod in pods(production) if pod.component == "proxy")
    assert all(allowed(production, proxy, end, STORAGE) for shard in ends for end in shard)


def test_one_replica_of_each_shard_may_be_away_and_each_starts_without_the_others(production: tuple[Json, ...]) -> None:
    budgets = of_kind(production, "PodDisruptionBudget")
    for shard in brokers(production):
        (budget,) = (each for each in budgets if selects(each["spec"]["selector"], shard[0].labels))
        assert budget["spec"]["maxUnavailable"] == 1
        assert shard[0].workload["spec"]["podManagementPolicy"] == "Parallel"
        (container,) = shard[0].containers
        assert "lifecycle" not in container  # SIGTERM has another replica lead


def test_brokers_without_replicas_stay_as_they_are(tmp_path: Path) -> None:
    """Only the shard whose folder has the component gets replicas."""
    shutil.copytree(K8S, tmp_path / "k8s")
    lines = [line for line in commands("Replicas") if line.startswith(("cd ", "printf "))]
    shard = tmp_path / "k8s/overlays/production/shards/1/kustomization.yaml"
    shard.write_text(shard.read_text() + "components:\n  - ../../../../components/replicated\n")
    assert lines
    objects = rendered_folder(tmp_path / "k8s/overlays/production")
    assert named(objects, "StatefulSet", "broker-0") == named(rendered("production"), "StatefulSet", "broker-0")
    assert [len(each) for each in brokers(objects)] == [1, 3]


def test_the_readme_names_every_replica_that_a_certificate_is_for(production: tuple[Json, ...]) -> None:
    section = (K8S / "README.md").read_text().split("\n## Replicas\n")[1].split("\n## ")[0]
    for shard in brokers(production):
        for pod in shard[1:]:
            assert f"--host {pod.name}.{pod.workload['spec']['serviceName']}.{pod.namespace}.svc" in section
