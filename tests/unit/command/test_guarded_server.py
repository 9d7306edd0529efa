"""Commands and a server that wants TLS and keys."""

import asyncio
import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import Result

from ternmq_command.calls import web as web_calls
from ternmq_command.calls.access import AccessOptions
from ternmq_command.calls.web import authorization_headers
from ternmq_common.signing import SignedAuthorization
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.authority import Authority
from tests.unit.client.scripted_server import TOPIC, ScriptedServer
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def ca(authority: Authority, tmp_path: Path) -> str:
    return str(authority.ca_file(tmp_path))


@pytest.fixture
def guarded(authority: Authority) -> Iterator[AdminServer]:
    with AdminServer(tls=authority.server()) as running:
        yield running


@pytest.fixture
def keys(tmp_path: Path) -> str:
    file = tmp_path / "keys.toml"
    file.write_text('access_key = "operator"\nsecret_key = "hush-hush"\n')
    file.chmod(0o600)
    return str(file)


@contextmanager
def web(secured: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str | None]]]:
    """An HTTP server that is well; its port, and who asked it."""
    asked: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"status": "ready"}')

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if secured is not None:
            server.socket = secured.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield str(server.server_port), asked
        finally:
            server.shutdown()
            thread.join()


def signers(server: AdminServer) -> set[str]:
    parsed = map(SignedAuthorization.parse_header, server.authorizations)
    return {"" if each is None else each.access_key for each in parsed}


def listed(call: Call, server: AdminServer, *options: str, env: dict[str, str] | None = None) -> Result:
    return call("topic", "list", "--endpoint", server.endpoint, *options, env=env)


def test_options_say_how_a_server_is_reached(call: Call, guarded: AdminServer, ca: str, keys: str) -> None:
    assert listed(call, guarded, "--ca", ca).exit_code == 0
    assert guarded.authorizations == []
    assert listed(call, guarded, "--tls", "--ca", ca, "--credentials-file", keys).exit_code == 0
    assert signers(guarded) == {"operator"}
    [header] = guarded.authorizations
    assert "hush-hush" not in header


def test_variables_do_as_well_and_what_is_typed_goes_before(
    call: Call, guarded: AdminServer, ca: str, keys: str
) -> None:
    env = {"TERNMQ_CA": ca, "TERNMQ_ACCESS_KEY": "robot", "TERNMQ_SECRET_KEY": "hush"}
    assert listed(call, guarded, env=env).exit_code == 0
    assert signers(guarded) == {"robot"}
    assert listed(call, guarded, "--credentials-file", keys, env=env).exit_code == 0
    assert signers(guarded) == {"robot", "operator"}


def test_a_context_has_all_and_no_secret(call: Call, guarded: AdminServer, ca: str, keys: str, tmp_path: Path) -> None:
    options = ("--endpoint", guarded.endpoint, "--ca", ca, "--access-key", "operator", "--credentials-file", keys)
    assert call("context", "add", "prod", *options).exit_code == 0
    assert call("--context", "prod", "topic", "list").exit_code == 0
    assert signers(guarded) == {"operator"}
    assert "hush-hush" not in (tmp_path / "settings" / "contexts.json").read_text()
    [record] = json.loads(call("context", "list", "--json").stdout)
    assert (record["tls"], record["access_key"], record["credentials_file"]) == (True, "operator", keys)
    other = call("context", "add", "prod", "--endpoint", guarded.endpoint)
    assert "is defined with other options" in other.stderr


def test_what_a_context_says_is_for_its_own_server(call: Call, server: AdminServer, ca: str, keys: str) -> None:
    call("context", "add", "prod", "--endpoint", "127.0.0.1:1", "--ca", ca, "--credentials-file", keys)
    call("context", "use", "prod")
    assert listed(call, server).exit_code == 0
    assert call("topic", "list", env={"TERNMQ_ENDPOINT": server.endpoint}).exit_code == 0
    assert server.authorizations == []


def test_a_context_that_was_typed_goes_before_variables(call: Call, guarded: AdminServer, ca: str, keys: str) -> None:
    call("context", "add", "prod", "--endpoint", guarded.endpoint, "--ca", ca, "--credentials-file", keys)
    env = {"TERNMQ_ACCESS_KEY": "robot", "TERNMQ_SECRET_KEY": "hush", "TERNMQ_CA": "/nowhere"}
    assert call("--context", "prod", "topic", "list", env=env).exit_code == 0
    assert signers(guarded) == {"operator"}


def test_failures_of_tls_say_what_to_do(call: Call, guarded: AdminServer, server: AdminServer, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority().ca)
    untrusted = listed(call, guarded, "--ca", str(other))
    assert (untrusted.exit_code, "of no authority" in untrusted.stderr) == (3, True)
    plain = listed(call, guarded)
    assert (plain.exit_code, "switch it on in the client" in plain.stderr) == (3, True)
    too_much = listed(call, server, "--ca", str(other))
    assert (too_much.exit_code, "speaks no TLS there" in too_much.stderr) == (3, True)
    absent = listed(call, guarded, "--ca", str(tmp_path / "absent.pem"))
    assert (absent.exit_code, "can't be read" in absent.stderr) == (2, True)


