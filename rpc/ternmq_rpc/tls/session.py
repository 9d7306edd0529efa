"""TLS of one connection without a socket: bytes in, bytes out.

Silent records  say nothing to whoever reads: updates of keys (TLS 1.3), alerts, attempts to negotiate anew. OpenSSL
                deals with any number of them in one read, at some 20 to 50 microseconds each, and 27 bytes are one:
                what a socket gave at once would take the event loop for half a second. So OpenSSL gets a few records at
                a time, and who sends more silent ones than an honest peer ever would is refused.
"""

import contextlib
import ssl
import time
from typing import TYPE_CHECKING, Any

from ternmq_rpc.tls.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable

# What a client may say before it is through: a chain of certificates is a few kilobytes.
HANDSHAKE_BYTES_MAX = 128 << 10
# At once; and how many are forgiven in a second.
SILENT_RECORDS_MAX = 64
SILENT_RECORDS_PER_S = 1.0
# That OpenSSL gets before it is asked what came of them.
_RECORDS_AT_ONCE = 64
_NOTHING = memoryview(b"")
# Of OpenSSL's texts: `[SSL: NO_SHARED_CIPHER] no shared cipher (_ssl.c:1000)`.
_REMARK = " (_ssl.c"


class TlsFailed(Exception):
    """The other side is not understood, or not believed; the text says why."""


class TlsSession:
    """One side. `shaken`: the handshake is done. `ended`: the other side has said that nothing follows."""

    __slots__ = (
        "_clock", "_coming", "_forgiven_s", "_going", "_held", "_object", "_records", "_silent", "_taken", "ended",
        "shaken",
    )  # fmt: skip

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        clock: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """A client's, if it names the server. `clock` in seconds."""
        self._coming = ssl.MemoryBIO()
        self._going = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._coming, self._going, server_side=server_name is None, server_hostname=server_name
        )
        self._records = Records()
        self._held = _NOTHING  # what OpenSSL has not got yet
        self._silent = 0.0  # records, since one said something
        self._clock = clock
        self._forgiven_s = clock()
        self._taken = 0
        self.shaken = False
        self.ended = False

    def take(self, data: "bytes | memoryview") -> None:
        """Bytes that came. TlsFailed: a handshake that has no end."""
        if self._held:
            self._held = memoryview(bytes(self._held) + bytes(data))
        else:
            self._feed(data)
        if not self.shaken:
            self._taken += len(data)
            if self._taken > HANDSHAKE_BYTES_MAX:
                raise TlsFailed(f"its handshake has more than {HANDSHAKE_BYTES_MAX} bytes")

    def _feed(self, data: "bytes | memoryview") -> None:
        """Give OpenSSL the next few records."""
        size, records = self._records.walk(data, _RECORDS_AT_ONCE)
        self._silent += records
        if size == len(data):
            self._coming.write(data)
            self._held = _NOTHING
            return
        self._coming.write(data[:size])
        # What is given in may be a buffer that others use too.
        self._held = data[size:] if data is self._held else memoryview(bytes(data[size:]))

    def shake(self) -> bool:
        """Go on with the handshake; whether it is done. TlsFailed."""
        while not self.shaken:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                if not self._held:
                    return False
                self._feed(self._held)
            except (ssl.SSLError, OSError) as error:
                raise TlsFailed(_told(error)) from error
            else:
                self.shaken = True
                self._silent = 0.0
        return True

    @property
    def has_input(self) -> bool:
        """Whether something came that was not read."""
        return not self.ended and (self._coming.pending > 0 or len(self._held) > 0 or self._object.pending() > 0)

    @property
    def has_output(self) -> bool:
        """Whether `outgoing` has something."""
        return self._going.pending > 0

    @property
    def output_bytes(self) -> int:
        return self._going.pending

    def read_into(self, buffer: memoryview) -> int:
        """As many bytes as there are and fit. TlsFailed."""
        size, room = 0, len(buffer)
        while True:
            size += self._read_fed(buffer[size:] if size else buffer)
            if self._silent > SILENT_RECORDS_MAX:
                self._forgive()
            if not self._held or self.ended or size == room:
                return size
            self._feed(self._held)

    def _read_fed(self, buffer: memoryview) -> int:
        """Of what OpenSSL has."""
        size, room = 0, len(buffer)
        coming, connection = self._coming, self._object
        read: Any = connection.read  # which counts, given a buffer, and is said to return bytes
        try:
            # A read in vain is an exception, which costs more than to look.
            while size < room and (coming.pending or connection.pending()):
                got: int = read(room - size, buffer[size:])
                if not got:
                    self.ended = True
                    break
                size += got
                if self._silent:  # it was of one record, and that said something
                    self._silent = max(0.0, self._silent - 1)
        except ssl.SSLWantReadError:  # part of a record
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        except (ssl.SSLError, OSError) as error:
            raise TlsFailed(_told(error)) from error
        return size

    def _forgive(self) -> None:
        """What time makes up for. TlsFailed: it is not enough."""
        now_s = self._clock()
        self._silent = max(0.0, self._silent - (now_s - self._forgiven_s) * SILENT_RECORDS_PER_S)
        self._forgiven_s = now_s
        if self._silent > SILENT_RECORDS_MAX:
            raise TlsFailed(
                f"it sends more than {SILENT_RECORDS_MAX} records that say nothing, such as updates of keys"
            )

    def write(self, data: "bytes | memoryview") -> None:
        """Have all of it in what goes. TlsFailed."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._object.write(rest) :]
        except (ssl.SSLError, OSError) as error:
            raise TlsFailed(_told(error)) from error

    def end(self) -> None:
        """Say that nothing follows."""
        with contextlib.suppress(ssl.SSLError, OSError):  # its word is not waited for, or it broke the rules before
            self._object.unwrap()

    def outgoing(self) -> bytes:
        """What is to be sent."""
        return self._going.read()

    @property
    def protocol(self) -> str | None:
        """What both sides have agreed to speak, None if nobody said."""
        return self._object.selected_alpn_protocol()


def _told(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    text = getattr(error, "reason", None) or str(error)
    return str(text).partition(_REMARK)[0].replace("_", " ").lower()
