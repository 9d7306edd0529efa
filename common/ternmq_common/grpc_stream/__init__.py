"""A gRPC stream of opaque messages on asyncio: real HTTP/2 on the wire, at a fraction of the cost of a general library.

What it knows is what one long bidirectional stream needs: `StreamServer` serves one method, `connect` opens one stream
on a connection of its own.
"""

from ternmq_common.grpc_stream.client import connect
from ternmq_common.grpc_stream.messages import Status, StreamBroken
from ternmq_common.grpc_stream.server import StreamServer
from ternmq_common.grpc_stream.stream import Stream

__all__ = ["Status", "Stream", "StreamBroken", "StreamServer", "connect"]
