"""The address of a server: one or more addresses that stand for the same server."""

import ipaddress
from dataclasses import dataclass

from ternmq.errors import BadRequest
from ternmq_protos.v2 import definition_pb2 as pb

DEFAULT_PORT = 8081


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of one kind, in the order in which the user or the server gave them."""

    scheme: pb.AddressScheme
    addresses: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, text: str) -> "Endpoints":
        """Parse `host:port`, `[::1]:port`, or several IP addresses separated by `;`; the default port is 8081."""
        addresses = tuple(_parse_address(part.strip()) for part in text.split(";") if part.strip())
        if not addresses:
            raise BadRequest(pb.ILLEGAL_ACCESS_POINT, f"{text!r} has no address; write host:port")
        schemes = {_scheme_of(host) for host, _ in addresses}
        if len(schemes) > 1 or (pb.DOMAIN_NAME in schemes and len(addresses) > 1):
            raise BadRequest(pb.ILLEGAL_ACCESS_POINT, f"{text!r}: give one name, or addresses of one kind")
        return cls(scheme=schemes.pop(), addresses=addresses)

    @classmethod
    def from_proto(cls, endpoints: pb.Endpoints) -> "Endpoints":
        return cls(
            scheme=endpoints.scheme,
            addresses=tuple((address.host, address.port) for address in endpoints.addresses),
        )

    def to_proto(self) -> pb.Endpoints:
        return pb.Endpoints(
            scheme=self.scheme,
            addresses=[pb.Address(host=host, port=port) for host, port in self.addresses],
        )

    def __str__(self) -> str:
        form = "[{}]:{}" if self.scheme == pb.IPv6 else "{}:{}"
        return ";".join(form.format(host, port) for host, port in self.addresses)


def _parse_address(text: str) -> tuple[str, int]:
    text = text.removeprefix("http://").removeprefix("https://").rstrip("/")
    host, separator, port = text.rpartition(":")
    if not separator or (":" in host and not host.endswith("]")):
        host, port = text, str(DEFAULT_PORT)  # no port, or a bare IPv6 address
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadRequest(pb.ILLEGAL_ACCESS_POINT, f"{text!r} is not an address; write host:port")
    return host, int(port)


def _scheme_of(host: str) -> pb.AddressScheme:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return pb.DOMAIN_NAME
    return pb.IPv4 if version == 4 else pb.IPv6
