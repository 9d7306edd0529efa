"""gRPC with opaque messages: shells around the machines of `ternmq_rpc.grpc_http2`, which move the bytes.

`call_server.CallServer` serves any methods on asyncio, each call with headers and a deadline. `client.connect` opens
one stream on a connection of its own, for a long conversation. `blocking_calls` is for threads; it does not import
asyncio, which would take as long as the rest of a command.
"""
