"""The images of a cluster's processes: small, nobody's root, and the command that they are made for."""

import json

import pytest

from tests.containers.compose import ROOT, docker, inspected

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

MEGABYTE = 1_000_000
# Of which the libraries of the console are four, and those for bodies that producers compress two.
SIZE_MAX = 165 * MEGABYTE
BUILT = {
    "broker": "deploy/docker/broker.Dockerfile",
    "proxy": "deploy/docker/proxy.Dockerfile",
    "embedded": "Dockerfile",
}


@pytest.fixture(scope="module", params=sorted(BUILT))
def built(request: pytest.FixtureRequest) -> str:
    """The name of each image in turn."""
    name = f"ternmq-tests-{request.param}"
    docker("build", "--tag", name, "--file", str(ROOT / BUILT[request.param]), str(ROOT), timeout_s=500)
    return name


def test_it_is_small(built: str) -> None:
    assert inspected(built)["Size"] < SIZE_MAX


def test_its_user_is_a_number_and_not_root(built: str) -> None:
    """Kubernetes can't tell of a name whether it is root."""
    assert inspected(built)["Config"]["User"] == "10001"
    assert docker("run", "--rm", "--entrypoint", "id", built, "-u") == "10001"


def test_its_root_can_be_read_only_and_needs_no_capability(built: str) -> None:
    bounds = ("--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none")
    assert docker("run", *bounds, built, "version").startswith("ternmq ")


def test_it_has_no_package_manager_and_no_setuid_program(built: str) -> None:
    assert in_python(built, "import shutil; print([*filter(shutil.which, ('apt', 'dpkg', 'perl', 'pip'))])") == "[]"
    programs = "[name for folder, _, names in os.walk('/usr') for name in names if s_ids(f'{folder}/{name}')]"
    s_ids = "s_ids = lambda path: os.lstat(path).st_mode & 0o6000"
    assert in_python(built, f"import os; {s_ids}; print({programs})") == "[]"


def test_everything_that_it_may_have_to_import_is_there(built: str) -> None:
    """Compiled modules too, whose libraries come from outside the environment."""
    modules = "ctypes, grpc, opentelemetry.sdk, psycopg, sqlite3, ssl, yaml, zoneinfo"
    certificates = "ssl.create_default_context().cert_store_stats()['x509_ca'] > 0"
    assert in_python(built, f"import {modules}; print({certificates})") == "True"


def test_its_health_check_asks_whether_it_can_serve(built: str) -> None:
    assert "/health/ready" in json.dumps(inspected(built)["Config"]["Healthcheck"])


def in_python(image: str, program: str) -> str:
    return docker("run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-c", program)
