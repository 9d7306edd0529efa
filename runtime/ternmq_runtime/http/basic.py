"""The caller of an HTTP request: name and password by Basic authentication (RFC 7617), and the address."""

import base64
import binascii
from typing import NamedTuple


class HttpCaller(NamedTuple):
    """A caller. `name` and `password` are "" if it sent none; `host` is an address, "" for a process of this
    machine."""

    name: str
    password: str
    host: str

    def __repr__(self) -> str:
        return f"Asker({self.name!r}, host={self.host!r})"

    def to_text(self) -> str:
        """Return the caller as a part of a path, which `from_text` reads, for a sibling process that knows the
        users."""
        return "-".join(part.encode().hex() for part in self)

    @classmethod
    def from_text(cls, text: str) -> "HttpCaller":
        name, password, host = (bytes.fromhex(part).decode() for part in text.split("-"))
        return cls(name, password, host)


def read_caller(authorization: str, host: str) -> HttpCaller:
    """Read the caller from a header `Basic ...`; without a name for any other header."""
    word, _, encoded = authorization.partition(" ")
    if word.lower() != "basic":
        return HttpCaller("", "", host)
    try:
        name, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return HttpCaller("", "", host)
    return HttpCaller(name, password, host)
