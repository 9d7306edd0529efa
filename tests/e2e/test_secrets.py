"""What must stay secret is searched for in everything that a guarded server and its commands write: their output, logs
at debug, audit log, metrics, health, bundles of `ternmq diag`, settings, answers, command lines, and each byte on the
disk. Files that are there to keep a secret are left out, each for its own secret, by name.
"""

import base64
import io
import json
import logging
import re
import tarfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import psutil
import pytest

import ternmq
from ternmq.blocking import Producer
from ternmq_common.access.secret_keys import generate_key
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.certificates import Certificates
from tests.support.command_line import CommandLine
from tests.support.embedded import RawClient, message
from tests.support.handle_keys import keys_in
from tests.support.stack import ServerProcess
from tests.support.users import signed

pytestmark = [pytest.mark.slow]

ROOT, ALICE, ALICES_NEXT, CAROL = (
    "root-secret-72aX9q",
    "alice-secret-b81zQ4",
    "alice-next-11kWp3",
    "carol-secret-5Tn8vv",
)
REFUSED, GUESSED, TOKEN = "has a blank-3cR7yy", "guessed-secret-0pL2mm", "session-token-9hH4dd"
# What a signature looks like, and the header that it comes in.
SIGNATURES = re.compile(rb"Signature=[0-9A-Fa-f]{20}|MQv2-HMAC-SHA1 Credential")
REGISTRY = re.compile(r".*/registry\.db(-journal|-wal)?")


@dataclass
class Server:
    """A server that was used in all ways that have to do with secrets.

    `written` is all that could be read of it, by where; `secrets` are those by name, each in all forms that it may
    have, and `keepers` says in what files one of them may be.
    """

    written: dict[str, bytes] = field(default_factory=dict)
    secrets: dict[str, set[bytes]] = field(default_factory=dict)
    keepers: dict[str, "re.Pattern[str]"] = field(default_factory=dict)

    def add_secret(self, name: str, secret: str | bytes, *, kept_in: str | None = None) -> None:
        self.secrets[name] = forms(secret.encode() if isinstance(secret, str) else secret)
        if kept_in is not None:
            self.keepers[name] = re.compile(kept_in)

    def found(self) -> list[str]:
        """Each secret and the place where it was found and must not be."""
        return [
            f"{name} in {where}"
            for where, data in self.written.items()
            for name, all_forms in self.secrets.items()
            if not (name in self.keepers and self.keepers[name].fullmatch(where))
            and any(each in data for each in all_forms)
        ]


def forms(secret: bytes) -> set[bytes]:
    """As it is, in hexadecimal digits, and in base64 wherever it begins there."""
    encoded = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    for before in range(3):
        text = base64.b64encode(bytes(before) + secret)
        # The first and the last characters depend on what is beside it.
        encoded.add(text[4 if before else 0 : -4])
    return encoded


# --- a server, and all that is done to it


