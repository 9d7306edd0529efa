"""SendMessage: compressed bodies are stored inflated, so that every client can read them (`sending.md, Bodies`)."""

import gzip
import zlib
from hashlib import sha1

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import RawClient, code, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
BODY_MAX = 4194304
TEXT = b"to be or not to be, " * 50


async def stored(client: RawClient, topic: str, group: str, body: bytes, **system: object) -> pb.Message:
    """The message as a consumer gets it; its digest is checked here."""
    await client.send(topic, body, **system)
    [received] = (await client.receive(topic, group)).messages
    digest = received.system_properties.body_digest
    assert digest.type == pb.SHA1
    assert digest.checksum == sha1(received.body, usedforsecurity=False).hexdigest().upper()
    return received


@pytest.mark.parametrize("compressed", [gzip.compress(TEXT), zlib.compress(TEXT)], ids=["gzip", "zlib"])
async def test_a_compressed_body_is_inflated(client: RawClient, topic: str, group: str, compressed: bytes) -> None:
    received = await stored(client, topic, group, compressed, body_encoding=pb.GZIP)
    assert received.body == TEXT
    assert received.system_properties.body_encoding == pb.IDENTITY


async def test_a_body_that_inflates_to_the_limit_is_inflated(client: RawClient, topic: str, group: str) -> None:
    received = await stored(client, topic, group, gzip.compress(bytes(BODY_MAX)), body_encoding=pb.GZIP)
    assert received.body == bytes(BODY_MAX)
    assert received.system_properties.body_encoding == pb.IDENTITY


async def test_a_body_that_would_inflate_beyond_the_limit_stays_as_it_came(
    client: RawClient, topic: str, group: str
) -> None:
    compressed = gzip.compress(bytes(BODY_MAX + 1))
    received = await stored(client, topic, group, compressed, body_encoding=pb.GZIP)
    assert received.body == compressed
    assert received.system_properties.body_encoding == pb.GZIP


async def test_a_body_of_several_parts_loses_none_of_them(client: RawClient, topic: str, group: str) -> None:
    compressed = gzip.compress(b"first ") + gzip.compress(b"second")
    received = await stored(client, topic, group, compressed, body_encoding=pb.GZIP)
    assert gzip.decompress(received.body) == b"first second"
    assert received.system_properties.body_encoding == pb.GZIP


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"plain text", "MESSAGE_CORRUPTED"),
        (gzip.compress(TEXT)[:-1], "MESSAGE_CORRUPTED"),
        (gzip.compress(TEXT)[:10], "MESSAGE_CORRUPTED"),
        (b"\x1f\x8b", "MESSAGE_CORRUPTED"),
        (gzip.compress(TEXT)[:-8] + bytes(8), "MESSAGE_CORRUPTED"),
        (gzip.compress(b""), "MESSAGE_BODY_EMPTY"),
    ],
    ids=["plain", "cut", "header only", "half a header", "wrong check sum", "nothing inside"],
)
async def test_a_body_that_can_not_be_inflated_is_refused(
    client: RawClient, topic: str, body: bytes, expected: str
) -> None:
    sent = message(topic, body, body_encoding=pb.GZIP)
    assert code(await client.call("SendMessage", messages=[sent])) == expected


@pytest.mark.parametrize("encoding", [pb.ENCODING_UNSPECIFIED, pb.IDENTITY])
async def test_any_other_body_is_left_alone(client: RawClient, topic: str, group: str, encoding: "pb.Encoding") -> None:
    compressed = gzip.compress(TEXT)
    received = await stored(client, topic, group, compressed, body_encoding=encoding)
    assert received.body == compressed
    assert received.system_properties.body_encoding == pb.IDENTITY


async def test_the_producers_own_digest_is_not_believed(client: RawClient, topic: str, group: str) -> None:
    wrong = {"type": pb.CRC32, "checksum": "0"}
    assert (await stored(client, topic, group, b"body", body_digest=wrong)).body == b"body"
