"""A cluster of two brokers and two proxies for all tests of a module, who leave it whole."""

import re
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.cluster.watching import clients_of, serving
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient
from tests.support.stack import config_options

SETTINGS = 'transaction_timeout_ms = "1s"\ntransaction_check_interval_ms = "1s"\n'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    folder = tmp_path_factory.mktemp("cluster")
    with ClusterProcesses(folder, broker_options=config_options(folder, SETTINGS)) as processes:
        yield processes


@pytest.fixture
async def clients(cluster: ClusterProcesses) -> AsyncIterator[list[RawClient]]:
    """A client of each proxy, while all brokers are there."""
    async with clients_of(cluster.proxies) as raw:
        for client in raw:
            await serving(client, cluster.brokers)
        yield raw


@pytest.fixture
async def client(cluster: ClusterProcesses) -> AsyncIterator[RawClient]:
    """A client of the only proxy, while all brokers are there."""
    async with clients_of(cluster.proxies) as [raw]:
        await serving(raw, cluster.brokers)
        yield raw


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return re.sub(r"\W", "-", request.node.name)[-60:]
