"""Command lines and variables are ones that the processes understand, and mean what they should."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import click
import pytest

from ternmq_command.main import cli
from ternmq_common.resources.setting import settings_of
from ternmq_common.server_settings import BrokerServerSettings, MemberSettings, ProxySettings, TlsMode
from ternmq_common.server_settings.exposure import find_exposure
from ternmq_common.settings import load_settings
from tests.k8s.rendering import (
    K8S,
    Json,
    Pod,
    arguments,
    environment,
    named,
    pods,
    rendered,
    rendered_folder,
    secrets_made_by_hand,
    settings_and_secrets,
)

# What kustomize appends to the name of a map or secret that it makes.
_GENERATED = re.compile(r"\b(ternmq(?:-[a-z]+)?)-[a-z0-9]{10}\b")
PROCESSES: dict[str, type[MemberSettings]] = {"broker": BrokerServerSettings, "proxy": ProxySettings}
GUARDED = "  - ../../components/guarded\n"
FILES = (
    "tls_cert",
    "tls_key",
    "cluster_tls_cert",
    "cluster_tls_key",
    "cluster_tls_ca",
    "secrets_key_file",
    "init_secret_file",
)
Known = Mapping[tuple[str, str], Mapping[str, str]]


def parsed(words: list[str]) -> tuple[str, dict[str, object]]:
    """The subcommand that the words call, and the values that its own options got; click refuses unknown ones."""
    command: click.Command = cli
    name, rest = "ternmq", list(words)
    context: click.Context | None = None
    while isinstance(command, click.Group) and rest and rest[0] in command.list_commands(click.Context(command)):
        context = click.Context(command, info_name=name, parent=context)
        inner = command.get_command(context, rest[0])
        assert inner is not None
        command, name = inner, f"{name} {rest.pop(0)}"
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        raise click.UsageError(f"{name} has no command {rest[0]}")
    return name, command.make_context(name, rest, parent=context).params


def settings(pod: Pod, known: Known) -> MemberSettings:
    """What the pod's process would run with."""
    (container,) = pod.containers
    variables = environment(pod, container, known)
    name, values = parsed(arguments(container, variables))
    cls = PROCESSES[name.removeprefix("ternmq ")]
    flags = {key: value for key, value in values.items() if key in cls.__dataclass_fields__}
    return load_settings(cls, file=None, environ=variables, flags=flags).settings


def test_every_word_and_variable_is_understood(ours: list[Pod], known: Known) -> None:
    for pod in ours:
        if pod.component in PROCESSES:
            assert isinstance(settings(pod, known), PROCESSES[pod.component])


def test_the_migration_is_the_commands(ours: list[Pod], known: Known) -> None:
    (pod,) = (each for each in ours if each.component == "migration")
    (container,) = pod.containers
    variables = environment(pod, container, known)
    name, _ = parsed(arguments(container, variables))
    assert name == "ternmq registry migrate"
    assert {key for key in variables if key.startswith("TERNMQ_")} == {settings_of(MemberSettings)["registry"].variable}


def test_nothing_is_left_unexpanded(ours: list[Pod], known: Known) -> None:
    for pod in ours:
        (container,) = pod.containers
        assert not [word for word in arguments(container, environment(pod, container, known)) if "$(" in word]


def test_brokers_have_names_of_their_own_and_share_a_registry_with_the_proxies(ours: list[Pod], known: Known) -> None:
    members = [settings(pod, known) for pod in ours if pod.component in PROCESSES]
    brokers = [each for each in members if isinstance(each, BrokerServerSettings)]
    assert sorted(each.broker_name for each in brokers) == [f"broker-{number}" for number in range(len(brokers))]
    assert len({each.advertised_storage for each in brokers}) == len(brokers)
    assert len({each.registry for each in members}) == 1


def test_the_shards_number_is_the_same_in_names_and_label(ours: list[Pod]) -> None:
    for pod in (each for each in ours if each.component == "broker"):
        assert pod.workload["metadata"]["name"] == f"broker-{pod.labels['ternmq/shard']}"


def test_the_password_is_in_its_variable_only(ours: list[Pod], known: Known) -> None:
    for pod in ours:
        (container,) = pod.containers
        variables = environment(pod, container, known)
        password = variables.pop("PGPASSWORD")
        assert password
        (source,) = (each["valueFrom"] for each in container["env"] if each["name"] == "PGPASSWORD")
        assert source.keys() == {"secretKeyRef"}
        assert urlsplit(variables["TERNMQ_REGISTRY"]).password is None
        assert not [word for word in arguments(container, variables) if password in word]


def test_a_process_has_all_the_time_to_end_that_its_settings_give_it(ours: list[Pod], known: Known) -> None:
    for pod in (each for each in ours if each.component in PROCESSES):
        (container,) = pod.containers
        hook_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        grace_s = settings(pod, known).shutdown_grace_ms / 1000
        # The hook's time counts too, and after the grace the process still closes files and connections.
        assert hook_s + grace_s + 5 <= pod.spec["terminationGracePeriodSeconds"]


