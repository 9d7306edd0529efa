"""Who clients say they are, from where they have it, and what they do when it is refused."""

import asyncio
import logging
from pathlib import Path

import pytest

import ternmq
from ternmq import ConnectionEvent, ConnectionState, Credentials, CredentialsFile, Message, Producer, Timing
from ternmq.connections.credentials import CurrentCredentials, sign_headers
from ternmq.pull.offset_reader import OffsetReader
from ternmq_common.signing import SignedAuthorization, signature_of
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.until import until
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

ALWAYS = Timing(heartbeat_s=0.02, credentials_s=0.0)
REFUSED = pb.Status(code=pb.UNAUTHORIZED, message="the signature is wrong")


def written(file: Path, access_key: str, secret_key: str) -> Path:
    """A new file in the old one's place, as secrets are rotated."""
    beside = file.with_suffix(".new")
    beside.write_text(f'access_key = "{access_key}"\nsecret_key = "{secret_key}"\n')
    beside.chmod(0o600)
    beside.replace(file)
    return file


def signer(metadata: dict[str, str]) -> SignedAuthorization | None:
    return SignedAuthorization.parse_header(metadata["authorization"])


def test_a_date_is_in_utc_and_signed() -> None:
    (date, when), (authorization, header), (token, text) = sign_headers(
        Credentials("me", "hush", "once"), 1_700_000_000
    )
    assert (date, when) == ("x-mq-date-time", "20231114T221320Z")
    parsed = SignedAuthorization.parse_header(header)
    assert (authorization, token, text) == ("authorization", "x-mq-session-token", "once")
    assert parsed is not None
    assert parsed.access_key == "me"
    assert parsed.signature == signature_of("hush", when)


async def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = written(tmp_path / "keys.toml", "old", "hush")
    keys = CredentialsFile(file)
    async with ScriptedServer() as server, Producer(server.endpoint, topics=[TOPIC], credentials=keys, timing=ALWAYS):
        assert {one.access_key for one in map(signer, server.metadata["QueryRoute"]) if one} == {"old"}
        written(file, "new", "hushhush")
        await until(lambda: "Credential=new," in repr(server.metadata["Heartbeat"][-1:]))


async def test_a_function_may_block_and_gives_the_keys(tmp_path: Path) -> None:
    def keys() -> Credentials:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return Credentials("vault", "hush")

    async with ScriptedServer() as server:
        async with Producer(server.endpoint, topics=[TOPIC], credentials=keys) as producer:
            await producer.send(Message(TOPIC, b"hello"))
        assert all("Credential=vault," in each["authorization"] for each in server.metadata["SendMessage"])


async def test_readers_of_offsets_read_the_file_too(tmp_path: Path) -> None:
    file = written(tmp_path / "keys.toml", "reader", "hush")
    async with ScriptedServer() as server:

        def read() -> None:
            with OffsetReader(server.endpoint, credentials=CredentialsFile(file)) as reader:
                reader.queues(TOPIC)

        await asyncio.to_thread(read)
        [metadata] = server.metadata["QueryRoute"]
        assert "Credential=reader," in metadata["authorization"]


async def test_a_start_without_readable_credentials_fails_and_says_why(server: ScriptedServer, tmp_path: Path) -> None:
    with pytest.raises(ternmq.UnusableFile, match=r"absent\.toml can't be read: No such file"):
        await Producer(server.endpoint, topics=[TOPIC], credentials=CredentialsFile(tmp_path / "absent.toml")).start()


def test_keys_stay_while_new_ones_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = written(tmp_path / "keys.toml", "me", "hush")
    current = CurrentCredentials(CredentialsFile(file), read_again_s=0.0)
    current.read_source()
    file.write_text("secret_key = half-written")
    current.read_source()
    assert current.credentials == Credentials("me", "hush")
    assert "the old ones stay" in caplog.text
    assert "half-written" not in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hush-hush", "is no TOML"),
        ('secret_key = "hush-hush"', "needs access_key and secret_key"),
        ('access_key = "me"\nsecret_key = "hush-hush"\nsecret = "hush-hush"', "and may have session_token"),
        ('access_key = "me"\nsecret_key = 5', "all values are texts in quotes"),
        ('access_key = "m e"\nsecret_key = "hush-hush"', "a character that no header can have"),
        ('access_key = ""\nsecret_key = "hush-hush"', "access_key is empty"),
        ("#" * (65 << 10), "has more than 65,536 bytes"),
    ],
)
def test_a_wrong_file_is_refused_without_its_content(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(ternmq.UnusableFile, match=said) as refused:
        CredentialsFile(file)()
    assert "hush-hush" not in str(refused.value)


def test_a_file_that_others_can_read_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = written(tmp_path / "keys.toml", "me", "hush")
    keys = CredentialsFile(file)
    keys()
    assert not caplog.records
    file.chmod(0o640)
    CredentialsFile(file)()
    keys()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"chmod 600 {file}" in caplog.text


def test_a_secret_shows_in_no_text(tmp_path: Path) -> None:
    written(tmp_path / "keys.toml", "me", "hush-hush")
    keys = CredentialsFile(tmp_path / "keys.toml")
    assert "hush-hush" not in f"{keys()!r} {keys!r} {keys()}"


def test_what_are_no_credentials_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="credentials are Credentials, a CredentialsFile or a function, which str"):
        Producer("mq:8081", credentials="me")  # type: ignore[arg-type]


async def test_a_refused_client_does_not_start(server: ScriptedServer) -> None:
    server.script("QueryRoute", rpc.QueryRouteResponse(status=REFUSED))
    with pytest.raises(ternmq.Unauthorized, match="the signature is wrong") as refused:
        await Producer(server.endpoint, topics=[TOPIC], credentials=Credentials("me", "wrong")).start()
    assert not refused.value.retryable
    assert len(server.requests["QueryRoute"]) == 1


async def test_a_refused_send_is_not_repeated(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        server.script("SendMessage", rpc.SendMessageResponse(status=REFUSED))
        with pytest.raises(ternmq.Unauthorized):
            await producer.send(Message(TOPIC, b"hello"))
    assert len(server.requests["SendMessage"]) == 1


async def test_revoked_credentials_are_a_loss_that_is_told_and_so_is_their_return(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    heard: asyncio.Queue[ConnectionEvent] = asyncio.Queue()
    refuse = rpc.HeartbeatResponse(status=REFUSED)
    async with Producer(server.endpoint, topics=[TOPIC], timing=ALWAYS, on_connection=heard.put_nowait):
        assert (await heard.get()).state is ConnectionState.CONNECTED
        server.script("Heartbeat", refuse, refuse, refuse)
        lost = await heard.get()
        assert (lost.state, type(lost.error)) == (ConnectionState.LOST, ternmq.Unauthorized)
        assert (await heard.get()).state is ConnectionState.CONNECTED
    assert caplog.text.count("no access, it is tried again") == 1
