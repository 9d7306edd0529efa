"""Who can open a connection to whom, by NetworkPolicies as the API describes them.

A connection needs leave at both ends. An end that no policy of that direction selects gives it to everybody; one that
is selected gives it to what any rule of any of those policies names. Who is outside of the cluster is an address.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.k8s.rendering import Json, of_kind, selects


@dataclass(frozen=True, eq=False)
class End:
    """A pod, or what isn't one: then it has an address and no labels."""

    name: str
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "10.128.0.1"


def allowed(objects: Sequence[Json], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    """Whether the connection is allowed at both of its ends."""
    policies = of_kind(objects, "NetworkPolicy")
    return _lets(policies, "Egress", source, target, port, protocol) and _lets(
        policies, "Ingress", target, source, port, protocol
    )


def _lets(policies: Sequence[Json], direction: str, end: End, other: End, port: int, protocol: str) -> bool:
    specs = [each["spec"] for each in policies if _is_about(each, direction, end)]
    rules = [rule for spec in specs for rule in spec.get(direction.lower(), ())]
    peers = "to" if direction == "Egress" else "from"
    return not specs or any(
        _names_port(rule, port, protocol) and _names_peer(rule, peers, other, policies) for rule in rules
    )


def _is_about(policy: Json, direction: str, end: End) -> bool:
    spec = policy["spec"]
    return (
        policy["metadata"]["namespace"] == end.namespace
        and direction in spec["policyTypes"]
        and selects(spec["podSelector"], end.labels)
    )


def _names_port(rule: Json, port: int, protocol: str) -> bool:
    return "ports" not in rule or any(
        (each["port"], each.get("protocol", "TCP")) == (port, protocol) for each in rule["ports"]
    )


def _names_peer(rule: Json, key: str, other: End, policies: Sequence[Json]) -> bool:
    home = policies[0]["metadata"]["namespace"]
    return key not in rule or any(_is_peer(peer, other, home) for peer in rule[key])


def _is_peer(peer: Json, other: End, home: str) -> bool:
    if "ipBlock" in peer:
        assert peer["ipBlock"].keys() == {"cidr"}
        return ipaddress.ip_address(other.address) in ipaddress.ip_network(peer["ipBlock"]["cidr"])
    if other.namespace is None:
        return False
    # Every namespace has a label with its name.
    there = {"kubernetes.io/metadata.name": other.namespace}
    in_place = selects(peer["namespaceSelector"], there) if "namespaceSelector" in peer else other.namespace == home
    return in_place and selects(peer.get("podSelector", {}), other.labels)
