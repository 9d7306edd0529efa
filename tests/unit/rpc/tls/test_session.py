"""The session of TLS: what a peer may do after the handshake, and what it costs. Updates of keys are OpenSSL's own."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_rpc.tls.contexts import create_server_context
from ternmq_rpc.tls.records import RecordReader
from ternmq_rpc.tls.session import SILENT_RECORDS_MAX, SILENT_RECORDS_PER_S, TlsError, TlsSession
from tests.support.certificates import HOST, Certificates
from tests.support.hand_clock import Clock
from tests.support.key_updates import UpdatingClient

ROOM = 1 << 18
FLOOD = 9000  # what a read of a socket may have of them


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(tmp_path: Path, clock: Clock) -> TlsSession:
    return TlsSession(create_server_context(Certificates(tmp_path).files()), clock=clock)


@pytest.fixture
def client(server: TlsSession) -> Iterator[UpdatingClient]:
    """One that is through with the handshake, as the server is."""
    made = UpdatingClient()
    going = made.shake()
    while not server.is_established:
        server.receive_bytes(going)
        server.continue_handshake()
        going = made.shake(server.take_output())
    yield made
    made.close()


def heard(server: TlsSession, data: bytes) -> bytes:
    """What the server reads of it."""
    buffer = memoryview(bytearray(ROOM))
    server.receive_bytes(data)
    result = b""
    while server.has_input:
        result += buffer[: server.read_into(buffer)]
    return result


@pytest.mark.parametrize("answered", [False, True])
def test_a_flood_of_updates_of_keys_is_refused_after_a_few(
    server: TlsSession, client: UpdatingClient, answered: bool
) -> None:
    flood = client.updates(FLOOD, answered=answered)
    with pytest.raises(TlsError, match="records without data"):
        heard(server, flood)
    # Answers are of the same size: of the others none was looked at.
    assert server.output_bytes <= (2 * SILENT_RECORDS_MAX * len(flood) // FLOOD if answered else 0)


@pytest.mark.parametrize("answered", [False, True])
def test_updates_with_messages_between_them_are_a_flood_as_well(
    server: TlsSession, client: UpdatingClient, answered: bool
) -> None:
    flood = b"".join(client.updates(1, answered=answered) + client.write(b"x") for _ in range(FLOOD // 9))
    with pytest.raises(TlsError, match="records without data"):
        heard(server, flood)


def test_updates_now_and_then_are_what_keys_are_for(server: TlsSession, client: UpdatingClient, clock: Clock) -> None:
    for _ in range(3 * SILENT_RECORDS_MAX):
        clock.now_s += 1 / SILENT_RECORDS_PER_S
        assert heard(server, client.updates(1, answered=True)) == b""
    assert heard(server, client.write(b"still there")) == b"still there"


def test_a_quiet_connection_may_not_save_up_for_a_flood(
    server: TlsSession, client: UpdatingClient, clock: Clock
) -> None:
    clock.now_s += 1e9
    flood = client.updates(6 * SILENT_RECORDS_MAX, answered=False)
    with pytest.raises(TlsError, match="records without data"):
        heard(server, flood)


def test_the_many_small_records_of_one_read_are_all_heard_in_their_order(
    server: TlsSession, client: UpdatingClient
) -> None:
    """More than are looked at together, each a byte, and a large one that ends in the next read."""
    texts = [b"%d," % number for number in range(1000)]
    data = b"".join(client.write(text) for text in texts)
    large = client.write(bytes(16_000))
    assert heard(server, data + large[:9000]) == b"".join(texts)
    assert heard(server, large[9000:]) == bytes(16_000)


def test_a_flood_within_the_handshakes_last_bytes_is_refused_too(tmp_path: Path) -> None:
    server, client = TlsSession(create_server_context(Certificates(tmp_path).files())), UpdatingClient()
    server.receive_bytes(client.shake())
    assert not server.continue_handshake()
    last = client.shake(server.take_output())
    server.receive_bytes(last + client.updates(1000, answered=True))
    assert server.continue_handshake()
    with pytest.raises(TlsError, match="records without data"):
        server.read_into(memoryview(bytearray(ROOM)))
    assert server.output_bytes < 10_000
    client.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_bytes_that_come_one_by_one_are_heard_as_well(tmp_path: Path, version: ssl.TLSVersion) -> None:
    certificates = Certificates(tmp_path)
    context = certificates.client()
    context.maximum_version = version
    server = TlsSession(create_server_context(certificates.files()))
    client = TlsSession(context, server_name=HOST)
    while not (client.continue_handshake() and server.continue_handshake()):
        for one in client.take_output():
            server.receive_bytes(bytes((one,)))
            server.continue_handshake()
        client.receive_bytes(server.take_output())
    client.write_bytes(b"hello")
    assert b"".join(heard(server, bytes((one,))) for one in client.take_output()) == b"hello"


@given(
    lengths=st.lists(st.integers(0, 300), max_size=20),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    most=st.integers(1, 5),
)
def test_ends_of_records_are_found_however_the_bytes_are_cut(lengths: list[int], cuts: list[int], most: int) -> None:
    data = b"".join(b"\x17\x03\x03" + length.to_bytes(2, "big") + b"\xff" * length for length in lengths)
    records, ended, at, turn = RecordReader(), 0, 0, 0
    while at < len(data):
        part = data[at : at + cuts[turn % len(cuts)]]
        size, more = records.skip_records(part, most)
        assert more <= most
        assert size == len(part) or more == most
        at, ended, turn = at + size, ended + more, turn + 1
    assert ended == len(lengths)
