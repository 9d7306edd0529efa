"""Every test of an overlay runs for each of them; those that run containers share the images."""

import shutil

import pytest

from tests.k8s.containers import Images
from tests.k8s.rendering import OVERLAYS, Json, Pod, pods, rendered, secrets_made_by_hand, settings_and_secrets

OURS = frozenset({"broker", "proxy", "migration"})


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    """The name of an overlay."""
    return str(request.param)


@pytest.fixture
def objects(overlay: str) -> tuple[Json, ...]:
    """All objects of the overlay."""
    return rendered(overlay)


@pytest.fixture
def known(overlay: str, objects: tuple[Json, ...]) -> dict[tuple[str, str], dict[str, str]]:
    """What is in each ConfigMap and Secret, also in those that are made by hand."""
    return settings_and_secrets([*objects, *secrets_made_by_hand(overlay)])


@pytest.fixture
def ours(objects: tuple[Json, ...]) -> list[Pod]:
    """The pods that run the project's own images."""
    found = [pod for pod in pods(objects) if pod.component in OURS]
    assert {pod.component for pod in found} == OURS
    return found


@pytest.fixture(scope="session")
def images() -> Images:
    """Those of this checkout; what no test runs is not built."""
    if shutil.which("docker") is None:
        pytest.fail("docker is missing: run these tests by tests/containers/with_docker.sh, as tools/check does")
    return Images()