def test_dev_reaches_the_postgres_that_it_brings() -> None:
    objects = rendered("dev")
    secrets = {name: data for (kind, name), data in settings_and_secrets(objects).items() if kind == "Secret"}
    (secret,) = secrets.values()
    service = named(objects, "Service", "postgres")
    (container,) = named(objects, "StatefulSet", "postgres")["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each.get("value") for each in container["env"]}
    user, database, port = given["POSTGRES_USER"], given["POSTGRES_DB"], service["spec"]["ports"][0]["port"]
    assert secret["url"] == f"postgresql://{user}@{service['metadata']['name']}:{port}/{database}"


def test_what_containers_prove_of_dev_holds_for_production(tmp_path: Path) -> None:
    """`test_in_containers.py` runs dev's containers; production's differ in what they may use and in the guard, and in
    nothing else."""
    unguarded = unguarded_production(tmp_path)
    dev, production = (
        {pod.component: pod for pod in pods(objects) if pod.component in {*PROCESSES, "migration"}}
        for objects in (rendered("dev"), unguarded)
    )
    for component, pod in production.items():
        (tried,), (container,) = dev[component].containers, pod.containers
        assert shape(container) == shape(tried)
        assert pod.spec["securityContext"] == dev[component].spec["securityContext"]
        assert pod.spec["volumes"] == dev[component].spec["volumes"]
    settings_of_dev, settings_of_production = named_settings(rendered("dev")), named_settings(unguarded)
    # The maps of the components that one of them has and the other has not (pipeline, dashboard) are no process's.
    shared = settings_of_dev.keys() & settings_of_production.keys()
    assert shared == {"ternmq", "ternmq-proxy", "ternmq-broker"}
    assert all(settings_of_dev[name] == settings_of_production[name] for name in shared)


def unguarded_production(folder: Path) -> tuple[Json, ...]:
    """The overlay without its component `guarded`."""
    shutil.copytree(K8S, folder / "k8s")
    overlay = folder / "k8s/overlays/production/kustomization.yaml"
    text = overlay.read_text()
    assert text.count(GUARDED) == 1
    overlay.write_text(text.replace(GUARDED, ""))
    return rendered_folder(overlay.parent)


@pytest.fixture
def production() -> list[Pod]:
    """Production's brokers and proxies."""
    return [pod for pod in pods(rendered("production")) if pod.component in PROCESSES]


@pytest.fixture
def known_of_production() -> Known:
    return settings_and_secrets([*rendered("production"), *secrets_made_by_hand("production")])


def test_productions_proxies_take_tls_and_users_only_and_probes_in_plain_text(
    production: list[Pod], known_of_production: Known
) -> None:
    (proxy,) = (settings(pod, known_of_production) for pod in production if pod.component == "proxy")
    assert isinstance(proxy, ProxySettings)
    assert (proxy.access_control, proxy.insecure) == (True, False)
    assert (proxy.grpc_tls_mode, proxy.http_tls_mode) == (TlsMode.REQUIRED, TlsMode.OPTIONAL)
    assert find_exposure(proxy) is None


def test_files_of_productions_settings_are_keys_of_secrets_that_the_processes_may_read(
    production: list[Pod], known_of_production: Known
) -> None:
    for pod in production:
        loaded = settings(pod, known_of_production)
        named_ones = {name: getattr(loaded, name, None) for name in FILES}
        wanted = FILES if pod.component == "proxy" else [name for name in FILES if name.startswith("cluster_")]
        assert [name for name, path in named_ones.items() if path is not None] == list(wanted)
        (container,) = pod.containers
        volumes = {each["name"]: each["secret"] for each in pod.spec["volumes"] if "secret" in each}
        folders = {each["mountPath"]: volumes.get(each["name"]) for each in container["volumeMounts"]}
        for path in filter(None, named_ones.values()):
            secret = folders[str(path.parent)]
            assert secret is not None
            assert path.name in known_of_production["Secret", secret["secretName"]]
            # Root's and the group's; whoever else is in the pod reads none of them.
            assert secret["defaultMode"] == 0o440
        assert pod.spec["securityContext"]["fsGroup"] == pod.spec["securityContext"]["runAsGroup"]


def test_only_proxies_have_the_keys_of_users_secrets(production: list[Pod]) -> None:
    having = {pod.component for pod in production if "ternmq-access" in json.dumps(pod.spec)}
    assert having == {"proxy"}


def shape(container: Json) -> Json:
    """A container without the amounts, and with generated names cut off."""
    text = json.dumps({key: value for key, value in container.items() if key != "resources"})
    return cast("Json", json.loads(_GENERATED.sub(r"\1", text)))


def named_settings(objects: tuple[Json, ...]) -> dict[str, dict[str, str]]:
    """What is in the ConfigMaps."""
    found = settings_and_secrets(objects).items()
    return {_GENERATED.sub(r"\1", name): data for (kind, name), data in found if kind == "ConfigMap"}


@pytest.mark.parametrize("words", [["broker", "--brokername=a"], ["proxy", "--data-dir=/tmp"], ["registry", "migrat"]])
def test_a_word_that_no_process_knows_is_found(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parsed(words)
