"""Compressed bodies in each of their forms: whole, cut, damaged, larger than allowed."""

import contextlib
import gzip
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.processors.sending.compression import Compression, InflatedBody


def compress_zstd_unsized(body: bytes) -> bytes:
    """As Java does it: as a stream, whose header does not say how long it is."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(body) + compressor.flush()


FORMS: list[tuple[Compression, Callable[[bytes], bytes]]] = [
    (Compression.GZIP, zlib.compress),
    (Compression.GZIP, gzip.compress),
    (Compression.LZ4, lz4.frame.compress),
    (Compression.ZSTD, zstandard.compress),
    (Compression.ZSTD, compress_zstd_unsized),
]
each_form = pytest.mark.parametrize(("form", "compress"), FORMS)


@each_form
@given(body=st.binary(min_size=1, max_size=5000), spare=st.integers(0, 100))
def test_a_body_is_inflated_as_it_was(
    form: Compression, compress: Callable[[bytes], bytes], body: bytes, spare: int
) -> None:
    assert InflatedBody(compress(body), len(body) + spare, form).whole_body() == body


@each_form
def test_a_body_above_the_limit_is_inflated_up_to_it(form: Compression, compress: Callable[[bytes], bytes]) -> None:
    bomb = compress(bytes(64 << 20))
    inflated = InflatedBody(bomb, 1000, form)
    assert (len(inflated.body), inflated.fits, inflated.whole_body()) == (1001, False, None)
    assert InflatedBody(compress(b"x" * 1000), 1000, form).whole_body() == b"x" * 1000
    assert InflatedBody(compress(b"x" * 1001), 1000, form).whole_body() is None


@each_form
@given(body=st.binary(min_size=1, max_size=2000), data=st.data())
def test_a_body_that_is_cut_is_corrupted(
    form: Compression, compress: Callable[[bytes], bytes], body: bytes, data: st.DataObject
) -> None:
    whole = compress(body)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(MessagingError) as refused:
        InflatedBody(cut, 10_000, form).whole_body()
    assert refused.value.code == ErrorCode.MESSAGE_CORRUPTED


@each_form
@given(noise=st.binary(max_size=200))
def test_noise_is_corrupted_or_read_within_the_limit(
    form: Compression, compress: Callable[[bytes], bytes], noise: bytes
) -> None:
    damaged = bytearray(compress(bytes(1000) + noise))
    for position, value in enumerate(noise):
        damaged[position * 7 % len(damaged)] ^= value
    for tried in (noise, bytes(damaged)):
        with contextlib.suppress(MessagingError):
            inflated = InflatedBody(tried, 1000, form)
            assert len(inflated.body) <= 1001
            inflated.whole_body()


@each_form
def test_data_after_the_end_and_an_empty_body_are_no_body(
    form: Compression, compress: Callable[[bytes], bytes]
) -> None:
    assert InflatedBody(compress(b"x") + b"more", 1000, form).whole_body() is None
    with pytest.raises(MessagingError) as refused:
        InflatedBody(compress(b""), 1000, form).whole_body()
    assert refused.value.code == ErrorCode.MESSAGE_BODY_EMPTY


def test_a_zstandard_frame_that_asks_for_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = compressor.compress(b"x") + compressor.flush()
    with pytest.raises(MessagingError) as refused:
        InflatedBody(frame, 1000, Compression.ZSTD)
    assert refused.value.code == ErrorCode.MESSAGE_CORRUPTED
