"""Tells whether this installation has the hot path compiled (`hatch_build.py`), or runs it in plain Python."""

from ternmq_rpc.grpc_http2 import machine


def is_compiled() -> bool:
    return not machine.__file__.endswith(".py")
