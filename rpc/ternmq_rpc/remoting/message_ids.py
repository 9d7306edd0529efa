"""The two ids of a message in the remoting protocol: the unique key of its producer, and the offset id of its place.

Offset id   address of 4 or 16 bytes | port i32 | commit log offset i64, in upper-case hexadecimal digits. Tools connect
            to that address to see the message, so it is the one that the proxy advertises.
"""

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from librt.strings import BytesWriter, write_i32_be, write_i64_be

_PLACE: Final = struct.Struct(">iq")
_ID_BYTES: Final = (16, 28)
_PORT_MAX: Final = 65535


class Host(NamedTuple):
    """An address as messages have it: 4 or 16 bytes, and a port."""

    address: bytes
    port: int

    @property
    def is_ipv6(self) -> bool:
        """Whether the address has 16 bytes."""
        return len(self.address) == IPV6_BYTES


IPV4_BYTES: Final = 4
IPV6_BYTES: Final = 16
UNKNOWN_HOST: Final = Host(bytes(IPV4_BYTES), 0)


class InvalidMessageId(ValueError):
    """A text is no offset id."""


def parse_host(text: str) -> Host:
    """Return the address of `host:port` or `[host]:port`; UNKNOWN_HOST for a name, or what is no address."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host else text
    try:
        address = ip_address(host)
    except ValueError:
        return UNKNOWN_HOST
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= len(str(_PORT_MAX)) else 0
    return Host(address.packed, number if number <= _PORT_MAX else 0)


def render_host(host: Host) -> str:
    """Return the text of an address: `host:port`, with brackets around IPv6."""
    if host.is_ipv6:
        return f"[{IPv6Address(host.address)}]:{host.port}"
    return f"{IPv4Address(host.address)}:{host.port}"


def encode_offset_id(host: Host, number: int) -> str:
    """Return the id of the message at that place; `number` has 64 bits."""
    writer = BytesWriter()
    writer.write(host.address)
    write_i32_be(writer, host.port)
    write_i64_be(writer, number)
    return writer.getvalue().hex().upper()


def decode_offset_id(text: str) -> tuple[Host, int]:
    """Return the address and the number of an id. InvalidMessageId if it is none."""
    try:
        data = bytes.fromhex(text) if text.isalnum() else b""
    except ValueError:
        data = b""
    if len(data) not in _ID_BYTES:
        raise InvalidMessageId(f"{text[:64]!r} is no offset id; it has 32 or 56 hexadecimal digits")
    port, number = _PLACE.unpack_from(data, len(data) - _PLACE.size)
    return Host(data[: -_PLACE.size], port), number