@pytest.fixture(scope="module", params=["given", "made"])
def used(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its secrets come by variables, with workers; or it makes them itself."""
    folder = tmp_path_factory.mktemp(request.param)
    data_dir = folder / "data"
    certificates = Certificates(folder / "certificates")
    cert, key = certificates.issue("server")
    server = Server()
    server.add_secret("TLS key", max(key.read_bytes().splitlines(), key=len))
    options = [
        "--data-dir", str(data_dir), "--access-control", "--init-user", "root", "--log-level", "debug",
        "--tls-cert", str(cert), "--tls-key", str(key), "--grpc-tls", "optional", "--segment-size", "16MiB",
    ]  # fmt: skip
    variables: dict[str, str] = {}
    if request.param == "given":
        options += ["--workers", "2"]
        variables = {"TERNMQ_INIT_SECRET": ROOT, "TERNMQ_SECRETS_KEY": generate_key()}
    process = ServerProcess(folder, "up", *options, addresses=("grpc", "http"), environment=variables)
    with process:
        root = ROOT if variables else (data_dir / "init-secret").read_text().strip()
        secrets_key = variables.get("TERNMQ_SECRETS_KEY") or (data_dir / "secrets.key").read_text().split()[-1]
        server.add_secret("root's secret", root, kept_in=r".*/init-secret")
        server.add_secret("key of secrets", secrets_key, kept_in=r".*/secrets\.key")
        server.add_secret("key of secrets, raw", base64.b64decode(secrets_key), kept_in=r".*/secrets\.key")
        use_commands(server, process, root, folder, variables)
        use_calls(server, process.addresses["grpc"], root)
        use_client(server, process.addresses["grpc"], root)
        server.written["command lines"] = command_lines(process)
        for number, secret in enumerate(keys_in(data_dir).accepted.values()):
            server.add_secret(f"key {number} of handles", secret, kept_in=REGISTRY.pattern)
        assert process.terminate() == 0
        files = {str(path): path for path in folder.rglob("*") if path.is_file() and path.suffix != ".key"}
        files |= {str(path): path for path in data_dir.rglob("secrets.key")}
        server.written |= {where: path.read_bytes() for where, path in files.items()}
        yield server


def use_commands(server: Server, process: ServerProcess, root: str, folder: Path, variables: Mapping[str, str]) -> None:
    """Commands as an operator types them. Those that make a secret print it once, which is told apart."""
    endpoint, http = process.addresses["grpc"], process.addresses["http"]
    keys = {"TERNMQ_ACCESS_KEY": "root", "TERNMQ_SECRET_KEY": root}

    def call(*words: str, stdin: str = "", code: int = 0, more: Mapping[str, str] = {}) -> str:
        with chdir(folder):
            done = CommandLine(endpoint, **{**keys, **more}).call(*words, stdin=stdin)
        assert done.exit_code == code, done.stderr
        place = f"{len(server.written)}. {' '.join(words)}"
        server.written[f"{place}: errors"] = done.stderr.encode()
        if "--json" in words and words[:2] in {("user", "create"), ("user", "rotate")}:
            return str(json.loads(done.stdout).get("secret", ""))
        server.written[f"{place}: output"] = done.stdout.encode()
        return done.stdout

    call("user", "create", "alice", "--secret-stdin", stdin=f"{ALICE}\n")
    server.add_secret("alice's secret", ALICE)
    call("user", "rotate", "alice", "--secret-stdin", stdin=f"{ALICES_NEXT}\n")
    server.add_secret("alice's next secret", ALICES_NEXT)
    server.add_secret("bob's secret", call("user", "create", "bob", "--json"))
    server.add_secret("bob's next secret", call("user", "rotate", "bob", "--json"))
    server.add_secret("a secret that was refused", REFUSED)
    call("user", "create", "eve", "--secret-stdin", stdin=f"{REFUSED}\n", code=2)
    call("user", "create", "alice", "--secret-stdin", stdin=f"{ALICE}\n", code=1)
    call("policy", "allow", "alice", "Topic:*", "All")
    (folder / "declared.yaml").write_text("users: [{name: carol, secret_env: CAROLS_SECRET}]\n")
    call("apply", "-f", "declared.yaml", more={"CAROLS_SECRET": CAROL})
    server.add_secret("carol's secret", CAROL)
    server.add_secret("a guessed secret", GUESSED)
    call("topic", "list", code=1, more={"TERNMQ_SECRET_KEY": GUESSED})
    call("status", "--json")
    call("user", "list", "--json")
    call("user", "show", "alice")
    call("export")
    call("topic", "create", "t")
    call("send", "t", "hello")
    call("user", "reseal")
    call("config", more=variables)
    call("config", "--json", more=variables)
    call("config", "--of", "proxy", more=variables)
    call("doctor", "--http", http)
    call("diag", "--http", http, "--log", str(process.log), "--out", "diag.tar.gz")
    with tarfile.open(folder / "diag.tar.gz") as bundle:
        for part in bundle.getmembers():
            content = bundle.extractfile(part)
            assert content is not None
            server.written[f"diag: {part.name}"] = content.read()
    call("backup", "--data-dir", str(folder / "data"), str(folder / "backup"))


def use_calls(server: Server, endpoint: str, root: str) -> None:
    """Calls with right and wrong signatures, whose answers are kept."""
    import asyncio

    async def ask() -> None:
        shown = [
            signed("root", secret=root),
            signed("root", secret=GUESSED),
            signed("alice", secret=ALICES_NEXT, date="not a date"),
            (("x-mq-client-id", "c"), ("authorization", f"Basic {base64.b64encode(f'root:{root}'.encode()).decode()}")),
            (("x-mq-client-id", "c"), ("authorization", f"{root} {ALICE}"), ("x-mq-date-time", ALICE)),
        ]
        for number, metadata in enumerate(shown):
            token = ("x-mq-session-token", TOKEN)
            async with RawClient(endpoint, metadata=(*metadata, token)) as client:
                requests = {
                    "SendMessage": rpc.SendMessageRequest(messages=[message("t")]),
                    "QueryRoute": b"\xff\xff\xff",
                }
                for name, request in requests.items():
                    try:
                        answer = str(await client.call(name, request))
                    except grpc.aio.AioRpcError as error:
                        answer = f"{error!r} {error.details()} {error.debug_error_string()}"
                    server.written[f"{name} as {number}"] = answer.encode()
                for request in (
                    admin_pb2.CreateUserRequest(name="eve", secret=REFUSED),
                    admin_pb2.RotateSecretRequest(user="alice", secret=REFUSED),
                    admin_pb2.DescribeUserRequest(name="alice"),
                    admin_pb2.ListUsersRequest(),
                ):
                    name = type(request).__name__.removesuffix("Request")
                    server.written[f"{name} as {number}"] = str(await client.admin(name, request)).encode()
            for header, value in metadata:
                if header == "authorization" and "Signature=" in value:
                    server.add_secret(f"signature {number}", value.rpartition("Signature=")[2])
        server.add_secret("session token", TOKEN)

    asyncio.run(ask())


def use_client(server: Server, endpoint: str, root: str) -> None:
    """The client library: its log at debug, what its objects and errors say."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logger = logging.getLogger()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        for secret in (root, GUESSED):
            credentials = ternmq.Credentials("root", secret, TOKEN)
            producer = Producer(endpoint, topics=["t"], credentials=credentials)
            print(repr(credentials), repr(producer), file=said)
            try:
                with producer:
                    producer.send(ternmq.Message("t", b"hello"))
            except ternmq.Unauthorized:
                assert secret == GUESSED
                print(traceback.format_exc(), file=said)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    server.written["client"] = said.getvalue().encode()


def command_lines(process: ServerProcess) -> bytes:
    """What every user of the machine can see of the server's processes."""
    own = psutil.Process(process.process.pid)
    return b"\n".join(" ".join(each.cmdline()).encode() for each in (own, *own.children(recursive=True)))


# --- what is to be found, and what is not


def test_no_secret_is_found_where_it_must_not_be(used: Server) -> None:
    assert used.found() == []


def test_no_signature_is_written(used: Server) -> None:
    assert [where for where, data in used.written.items() if SIGNATURES.search(data)] == []


def test_the_search_sees_what_the_server_wrote(used: Server) -> None:
    """Else it would find nothing, whatever is there."""
    assert len(used.secrets) > 12
    names = " ".join(used.written)
    for part in ("/server.log", "/audit", "/registry.db", "diag: ", "metrics.txt", "/backup/", "client", "/store/"):
        assert part in names, part
    log = next(data for where, data in used.written.items() if where.endswith("/server.log"))
    assert b"DEBUG" in log
    audit = b"".join(data for where, data in used.written.items() if "/data/audit" in where)
    assert b'"user": "alice"' in audit or b'"user": "root"' in audit
    found = " ".join(replace(used, keepers={}).found())
    assert "of handles in " in found
    if "/secrets.key" in names:
        assert "key of secrets in " in found
        assert "root's secret in " in found


@pytest.mark.parametrize("text", ["{}", "x{}", "xy{}", "root:{}", "alice:{}"])
def test_the_search_finds_a_secret_in_base64(text: str) -> None:
    encoded = base64.b64encode(text.format(ALICE).encode())
    assert any(each in encoded for each in forms(ALICE.encode()))
