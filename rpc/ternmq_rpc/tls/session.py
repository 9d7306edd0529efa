"""TLS of one connection without a socket: takes bytes, and returns bytes.

Silent records  carry no data for the reader: key updates (TLS 1.3), alerts, renegotiation attempts. OpenSSL processes
                any number of them in one read, at 20 to 50 microseconds each, and one needs only 27 bytes: the input of
                one socket read could take the event loop half a second. So OpenSSL gets a few records at a time, and a
                peer that sends more silent ones than an honest one would is refused.
"""

import contextlib
import ssl
import time
from typing import TYPE_CHECKING, Any

from ternmq_rpc.tls.records import RecordReader

if TYPE_CHECKING:
    from collections.abc import Callable

# The most that a client may send before the handshake is done: a certificate chain is a few kilobytes.
HANDSHAKE_BYTES_MAX = 128 << 10
# How many may come in a row; and how many are forgiven in a second.
SILENT_RECORDS_MAX = 64
SILENT_RECORDS_PER_S = 1.0
# How many records OpenSSL gets before its output is read.
_RECORDS_AT_ONCE = 64
_NOTHING = memoryview(b"")
# Where our part of OpenSSL's texts ends: `[SSL: NO_SHARED_CIPHER] no shared cipher (_ssl.c:1000)`.
_REMARK = " (_ssl.c"


class TlsError(Exception):
    """The peer broke the rules of TLS, or its certificate is refused; the text says why."""


class TlsSession:
    """One side of a TLS connection. `is_established`: the handshake is done. `is_ended`: the peer has ended its
    output."""

    __slots__ = (
        "_clock",
        "_forgiven_s",
        "_held",
        "_incoming",
        "_object",
        "_outgoing",
        "_records",
        "_silent",
        "_taken",
        "is_ended",
        "is_established",
    )  # fmt: skip

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        clock: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """With `server_name` a client's session, else a server's. `clock` returns seconds."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._records = RecordReader()
        self._held = _NOTHING  # what OpenSSL has not received yet
        self._silent = 0.0  # silent records since the last one with data
        self._clock = clock
        self._forgiven_s = clock()
        self._taken = 0
        self.is_established = False
        self.is_ended = False

    def receive_bytes(self, data: "bytes | memoryview") -> None:
        """Take received bytes. TlsFailed: the handshake is too long."""
        if self._held:
            self._held = memoryview(bytes(self._held) + bytes(data))
        else:
            self._feed_records(data)
        if not self.is_established:
            self._taken += len(data)
            if self._taken > HANDSHAKE_BYTES_MAX:
                raise TlsError(f"its handshake has more than {HANDSHAKE_BYTES_MAX} bytes")

    def _feed_records(self, data: "bytes | memoryview") -> None:
        """Give OpenSSL the next few records."""
        size, records = self._records.skip_records(data, _RECORDS_AT_ONCE)
        self._silent += records
        if size == len(data):
            self._incoming.write(data)
            self._held = _NOTHING
            return
        self._incoming.write(data[:size])
        # `data` may be a buffer that others use too.
        self._held = data[size:] if data is self._held else memoryview(bytes(data[size:]))

    def continue_handshake(self) -> bool:
        """Continue the handshake; return whether it is done. TlsFailed."""
        while not self.is_established:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                if not self._held:
                    return False
                self._feed_records(self._held)
            except (ssl.SSLError, OSError) as error:
                raise TlsError(_describe_error(error)) from error
            else:
                self.is_established = True
                self._silent = 0.0
        return True

    @property
    def has_input(self) -> bool:
        """Whether received bytes were not read."""
        return not self.is_ended and (self._incoming.pending > 0 or len(self._held) > 0 or self._object.pending() > 0)

    @property
    def has_output(self) -> bool:
        """Whether `take_output` would return something."""
        return self._outgoing.pending > 0

    @property
    def output_bytes(self) -> int:
        return self._outgoing.pending

    def read_into(self, buffer: memoryview) -> int:
        """Read as many bytes as there are and fit; return how many. TlsFailed."""
        size, room = 0, len(buffer)
        while True:
            size += self._read_fed(buffer[size:] if size else buffer)
            if self._silent > SILENT_RECORDS_MAX:
                self._forgive_silent()
            if not self._held or self.is_ended or size == room:
                return size
            self._feed_records(self._held)

    def _read_fed(self, buffer: memoryview) -> int:
        """Read from the records that OpenSSL has."""
        size, room = 0, len(buffer)
        coming, connection = self._incoming, self._object
        read: Any = connection.read  # given a buffer it returns a count, though its type says bytes
        try:
            # A read without data raises, which costs more than this check.
            while size < room and (coming.pending or connection.pending()):
                got: int = read(room - size, buffer[size:])
                if not got:
                    self.is_ended = True
                    break
                size += got
                if self._silent:  # the bytes are of one record, which was not silent
                    self._silent = max(0.0, self._silent - 1)
        except ssl.SSLWantReadError:  # part of a record
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        except (ssl.SSLError, OSError) as error:
            raise TlsError(_describe_error(error)) from error
        return size

    def _forgive_silent(self) -> None:
        """Forgive some silent records for the time that has passed. TlsFailed: there are still too many."""
        now_s = self._clock()
        self._silent = max(0.0, self._silent - (now_s - self._forgiven_s) * SILENT_RECORDS_PER_S)
        self._forgiven_s = now_s
        if self._silent > SILENT_RECORDS_MAX:
            raise TlsError(f"it sends more than {SILENT_RECORDS_MAX} records without data, such as key updates")

    def write_bytes(self, data: "bytes | memoryview") -> None:
        """Encrypt the data; `take_output` returns it. TlsFailed."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._object.write(rest) :]
        except (ssl.SSLError, OSError) as error:
            raise TlsError(_describe_error(error)) from error

    def end_output(self) -> None:
        """Tell the peer that nothing follows."""
        with contextlib.suppress(
            ssl.SSLError, OSError
        ):  # the peer's answer is not waited for, or it broke the rules before
            self._object.unwrap()

    def take_output(self) -> bytes:
        """Take the bytes to send."""
        return self._outgoing.read()

    @property
    def protocol(self) -> str | None:
        """The protocol that both sides agreed on, None if there is none."""
        return self._object.selected_alpn_protocol()


def _describe_error(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    text = getattr(error, "reason", None) or str(error)
    return str(text).partition(_REMARK)[0].replace("_", " ").lower()
