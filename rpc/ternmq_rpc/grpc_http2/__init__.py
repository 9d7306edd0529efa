"""gRPC over HTTP/2 as a state machine, without a network, a clock or an event loop.

`ServerMachine` and `ClientMachine` take the bytes that came and say what they mean (`events.py`); what is to be sent is
taken from them. Whoever moves the bytes is a shell: `ternmq_rpc.grpc_stream` has three of them.
"""
