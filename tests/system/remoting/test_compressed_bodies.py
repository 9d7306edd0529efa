"""Compressed bodies of remoting producers are stored inflated."""

import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard

from ternmq_rpc.remoting.message_records import decode_records
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
MIB = 1 << 20
FORMS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (0x1, zlib.compress),
    (0x301, zlib.compress),
    (0x101, lz4.frame.compress),
    (0x201, zstandard.compress),
]
each_form = pytest.mark.parametrize(("flag", "compress"), FORMS)


@each_form
async def test_a_compressed_body_is_pulled_inflated(
    remoting: RemotingClient, flag: int, compress: Callable[[bytes], bytes]
) -> None:
    topic = f"compressed-4x-{flag:x}"
    bodies = [b"small" * 1000, bytes(3 * MIB)]
    for body in bodies:
        sent = await remoting.send(topic, compress(body), f=flag)
        assert sent.code == 0, sent.remark
    await remoting.heartbeat(f"{topic}-reader", consumers={f"{topic}-group": [topic]})
    records = decode_records((await remoting.pull(f"{topic}-group", topic)).body)
    assert [(record.body, record.system_flag) for record in records] == [(body, 0) for body in bodies]


@each_form
async def test_a_body_that_is_damaged_or_too_large_is_refused(
    remoting: RemotingClient, flag: int, compress: Callable[[bytes], bytes]
) -> None:
    whole = compress(b"body" * 1000)
    for body in (b"not compressed", whole[:-3], whole + b"rest", compress(bytes(4 * MIB + 1))):
        refused = await remoting.send("damaged-4x", body, f=flag)
        assert (refused.code, refused.fields["TRACE_ON"]) == (13, "true")
    assert (await remoting.send("damaged-4x", whole, f=0x401)).code == 13
