"""Chooses the endpoints by which a client reaches this proxy, in routes and assignments (`overview.md, Endpoints`).

Advertised  the operator configured the address of the listener: it is valid for every client of the listener
Echoed      otherwise the endpoints that the client sent, since they led it here, through any port mapping
Own         a client that sent none gets the address where its call arrived
"""

import ipaddress
import socket
from typing import TYPE_CHECKING

from ternmq_common.addresses import is_wildcard, parse_address
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import Address, Endpoints

if TYPE_CHECKING:
    from ternmq_proxy.call import Call


def endpoints_for(requested: Endpoints, call: "Call") -> Endpoints:
    """Return the endpoints that the client connects to; `requested` are those that it sent."""
    if call.listener.advertised is not None:
        return _make_endpoints(*parse_address(call.listener.advertised))
    if not requested.addresses:
        return _make_endpoints(*_own_address(call))
    if requested.scheme == definition_pb2.ADDRESS_SCHEME_UNSPECIFIED:
        return Endpoints(scheme=_address_scheme(requested.addresses[0].host), addresses=requested.addresses)
    return requested


def _make_endpoints(host: str, port: int) -> Endpoints:
    return Endpoints(scheme=_address_scheme(host), addresses=[Address(host=host, port=port)])


def _address_scheme(host: str) -> definition_pb2.AddressScheme:
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
    except ValueError:
        return definition_pb2.DOMAIN_NAME
    return definition_pb2.IPv4 if version == 4 else definition_pb2.IPv6


def _own_address(call: "Call") -> tuple[str, int]:
    host, port = parse_address(call.listener.address)
    return _host_towards(call.peer) if is_wildcard(host) else host, port


def _host_towards(peer: str) -> str:
    """Return the address from which this machine reaches the peer, or else the machine's name.

    gRPC does not tell by which address a connection arrived. It is that one, unless the ways there and back differ.
    """
    try:
        host, port = parse_address(peer)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as towards:
            towards.connect((host, port))  # sends nothing
            own: str = towards.getsockname()[0]
            return own
    except (ValueError, OSError):  # the peer is no address, or there is no route to it
        return socket.gethostname()
