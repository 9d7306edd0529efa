"""gRPC of opaque messages on asyncio: real HTTP/2 on the wire, at a fraction of the cost of a general library.

`call_server.CallServer` serves any methods, each call with headers and a deadline; `connect` opens one stream on a
connection of its own, for one long conversation.
"""

from ternmq_common.grpc_stream.client import connect
from ternmq_common.grpc_stream.messages import Status, StreamBroken
from ternmq_common.grpc_stream.stream import Stream

__all__ = ["Status", "Stream", "StreamBroken", "connect"]
