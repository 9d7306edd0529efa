"""`ternmq tls dev-ca`: what it makes works with each other, and is for its user alone."""

import json
import ssl
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ternmq_command.main import cli
from ternmq_common.server_settings import ClientAuth
from ternmq_rpc.tls.contexts import create_server_context, member_client_context, member_server_context
from ternmq_rpc.tls.files import TlsFiles
from ternmq_rpc.tls.session import TlsError, TlsSession

NAMES = ("ca", "server", "client", "cluster-ca", "cluster")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["tls", "dev-ca", *arguments], standalone_mode=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dev") / "certs"
    assert call(str(folder), "--host", "mq.example.com", "--host", "10.0.0.5").exit_code == 0
    return folder


def shaken(server: TlsSession, client: TlsSession) -> None:
    """Have both handshake with each other; TlsFailed."""
    while not (server.is_established and client.is_established):
        for one, other in ((client, server), (server, client)):
            if not one.is_established:
                one.continue_handshake()
            other.receive_bytes(one.take_output())


def test_all_files_are_there_and_private(made: Path) -> None:
    files = sorted(path.name for path in made.iterdir())
    assert files == sorted(f"{name}.{kind}" for name in NAMES for kind in ("pem", "key"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()} == {0o600}
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "mq.example.com", "10.0.0.5"])
def test_a_server_is_believed_for_each_host_and_a_client_by_its_ca(host: str, made: Path) -> None:
    files = TlsFiles(prefix="tls", cert=made / "server.pem", key=made / "server.key", ca=made / "ca.pem")
    context = ssl.create_default_context(cafile=str(made / "ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(made / "client.pem", made / "client.key")
    server = TlsSession(create_server_context(files, auth=ClientAuth.REQUIRED))
    shaken(server, TlsSession(context, server_name=host))


def test_a_server_is_not_believed_for_another_host(made: Path) -> None:
    files = TlsFiles(prefix="tls", cert=made / "server.pem", key=made / "server.key")
    context = ssl.create_default_context(cafile=str(made / "ca.pem"))
    with pytest.raises(TlsError, match="Hostname mismatch"):
        shaken(TlsSession(create_server_context(files)), TlsSession(context, server_name="other.example.com"))


def members(made: Path, name: str, ca: str) -> TlsFiles:
    return TlsFiles(prefix="cluster_tls", cert=made / f"{name}.pem", key=made / f"{name}.key", ca=made / f"{ca}.pem")


def test_members_of_the_cluster_believe_each_other_and_no_client(made: Path) -> None:
    own, client = members(made, "cluster", "cluster-ca"), members(made, "client", "cluster-ca")
    shaken(TlsSession(member_server_context(own)), TlsSession(member_client_context(own), server_name="localhost"))
    with pytest.raises(TlsError, match="certificate is refused"):
        shaken(
            TlsSession(member_server_context(own)), TlsSession(member_client_context(client), server_name="localhost")
        )


def test_what_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    assert call(str(tmp_path)).exit_code == 0
    before = (tmp_path / "ca.pem").read_bytes()
    refused = call(str(tmp_path))
    assert refused.exit_code == 1
    assert "already" in refused.stderr
    assert (tmp_path / "ca.pem").read_bytes() == before
    told = json.loads(call(str(tmp_path), "--force", "--days", "3", "--json").stdout)
    assert told["days"] == 3
    assert len(told["files"]) == 10
    assert (tmp_path / "ca.pem").read_bytes() != before


@pytest.mark.parametrize("host", ["", "a b", "http://x", "-x", "a/b"])
def test_a_host_that_is_none_is_refused(host: str, tmp_path: Path) -> None:
    refused = call(str(tmp_path), f"--host={host}")
    assert refused.exit_code == 2
    assert "is no name" in refused.stderr
    assert not list(tmp_path.iterdir())
