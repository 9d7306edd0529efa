"""gRPC of opaque messages: shells around the machines of `ternmq_common.grpc_http2`, which move the bytes.

`call_server.CallServer` serves any methods on asyncio, each call with headers and a deadline; `connect` opens one
stream on a connection of its own, for one long conversation; `blocking_calls` is for threads.
"""

from ternmq_common.grpc_http2.messages import Status, StreamBroken
from ternmq_common.grpc_stream.client import connect
from ternmq_common.grpc_stream.stream import Stream

__all__ = ["Status", "Stream", "StreamBroken", "connect"]
