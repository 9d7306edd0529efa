"""No pod is more than it has to be."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.k8s.pod_security import broken
from tests.k8s.rendering import Json, Pod, of_kind, pods, rendered

OUR_USER = 10001


def test_every_pod_keeps_to_the_restricted_standard(objects: tuple[Json, ...]) -> None:
    assert {pod.name: broken(pod) for pod in pods(objects)} == {pod.name: [] for pod in pods(objects)}


def test_the_namespace_enforces_it(objects: tuple[Json, ...]) -> None:
    (namespace,) = of_kind(objects, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_every_root_file_system_is_read_only(objects: tuple[Json, ...]) -> None:
    for pod in pods(objects):
        for container in pod.containers:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_our_processes_are_the_images_user_whose_volume_they_can_write(ours: list[Pod]) -> None:
    for pod in ours:
        context = pod.spec["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == (OUR_USER, OUR_USER)
        if pod.workload["spec"].get("volumeClaimTemplates"):
            assert context["fsGroup"] == OUR_USER


def test_no_pod_has_a_token_or_variables_of_other_services(objects: tuple[Json, ...]) -> None:
    for pod in pods(objects):
        assert pod.spec["automountServiceAccountToken"] is False
        assert pod.spec["enableServiceLinks"] is False


def test_every_container_says_what_it_needs_and_what_it_gets(objects: tuple[Json, ...]) -> None:
    for pod in pods(objects):
        for container in pod.containers:
            resources = container["resources"]
            assert {"cpu", "memory"} <= resources["requests"].keys()
            assert "memory" in resources["limits"]
        assert all("sizeLimit" in each["emptyDir"] for each in pod.spec.get("volumes", ()) if "emptyDir" in each)


OFFENCES: dict[str, Callable[[Json], object]] = {
    "hostNetwork is set": lambda spec: spec.update(hostNetwork=True),
    "volume tmp is of a kind that is not allowed": lambda spec: spec.update(volumes=[{"name": "tmp", "hostPath": {}}]),
    "sysctl kernel.msgmax is not safe": lambda spec: spec["securityContext"].update(
        sysctls=[{"name": "kernel.msgmax"}]
    ),
    "proxy: it is privileged": lambda spec: own(spec).update(privileged=True),
    "proxy: allowPrivilegeEscalation is not false": lambda spec: own(spec).pop("allowPrivilegeEscalation"),
    "proxy: it does not drop ALL capabilities": lambda spec: own(spec).update(capabilities={"drop": ["CHOWN"]}),
    "proxy: it adds capabilities": lambda spec: own(spec)["capabilities"].update(add=["SYS_ADMIN"]),
    "proxy: it may run as root": lambda spec: own(spec).update(runAsUser=0),
    "proxy: it has no seccomp profile": lambda spec: spec["securityContext"].pop("seccompProfile"),
    "proxy: its /proc is not masked": lambda spec: own(spec).update(procMount="Unmasked"),
    "proxy: it is a process of the host": lambda spec: own(spec).update(windowsOptions={"hostProcess": True}),
    "proxy: it has no AppArmor profile": lambda spec: own(spec).update(appArmorProfile={"type": "Unconfined"}),
    "proxy: it has SELinux options that are not allowed": lambda spec: own(spec).update(seLinuxOptions={"role": "r"}),
    "proxy: it takes a port of the host": lambda spec: spec["containers"][0]["ports"][0].update(hostPort=1),
    "proxy: a probe or hook names a host": lambda spec: spec["containers"][0]["livenessProbe"]["httpGet"].update(
        host="a"
    ),
}


def own(spec: Json) -> Json:
    """The security context of the container itself."""
    context = spec["containers"][0]["securityContext"]
    assert isinstance(context, dict)
    return context


@pytest.mark.parametrize("line", OFFENCES)
def test_each_offence_is_found(line: str) -> None:
    (pod,) = (pod for pod in pods(rendered("dev")) if pod.component == "proxy")
    offender = replace(pod, spec=copy.deepcopy(pod.spec))
    OFFENCES[line](offender.spec)
    assert broken(offender) == [line]