def test_keys_that_are_not_complete_are_wrong_usage(call: Call, server: AdminServer, keys: str, tmp_path: Path) -> None:
    missing = listed(call, server, "--access-key", "me")
    assert (missing.exit_code, "the secret of me is missing" in missing.stderr) == (2, True)
    another = listed(call, server, "--access-key", "me", "--credentials-file", keys)
    assert (another.exit_code, "has the keys of operator, not of me" in another.stderr) == (2, True)
    half = listed(call, server, "--client-cert", keys)
    assert (half.exit_code, "belong together" in half.stderr) == (2, True)
    absent = listed(call, server, "--credentials-file", str(tmp_path / "absent"))
    assert (absent.exit_code, "can't be read" in absent.stderr) == (2, True)


async def test_commands_of_the_library_use_the_same(call: Call, authority: Authority, ca: str, keys: str) -> None:
    async with ScriptedServer(tls=authority.server()) as server:
        words = ("--endpoint", server.endpoint, "--ca", ca, "--credentials-file", keys)
        result = await asyncio.to_thread(call, "send", TOPIC, "hello", *words)
        assert result.exit_code == 0, result.output
        [metadata] = server.metadata["SendMessage"]
        assert "Credential=operator," in metadata["authorization"]


async def test_a_refusal_says_what_to_look_at(call: Call, scripted: ScriptedServer, keys: str) -> None:
    refused = rpc.QueryRouteResponse(status=pb.Status(code=pb.UNAUTHORIZED, message="who is it?"))
    scripted.script("QueryRoute", refused, refused)
    words = ("receive", TOPIC, "--group", "g", "--endpoint", scripted.endpoint)
    without = await asyncio.to_thread(call, *words)
    assert (without.exit_code, "give a user: --access-key" in without.stderr) == (1, True)
    wrong = await asyncio.to_thread(call, *words, "--credentials-file", keys)
    assert (wrong.exit_code, "check the keys, the user's policies" in wrong.stderr) == (1, True)


def test_the_doctor_says_how_it_went_in_and_what_is_wrong_with_keys(
    call: Call, guarded: AdminServer, ca: str, keys: str, tmp_path: Path
) -> None:
    words = ("doctor", "--endpoint", guarded.endpoint, "--no-round-trip", "--http", "127.0.0.1:1", "--json")
    found = json.loads(call(*words, "--ca", ca, "--credentials-file", keys).stdout)
    assert [one["said"] for one in found if one["subject"] == "access"] == ["by TLS, signed by operator"]
    (tmp_path / "keys.toml").write_text("hush-hush")
    broken = call(*words, "--ca", ca, "--credentials-file", keys)
    assert broken.exit_code == 1
    assert "is no TOML" in broken.stdout
    assert "hush-hush" not in broken.output


@pytest.mark.parametrize(
    ("days", "state", "said"),
    [(90, "ok", "valid for 90 days"), (14, "ok", "valid for 14 days"), (5, "warning", "ends in 5 days")],
)
def test_the_doctor_says_when_the_certificate_ends(
    call: Call, authority: Authority, ca: str, days: int, state: str, said: str
) -> None:
    with AdminServer(tls=authority.server(ends_in=timedelta(days=days, hours=1))) as server:
        words = ("doctor", "--endpoint", server.endpoint, "--no-round-trip", "--http", "127.0.0.1:1", "--json")
        found = json.loads(call(*words, "--ca", ca).stdout)
    [finding] = [one for one in found if one["subject"] == "certificate"]
    assert finding["state"] == state
    assert finding["said"].startswith(said)


def test_a_certificate_that_has_ended_is_what_the_doctor_finds(call: Call, authority: Authority, ca: str) -> None:
    with AdminServer(tls=authority.server(is_expired=True)) as server:
        words = ("doctor", "--endpoint", server.endpoint, "--no-round-trip", "--http", "127.0.0.1:1", "--json")
        result = call(*words, "--ca", ca)
    [finding] = [one for one in json.loads(result.stdout) if one["state"] == "problem"]
    assert result.exit_code == 3
    assert finding["subject"] == "server"
    assert finding["said"].endswith("the server's certificate has expired")
    assert finding["advice"].startswith("renew it")


def test_http_is_asked_by_tls_too_and_with_the_keys(
    call: Call, guarded: AdminServer, authority: Authority, ca: str, keys: str, tmp_path: Path
) -> None:
    certificate, key = authority.issued("127.0.0.1")
    (tmp_path / "web.pem").write_bytes(certificate + key)
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.load_cert_chain(tmp_path / "web.pem")
    words = ("doctor", "--endpoint", guarded.endpoint, "--no-round-trip", "--json", "--ca", ca)
    with web(secured) as (port, asked):
        found = json.loads(call(*words, "--credentials-file", keys, "--http", f"127.0.0.1:{port}").stdout)
    assert [one["state"] for one in found if one["subject"] == "health"] == ["ok"]
    assert asked == ["Basic " + base64.b64encode(b"operator:hush-hush").decode()]


def test_keys_go_by_plain_http_to_this_machine_only(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_calls, "current_access", lambda: AccessOptions([{"credentials_file": keys}]))
    assert authorization_headers("http://127.0.0.1:8082/metrics").keys() == {"Authorization"}
    assert authorization_headers("https://mq.example.com:8082/metrics").keys() == {"Authorization"}
    assert authorization_headers("http://mq.example.com:8082/metrics") == {}
    assert authorization_headers("http://10.0.0.7:8082/metrics") == {}
