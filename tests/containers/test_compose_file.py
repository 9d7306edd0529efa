"""docker-compose.yml as it is written: both generations of Compose take it, and it leaves nothing unbounded."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ternmq_common.server_settings import BrokerServerSettings, ProxySettings, TlsMode
from ternmq_common.settings import load_settings
from tests.containers.compose import COMPOSE_FILE, GUARDED_FILE, PROFILES, REPLICATED, ROOT, Stack, described
from tests.interop.programs import Programs

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

SERVICES = sorted(described())
BY_DEFAULT = sorted(name for name, service in described().items() if "profiles" not in service)
DOCKERFILES = ("Dockerfile", "deploy/docker/broker.Dockerfile", "deploy/docker/proxy.Dockerfile")
JOBS = {"registry-migration", "pipeline", "certificates", "secrets"}
# And a program whose image has nothing that could ask it.
WITHOUT_HEALTH = {*JOBS, "otel-collector"}
# What a variable of Compose is without a value.
DEFAULT = re.compile(r"\$\{\w+:-(.*)\}")
OF_THE_GUARD = {"certificates", "secrets"}
MEMBER = re.compile(r"(broker|proxy)-\d+|replica-[a-z]")
OF_THE_IMAGE = {"ternmq-broker", "ternmq-proxy"}


def test_the_compose_of_this_machine_takes_it() -> None:
    profiles = [word for profile in PROFILES for word in ("--profile", profile)]
    assert sorted(Stack().compose(*profiles, "config", "--services").split()) == SERVICES
    guarded = Stack(GUARDED_FILE).compose(*profiles, "config", "--services").split()
    assert sorted(guarded) == sorted({*SERVICES, *OF_THE_GUARD})


def test_compose_v2_takes_it() -> None:
    """By its own library, which checks the file against its schema too."""
    program = Programs("compose-v2", Path(__file__).parent / "compose_v2").build("go") / "program"

    def services(files: str, *profiles: str) -> list[str]:
        return sorted(subprocess.check_output([program, files, *profiles], text=True, timeout=60).split())

    assert services(str(COMPOSE_FILE)) == BY_DEFAULT
    assert services(str(COMPOSE_FILE), *PROFILES) == SERVICES
    assert services(f"{COMPOSE_FILE},{GUARDED_FILE}") == sorted({*BY_DEFAULT, *OF_THE_GUARD})


@pytest.mark.parametrize("name", [*SERVICES, *sorted(OF_THE_GUARD)])
def test_a_service_is_bounded_and_can_become_nobody_else(name: str) -> None:
    service = (described() | {job: described(GUARDED_FILE)[job] for job in OF_THE_GUARD})[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["cpus"]
    assert service["pids_limit"] > 0
    assert service["restart"] == ("no" if name in JOBS else "unless-stopped")
    assert "healthcheck" in service or name in WITHOUT_HEALTH or service["image"] in OF_THE_IMAGE


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_built_here_or_has_a_version(name: str) -> None:
    service = described()[name]
    if "build" in service:
        assert (ROOT / service["build"]["dockerfile"]).is_file()
    else:
        assert re.fullmatch(r"[a-z/-]+:v?\d+(\.\d+)*", service["image"])
        assert service["user"] not in {"root", "0"}


def test_ports_are_published_for_this_machine_alone() -> None:
    published = [port for service in described().values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("${LISTEN_ADDRESS:-127.0.0.1}:") for port in published)


def test_the_guard_lets_no_service_out_and_no_proxy_start_without_asking_who_comes() -> None:
    guarded = described(GUARDED_FILE)
    assert not [name for name, service in guarded.items() if "ports" in service]
    members = [name for name in SERVICES if MEMBER.fullmatch(name)]
    for name in members:
        variables, command = guarded[name]["environment"], guarded[name].get("command", [])
        cls: type[BrokerServerSettings | ProxySettings] = (
            ProxySettings if name.startswith("proxy") else BrokerServerSettings
        )
        environ = {key: DEFAULT.sub(r"\1", value) for key, value in variables.items()}
        loaded = load_settings(cls, file=None, environ=environ, flags={}).settings
        assert loaded.cluster_tls_ca == Path("/etc/ternmq/certificates/cluster-ca.pem")
        if isinstance(loaded, ProxySettings):
            assert (loaded.access_control, loaded.insecure) == (True, False)
            assert loaded.grpc_tls_mode is TlsMode.REQUIRED
            assert loaded.secrets_key_file
            assert loaded.init_secret_file
            assert command
            assert "--insecure" not in command
    hosts = re.findall(r"--host (\S+)", guarded["certificates"]["command"][0])
    assert sorted(hosts) == sorted(["load-balancer", *members])


def test_our_images_have_one_way_of_being_built() -> None:
    """The stage `build` is the same text in all of them, which is what makes the engine build it once."""
    stages = {(ROOT / name).read_text().partition("FROM ${PYTHON_IMAGE} AS build")[2].partition("FROM scratch")[0]
              for name in DOCKERFILES}  # fmt: skip
    assert len(stages) == 1
    assert "environment.sh" in stages.pop()


def test_every_broker_and_proxy_is_known_to_those_in_front_of_it() -> None:
    members = [name for name in BY_DEFAULT if MEMBER.fullmatch(name)]
    prometheus = yaml.safe_load((ROOT / "deploy/observability/prometheus.yml").read_text())
    scraped = {job["job_name"]: job for job in prometheus["scrape_configs"]}
    (replicas,) = scraped.pop("ternmq-replica")["dns_sd_configs"]
    assert replicas["names"] == [
        name for name, service in described().items() if REPLICATED in service.get("profiles", ())
    ]
    jobs = {name: job["static_configs"][0]["targets"] for name, job in scraped.items()}
    assert sorted(jobs["ternmq-broker"] + jobs["ternmq-proxy"]) == [f"{name}:8082" for name in members]
    written = (ROOT / "deploy/haproxy/haproxy.cfg").read_text()
    for port in (8081, 9876):
        balanced = re.findall(rf"^    server (\S+) \1:{port}$", written, re.MULTILINE)
        assert balanced == 2 * [name for name in members if name.startswith("proxy-")]  # those ready, and those alive


def test_the_replicas_are_those_of_one_shard_and_each_has_a_volume_of_its_own() -> None:
    replicas = {name: service for name, service in described().items() if name.startswith("replica-")}
    loaded = {
        name: load_settings(BrokerServerSettings, file=None, environ=server_variables(service), flags={}).settings
        for name, service in replicas.items()
    }
    assert {each.broker_name for each in loaded.values()} == {"shard-0"}
    assert {each.replicas for each in loaded.values()} == {len(replicas)}
    assert len({each.replica_name for each in loaded.values()}) == len(replicas)
    for name, service in replicas.items():
        assert loaded[name].advertised_storage == f"{name}:10911"
        assert service["volumes"] == [f"{name}:/var/lib/ternmq"]


def server_variables(service: dict[str, Any]) -> dict[str, str]:
    """Those of a service that have a value whoever calls."""
    return {key: value for key, value in service["environment"].items() if key.startswith("TERNMQ_") and value}


def test_what_grafana_is_given_fits_together() -> None:
    provisioning = ROOT / "deploy/observability/grafana/provisioning"
    source = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"][0]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    provider = yaml.safe_load((provisioning / "dashboards/ternmq.yml").read_text())["providers"][0]
    mounted = [volume.split(":")[1] for volume in described()["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted


def test_the_collector_sends_on_all_that_it_takes() -> None:
    """Each part that is described is used, and each that is used is described."""
    collector = yaml.safe_load((ROOT / "deploy/observability/otel-collector.yml").read_text())
    pipelines = collector["service"]["pipelines"]
    assert sorted(pipelines) == ["metrics", "traces"]
    for kind in ("receivers", "processors", "exporters"):
        used = {part for pipeline in pipelines.values() for part in pipeline[kind]}
        assert used == set(collector[kind])
    assert all(pipeline["processors"][0] == "memory_limiter" for pipeline in pipelines.values())
