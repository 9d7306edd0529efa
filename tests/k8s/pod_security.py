"""The Pod Security Standard "restricted" with its baseline, as the Kubernetes documentation has it.

`broken(pod)` gives a line for each rule that the pod breaks. A field that isn't there counts as its default.
"""

from collections.abc import Iterator

from tests.k8s.rendering import Json, Pod

VOLUMES = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)
SECCOMP = frozenset({"RuntimeDefault", "Localhost"})
SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
SELINUX_TYPES = frozenset({None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})


def broken(pod: Pod) -> list[str]:
    """What the pod does against the standard."""
    lines = list(_of_pod(pod.spec))
    for container in pod.containers:
        lines += [f"{container['name']}: {line}" for line in _of_container(container, pod.spec)]
    return lines


def _of_pod(spec: Json) -> Iterator[str]:
    yield from (f"{key} is set" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    for volume in spec.get("volumes", ()):
        if not volume.keys() - {"name"} <= VOLUMES:
            yield f"volume {volume['name']} is of a kind that is not allowed"
    for sysctl in spec.get("securityContext", {}).get("sysctls", ()):
        if sysctl["name"] not in SAFE_SYSCTLS:
            yield f"sysctl {sysctl['name']} is not safe"


def _of_container(container: Json, spec: Json) -> Iterator[str]:
    own, shared = container.get("securityContext", {}), spec.get("securityContext", {})
    both = shared | own  # the container's word counts more
    if own.get("privileged"):
        yield "it is privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    if own.get("capabilities", {}).get("drop") != ["ALL"]:
        yield "it does not drop ALL capabilities"
    if not set(own.get("capabilities", {}).get("add", ())) <= {"NET_BIND_SERVICE"}:
        yield "it adds capabilities"
    if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
        yield "it may run as root"
    if both.get("seccompProfile", {}).get("type") not in SECCOMP:
        yield "it has no seccomp profile"
    if own.get("procMount", "Default") != "Default":
        yield "its /proc is not masked"
    if both.get("windowsOptions", {}).get("hostProcess"):
        yield "it is a process of the host"
    if both.get("appArmorProfile", {}).get("type", "RuntimeDefault") not in SECCOMP:
        yield "it has no AppArmor profile"
    yield from _of_selinux(both.get("seLinuxOptions", {}))
    yield from ("it takes a port of the host" for port in container.get("ports", ()) if port.get("hostPort"))
    yield from _of_hooks(container)


def _of_selinux(options: Json) -> Iterator[str]:
    if options.get("type") not in SELINUX_TYPES or options.get("user") or options.get("role"):
        yield "it has SELinux options that are not allowed"


def _of_hooks(container: Json) -> Iterator[str]:
    """Probes and hooks go to the pod itself: with a host of its own one would make the kubelet call anybody."""
    probes = [container.get(name, {}) for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    for handler in [*probes, *container.get("lifecycle", {}).values()]:
        if any(handler.get(kind, {}).get("host") for kind in ("httpGet", "tcpSocket")):
            yield "a probe or hook names a host"
