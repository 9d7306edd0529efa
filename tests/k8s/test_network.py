"""The network lets through what the processes need, and nothing else."""

import itertools

import pytest

from tests.k8s.reachability import End, allowed
from tests.k8s.rendering import Json, named, pods

DNS = End("dns", "kube-system", {"k8s-app": "kube-dns"})
PROMETHEUS = End("prometheus", "monitoring", {"app.kubernetes.io/name": "prometheus"})
CLIENT = End("client", "shop", {"app": "checkout"})
# Somebody who put our labels onto a pod of theirs.
IMPOSTOR = End("impostor", "shop", {"app.kubernetes.io/name": "ternmq", "app.kubernetes.io/component": "proxy"})
OUTSIDE = End("outside", address="203.0.113.9")
DATABASE = End("postgres", address="192.0.2.10")
STRANGERS = [DNS, PROMETHEUS, CLIENT, IMPOSTOR, OUTSIDE]

PORTS = [
    (53, "UDP"),
    (53, "TCP"),
    (443, "TCP"),
    (5432, "TCP"),
    (6443, "TCP"),
    (8081, "TCP"),
    (8082, "TCP"),
    (9876, "TCP"),
    (10911, "TCP"),
]
REGISTRY_CLIENTS = ("broker", "proxy", "migration")
NEEDED = {
    *((who, "dns", port) for who in REGISTRY_CLIENTS for port in ((53, "UDP"), (53, "TCP"))),
    *((who, "postgres", (5432, "TCP")) for who in REGISTRY_CLIENTS),
    ("proxy", "broker", (10911, "TCP")),
    *(
        (who, "proxy", (port, "TCP"))
        for port in (8081, 9876)
        for who in ("dns", "prometheus", "client", "impostor", "outside")
    ),
    *(("prometheus", whom, (8082, "TCP")) for whom in ("proxy", "broker")),
}
# A client like any other, whose labels don't make it one of those that the registry lets in.
NEEDED_BY_LAKE = {("lake", "dns", (53, "UDP")), ("lake", "dns", (53, "TCP")), ("lake", "proxy", (8081, "TCP"))}


def ends(objects: tuple[Json, ...]) -> list[End]:
    """The overlay's pods, and what is around them."""
    ours = [End(pod.component, pod.namespace, pod.labels) for pod in pods(objects)]
    database = [] if any(end.name == "postgres" for end in ours) else [DATABASE]
    return [*ours, *database, *STRANGERS]


def test_the_edges_are_exactly_those_that_are_needed(objects: tuple[Json, ...]) -> None:
    everybody = ends(objects)
    elsewhere = {end.name for end in [*STRANGERS, DATABASE] if end in everybody}
    open_edges = {
        (source.name, target.name, port)
        for source, target in itertools.permutations(everybody, 2)
        for port in PORTS
        # What strangers do among themselves is no business of these policies, and a database calls nobody.
        if source is not DATABASE
        and not {source.name, target.name} <= elsewhere
        and allowed(objects, source, target, *port)
    }
    has_lake = any(end.name == "lake" for end in everybody)
    assert open_edges == (NEEDED | NEEDED_BY_LAKE if has_lake else NEEDED)


def test_brokers_of_different_shards_have_no_business_with_each_other(objects: tuple[Json, ...]) -> None:
    brokers = [end for end in ends(objects) if end.name == "broker"]
    for source, target in itertools.permutations(brokers, 2):
        assert not any(allowed(objects, source, target, *port) for port in PORTS)


def test_without_the_policies_everything_is_open(objects: tuple[Json, ...]) -> None:
    """So that the model can't pass by refusing everything."""
    open_to_all = [each for each in objects if each["kind"] != "NetworkPolicy"]
    everybody = ends(objects)
    assert all(allowed(open_to_all, *pair, 10911) for pair in itertools.permutations(everybody, 2))


@pytest.mark.parametrize("policy", ["default-deny", "dns", "proxy", "broker", "registry"])
def test_no_policy_is_there_for_nothing(objects: tuple[Json, ...], policy: str) -> None:
    without = [each for each in objects if each is not named(objects, "NetworkPolicy", policy)]
    everybody = ends(objects)
    pairs = list(itertools.permutations(everybody, 2))
    assert any(allowed(objects, *pair, *port) != allowed(without, *pair, *port) for pair in pairs for port in PORTS)
