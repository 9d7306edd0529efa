"""gRPC over HTTP/2 as a state machine, without a network, a clock or an event loop.

`ServerMachine` and `ClientMachine` take the bytes that were received and return events (`events.py`); the bytes to send
are taken from them. The code that moves the bytes is a shell: `ternmq_rpc.grpc_stream` has three of them.
"""
