"""The forms of compressed bodies, inflated up to a limit.

The libraries of LZ4 and Zstandard take 4 MB of memory, so a process loads them with the first body that needs them.
"""

import enum
import zlib

from ternmq_common.errors import ErrorCode, MessagingError

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
# What RFC 8878 recommends that decoders take; a frame may ask for 128 MiB.
_ZSTD_WINDOW_BYTES_MAX = 8 << 20


class Compression(enum.Enum):
    """The form of a compressed body. GZIP is zlib's form too: a body says itself which it is."""

    GZIP = "GZIP"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"


class InflatedBody:
    """A body, inflated to at most `bytes_max` and one byte, which tells that there is more. Raises MESSAGE_CORRUPTED if
    it is not of that form."""

    __slots__ = ("_compression", "_has_rest", "_is_whole", "body", "fits")

    def __init__(self, compressed: bytes, bytes_max: int, compression: Compression = Compression.GZIP) -> None:
        self._compression = compression
        self.body = b""
        self._is_whole = self._has_rest = False
        if compression is Compression.LZ4:
            self._inflate_lz4(compressed, bytes_max + 1)
        elif compression is Compression.ZSTD:
            self._inflate_zstd(compressed, bytes_max + 1)
        else:
            self._inflate_gzip(compressed, bytes_max + 1)
        self.fits = len(self.body) <= bytes_max

    def _inflate_gzip(self, compressed: bytes, most: int) -> None:
        inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            self.body = inflater.decompress(compressed, most)
        except zlib.error as error:
            raise self._corrupted(f"can't be inflated: {error}") from error
        self._is_whole, self._has_rest = inflater.eof, bool(inflater.unused_data)

    def _inflate_lz4(self, compressed: bytes, most: int) -> None:
        from lz4.frame import LZ4FrameDecompressor

        inflater = LZ4FrameDecompressor()
        try:
            self.body = inflater.decompress(compressed, most)
        except RuntimeError as error:
            raise self._corrupted(f"can't be inflated: {error}") from error
        self._is_whole, self._has_rest = inflater.eof, bool(inflater.unused_data)

    def _inflate_zstd(self, compressed: bytes, most: int) -> None:
        from zstandard import ZstdDecompressor, ZstdError

        decompressor = ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        try:
            self.body = decompressor.stream_reader(compressed).read(most)
            if len(self.body) < most:
                # The reader has the limit, but takes a torn body for a whole one; this one has no limit.
                inflater = decompressor.decompressobj()
                self.body = inflater.decompress(compressed)
                self._is_whole, self._has_rest = inflater.eof, bool(inflater.unused_data)
        except ZstdError as error:
            raise self._corrupted(f"can't be inflated: {error}") from error

    def whole_body(self) -> bytes | None:
        """Return the body; None if it is longer than the limit, or has data after its first part."""
        if not self.fits or self._has_rest:
            return None
        if not self._is_whole:
            raise self._corrupted("ends too early")
        if not self.body:
            raise MessagingError(ErrorCode.MESSAGE_BODY_EMPTY, "the body is empty once it is inflated")
        return self.body

    def _corrupted(self, how: str) -> MessagingError:
        return MessagingError(ErrorCode.MESSAGE_CORRUPTED, f"the body is marked as {self._compression.value} but {how}")
