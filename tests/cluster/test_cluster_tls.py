"""Processes of a cluster that speak TLS everywhere: clients to the proxy, proxies to brokers with certificates on both
sides, and all of them to PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import ternmq
from ternmq.connections.tls import Tls, TlsOptions
from tests.cluster.watching import eventually
from tests.support.certificates import Certificates
from tests.support.cluster_processes import BrokerProcess, ProxyProcess, migrate
from tests.support.postgres import Postgres

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

# A proxy looks every second whether there are brokers, and comes again after pauses that grow.
SEEN_WITHIN_S = 20.0
GROUP = "readers"


@dataclass
class TlsCluster:
    """`clients` is the CA that clients believe, `members` that of proxies and brokers."""

    folder: Path
    url: str
    clients: Certificates
    members: Certificates

    def member_options(self, name: str, *hosts: str, issuer: Certificates | None = None) -> tuple[str, ...]:
        """Certificate, key and CA of a proxy or broker; another issuer may be a stranger, whom nobody believes."""
        cert, key = (issuer or self.members).issue(name, *hosts)
        return (
            "--cluster-tls-cert", str(cert), "--cluster-tls-key", str(key), "--cluster-tls-ca", str(self.members.ca),
        )  # fmt: skip

    @contextmanager
    def broker(self, name: str, *hosts: str) -> Iterator[BrokerProcess]:
        with BrokerProcess(self.folder / name, name, self.url, *self.member_options(name, *hosts)) as process:
            yield process

    @contextmanager
    def proxy(self, name: str, *options: str) -> Iterator[ProxyProcess]:
        cert, key = self.clients.issue(name)
        front = ("--tls-cert", str(cert), "--tls-key", str(key))
        with ProxyProcess(self.folder / name, name, self.url, *front, *options) as process:
            yield process

    @property
    def tls(self) -> TlsOptions:
        return TlsOptions(ca=self.clients.ca)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Postgres, Certificates]]:
    """A server that takes TLS alone, and the CA of its certificate."""
    folder = tmp_path_factory.mktemp("postgres")
    members = Certificates(folder / "members")
    with Postgres(folder, certificate=members.issue("database")) as server:
        yield server, members


@pytest.fixture
def cluster(postgres: tuple[Postgres, Certificates], tmp_path: Path) -> TlsCluster:
    """A database without members: those of other tests, who were killed, have leases for a while."""
    server, members = postgres
    url = f"{server.url_of(server.new_database())}?sslmode=verify-full&sslrootcert={members.ca}"
    migrate(url)
    return TlsCluster(tmp_path, url, Certificates(tmp_path / "clients"), members)


async def test_messages_go_through_a_cluster_of_tls_and_strangers_reach_no_broker(cluster: TlsCluster) -> None:
    stranger = Certificates(cluster.folder / "strangers")
    with (
        cluster.broker("broker-0") as broker,
        cluster.proxy("proxy-0", *cluster.member_options("proxy-0")) as proxy,
        cluster.proxy("without") as without,
        cluster.proxy("stranger", *cluster.member_options("stranger", issuer=stranger)) as strange,
    ):
        assert await round_trip(proxy.grpc, cluster.tls, "t") == b"hello"
        await logged(broker, "this port takes TLS only")
        await logged(broker, "the TLS handshake failed: its certificate is refused")
        for other in (without, strange):
            await logged(other, "cannot connect to broker broker-0: ")
        assert await round_trip(proxy.grpc, cluster.tls, "t") == b"hello"
        connected = ["connected to broker" in each.log.read_text() for each in (proxy, without, strange)]
        assert connected == [True, False, False]


async def test_a_broker_whose_certificate_is_for_another_host_gets_nothing(cluster: TlsCluster) -> None:
    with (
        cluster.broker("elsewhere", "elsewhere.test"),
        cluster.proxy("careful", *cluster.member_options("careful")) as proxy,
    ):
        await logged(proxy, "IP address mismatch")
        assert "connected to broker" not in proxy.log.read_text()


async def test_clients_reach_the_front_by_tls_alone(cluster: TlsCluster) -> None:
    with (
        cluster.broker("broker-1"),
        cluster.proxy("proxy-1", *cluster.member_options("proxy-1")) as proxy,
    ):
        assert await round_trip(proxy.grpc, cluster.tls, "fronted") == b"hello"
        with pytest.raises(ternmq.ConnectionFailed, match="this port takes TLS only"):
            await send(proxy.grpc, tls=False, topic="fronted")
        with pytest.raises(ternmq.TlsFailed):  # the cluster's own CA is not the clients'
            await send(proxy.grpc, TlsOptions(ca=cluster.members.ca), "fronted")


async def logged(process: BrokerProcess | ProxyProcess, text: str) -> None:
    async def is_there() -> bool:
        return text in process.log.read_text()

    await eventually(is_there, within_s=SEEN_WITHIN_S, what=f"{text!r} in the log of {process.name}")


async def send(endpoint: str, tls: Tls, topic: str) -> None:
    async with ternmq.Producer(endpoint, topics=[topic], tls=tls) as producer:
        await producer.send(ternmq.Message(topic, b"hello"))


async def round_trip(endpoint: str, tls: TlsOptions, topic: str) -> bytes:
    """The body of a message that was sent and received."""
    await send(endpoint, tls, topic)
    async with ternmq.SimpleConsumer(endpoint, GROUP, {topic: "*"}, tls=tls) as consumer:
        (view,) = await consumer.receive(1)
        await view.ack()
        return view.body
