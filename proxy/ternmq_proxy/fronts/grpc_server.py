"""gRPC's own part of a server: options, an address, health and reflection."""

import socket
from typing import TYPE_CHECKING, Any

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ternmq_common.errors import StartupError
from ternmq_common.limits import HEADER_LIST_BYTES_MAX, INBOUND_BYTES_MAX
from ternmq_common.server_settings import parsed_address
from ternmq_protos.pool import POOL

if TYPE_CHECKING:
    from collections.abc import Sequence

# Clients ping on their own schedule, also without calls (`producer.md` 1.6); none of that is abuse here. Without
# SO_REUSEPORT a port that is taken is an error instead of a port shared with a stranger.
# A header table for each connection, which past calls fill, was measured to cost 10 KB for a client that does nothing.
# By gRPC's own limits calls end with CANCELLED when very many come at once, as after polls that ended together.
_OPTIONS = (
    ("grpc.max_receive_message_length", INBOUND_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", HEADER_LIST_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", 2 * HEADER_LIST_BYTES_MAX),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.hpack_table_size.decoder", 0),
    ("grpc.server.max_pending_requests", 10_000),
    ("grpc.server.max_pending_requests_hard_limit", 20_000),
    ("grpc.so_reuseport", 0),
)


def check_free(address: str) -> None:
    """StartupError that tells why the address can't be had: gRPC would only print it."""
    family, kind, protocol, _, place = _resolved(address)
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
        except OSError as error:
            raise _taken(address, error.strerror) from error


def bound_server(address: str) -> tuple[aio.Server, str]:
    """A server that has that address, and the address with its port."""
    server = aio.server(options=_OPTIONS)
    try:
        return server, f"{address.rpartition(':')[0]}:{server.add_insecure_port(address)}"
    except RuntimeError as error:
        raise _taken(address, str(error)) from error


async def start_described(server: aio.Server, names: "Sequence[str]") -> health.aio.HealthServicer:
    """Start the server with reflection of these services, and with health, which says that the first of them serves."""
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    described = (*names, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(described, server, pool=_ReflectedPool())
    await server.start()
    for service in ("", names[0]):
        await servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
    return servicer


def _resolved(address: str) -> Any:  # noqa: ANN401 - what socket.getaddrinfo says of it
    host, port = parsed_address(address)
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise _taken(address, error.strerror) from error


def _taken(address: str, reason: str | None) -> StartupError:
    return StartupError(f"gRPC can't listen on {address}: {reason}; stop what listens there, or choose another --grpc")


class _ReflectedPool:
    """Our own pool for our own names, protobuf's for those of health and reflection."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - stands for DescriptorPool's methods
        from google.protobuf import descriptor_pool

        ours, default = getattr(POOL, name), getattr(descriptor_pool.Default(), name)

        def find(*arguments: object) -> object:
            try:
                return ours(*arguments)
            except KeyError:
                return default(*arguments)

        return find
