"""Checks the fields of a header block against the rules of RFC 9113, sections 8.2 and 8.3.

A block that breaks these rules is malformed: its stream ends with PROTOCOL_ERROR, the connection goes on. Control
characters are refused in every value that is read, so that none gets into a log or onto a screen.
"""

import re
from collections.abc import Mapping
from typing import Final

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")
_FORBIDDEN_IN_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PSEUDO: Final = frozenset({":method", ":scheme", ":path", ":authority", ":status"})
# Fields about a connection of HTTP/1.
_OF_CONNECTIONS: Final = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
# Fields whose values are checked here.
RULED: Final = _PSEUDO | {"te", "content-length"}


class MalformedHeaders(Exception):
    """The fields of a header block are not allowed; the text names one."""


def checked_name(name: str) -> str:
    """Return the name of a field; MalformedHeaders if it is not a valid one."""
    if name[:1] == ":":
        if name not in _PSEUDO:
            raise MalformedHeaders(f"there is no field {name!r}")
    elif name in _OF_CONNECTIONS or not _NAME.fullmatch(name):
        raise MalformedHeaders(f"no field may be called {name!r}")
    return name


def checked_value(name: str, value: str) -> str:
    """Return the value of a field; MalformedHeaders if it has control characters. Space around it is allowed."""
    if _FORBIDDEN_IN_VALUE.search(value):
        raise MalformedHeaders(f"the field {name} has the value {value[:100]!r}")
    return value


def check_request(fields: Mapping[str, str], *, end_stream: bool) -> None:
    """MalformedHeaders if a request can't begin with these fields."""
    if not (fields.get(":method") and fields.get(":scheme") and fields.get(":path")):
        raise MalformedHeaders("a request needs :method, :scheme and :path")
    if ":status" in fields:
        raise MalformedHeaders("a request with :status")
    if fields.get("te", "trailers") != "trailers":
        raise MalformedHeaders(f"te is {fields['te']!r}")
    length = fields.get("content-length")
    if length is not None and not (length.isascii() and length.isdecimal() and len(length) <= 19):
        raise MalformedHeaders(f"content-length is {length!r}")
    if length is not None and end_stream and int(length):
        raise MalformedHeaders(f"content-length is {length}, and nothing follows")


def check_trailers(fields: Mapping[str, str]) -> None:
    """MalformedHeaders if a request can't end with these fields."""
    for name in fields:
        if name[0] == ":":
            raise MalformedHeaders(f"{name} among the trailers")
