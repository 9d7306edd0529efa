"""Administration: `Admin`, which `ternmq` exports, and its calls and values, one module for each kind of object.

Each call is a function from arguments to an `AdminCall`: the request, and how its answer is read. It neither waits nor
connects, so three callers share it: `Admin` on asyncio, `ternmq.blocking.Admin`, and `plain_calls`, which the command
uses. Methods of the first two are generated from the functions, with their docstrings (`tools/generate_admin.py`, then
`generate_blocking.py`). Except for the clients nothing here imports gRPC or asyncio, which take longer to load than
such a call takes.
"""
