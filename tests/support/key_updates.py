"""A client of TLS 1.3 that updates its keys whenever a test wants, by the OpenSSL of Python itself.

Python's ssl has no way to say so, and `openssl s_client` takes one command a turn, which is no flood. So OpenSSL is
called by its own names; they are those that the module `_ssl` was linked with.
"""

import _ssl
import ctypes
import ctypes.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_OUT_BYTES = 1 << 20
_ALPN = b"\x02h2"
_NAMES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "TLS_client_method": (ctypes.c_void_p, ()),
    "SSL_CTX_new": (ctypes.c_void_p, (ctypes.c_void_p,)),
    "SSL_CTX_free": (None, (ctypes.c_void_p,)),
    "SSL_new": (ctypes.c_void_p, (ctypes.c_void_p,)),
    "SSL_free": (None, (ctypes.c_void_p,)),
    "SSL_set_bio": (None, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)),
    "SSL_set_connect_state": (None, (ctypes.c_void_p,)),
    "SSL_set_alpn_protos": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint)),
    "SSL_do_handshake": (ctypes.c_int, (ctypes.c_void_p,)),
    "SSL_key_update": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_int)),
    "SSL_write": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)),
    "BIO_s_mem": (ctypes.c_void_p, ()),
    "BIO_new": (ctypes.c_void_p, (ctypes.c_void_p,)),
    "BIO_read": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)),
    "BIO_write": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)),
}


def _openssl() -> Any:  # noqa: ANN401 - functions by name
    """AttributeError or OSError where Python's OpenSSL is out of reach; nothing of it can be tested there then."""
    # Names are looked up in what a library was linked with as well; a Python that has OpenSSL inside exports none.
    library = ctypes.CDLL(_ssl.__file__ or ctypes.util.find_library("ssl"))
    for name, (result, arguments) in _NAMES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class UpdatingClient:
    """TLS without a socket that believes every certificate: bytes in, bytes out."""

    def __init__(self) -> None:
        self._library = _openssl()
        self._context = self._library.SSL_CTX_new(self._library.TLS_client_method())
        self._ssl = self._library.SSL_new(self._context)
        memory = self._library.BIO_s_mem()
        self._coming, self._going = self._library.BIO_new(memory), self._library.BIO_new(memory)
        self._library.SSL_set_bio(self._ssl, self._coming, self._going)
        self._library.SSL_set_connect_state(self._ssl)
        self._library.SSL_set_alpn_protos(self._ssl, _ALPN, len(_ALPN))
        self._out = ctypes.create_string_buffer(_OUT_BYTES)

    def close(self) -> None:
        self._library.SSL_free(self._ssl)
        self._library.SSL_CTX_free(self._context)

    def shake(self, came: bytes = b"") -> bytes:
        """Go on with the handshake; what is to be sent."""
        self._library.BIO_write(self._coming, came, len(came))
        self._library.SSL_do_handshake(self._ssl)
        return self._outgoing()

    def write(self, data: bytes) -> bytes:
        """As a record that says something."""
        assert self._library.SSL_write(self._ssl, data, len(data)) == len(data), "the handshake is not done"
        return self._outgoing()

    def updates(self, count: int, *, answered: bool) -> bytes:
        """So many records that each change the keys; `answered`: the other side is asked to do the same."""
        for _ in range(count):
            assert self._library.SSL_key_update(self._ssl, int(answered)) == 1, "this is not TLS 1.3, or not begun"
            assert self._library.SSL_do_handshake(self._ssl) == 1
        return self._outgoing()

    def _outgoing(self) -> bytes:
        return b"".join(self._drained())

    def _drained(self) -> Iterator[bytes]:
        while (size := self._library.BIO_read(self._going, self._out, _OUT_BYTES)) > 0:
            yield self._out.raw[:size]


@contextmanager
def connected(sock: socket.socket, *, opening: bytes) -> Iterator[UpdatingClient]:
    """Shake hands over this socket, and send that; OSError when the server doesn't."""
    client = UpdatingClient()
    try:
        sock.sendall(client.shake())
        while not (going := client.shake(_received(sock))):
            pass
        sock.sendall(going + client.write(opening))
        yield client
    finally:
        client.close()


def _received(sock: socket.socket) -> bytes:
    data = sock.recv(1 << 16)
    if not data:
        raise ConnectionResetError("the server closed the connection in the handshake")
    return data
