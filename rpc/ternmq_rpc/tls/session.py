"""TLS of one connection without a socket: bytes in, bytes out."""

import contextlib
import ssl
from typing import Any

# What a client may say before it is through: a chain of certificates is a few kilobytes.
HANDSHAKE_BYTES_MAX = 128 << 10
# Of OpenSSL's texts: `[SSL: NO_SHARED_CIPHER] no shared cipher (_ssl.c:1000)`.
_REMARK = " (_ssl.c"


class TlsFailed(Exception):
    """The other side is not understood, or not believed; the text says why."""


class TlsSession:
    """One side. `shaken`: the handshake is done. `ended`: the other side has said that nothing follows."""

    __slots__ = ("_coming", "_going", "_object", "_taken", "ended", "shaken")

    def __init__(self, context: ssl.SSLContext, *, server_name: str | None = None) -> None:
        """A client's, if it names the server."""
        self._coming = ssl.MemoryBIO()
        self._going = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._coming, self._going, server_side=server_name is None, server_hostname=server_name
        )
        self._taken = 0
        self.shaken = False
        self.ended = False

    def take(self, data: "bytes | memoryview") -> None:
        """Bytes that came. TlsFailed: a handshake that has no end."""
        self._coming.write(data)
        if not self.shaken:
            self._taken += len(data)
            if self._taken > HANDSHAKE_BYTES_MAX:
                raise TlsFailed(f"its handshake has more than {HANDSHAKE_BYTES_MAX} bytes")

    def shake(self) -> bool:
        """Go on with the handshake; whether it is done. TlsFailed."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, OSError) as error:
            raise TlsFailed(_told(error)) from error
        self.shaken = True
        return True

    @property
    def has_input(self) -> bool:
        """Whether something came that was not read."""
        return not self.ended and (self._coming.pending > 0 or self._object.pending() > 0)

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
        except ssl.SSLWantReadError:  # part of a record
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        except (ssl.SSLError, OSError) as error:
            raise TlsFailed(_told(error)) from error
        return size

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
