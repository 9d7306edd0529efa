"""Administration: `Admin`, which `ternmq` exports, and the calls and values of it, one module for each kind of thing.

Each call is a function from arguments to an `AdminCall`: the request, and how its answer is read. It neither waits nor
connects, so three callers share it: `Admin` on asyncio, `ternmq.blocking.Admin`, and `plain_calls`, on which the
command stands. What is here but the clients imports neither gRPC nor asyncio, which take longer than such a call.
"""
