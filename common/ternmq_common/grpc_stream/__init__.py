"""gRPC of opaque messages on asyncio: real HTTP/2 on the wire, at a fraction of the cost of a general library.

`StreamServer` serves one method and `connect` opens one stream on a connection of its own, for one long conversation.
`call_server.CallServer` serves many methods to clients that we did not write, each call with headers and a deadline.
"""

from ternmq_common.grpc_stream.client import connect
from ternmq_common.grpc_stream.messages import Status, StreamBroken
from ternmq_common.grpc_stream.server import StreamServer
from ternmq_common.grpc_stream.stream import Stream

__all__ = ["Status", "Stream", "StreamBroken", "StreamServer", "connect"]
