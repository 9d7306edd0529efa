"""What the tests of streams share: servers that echo, ours and gRPC's own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from grpc import aio

from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from ternmq_rpc.grpc_stream.stream import MessageStream
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.serving.sockets import bind_socket

SERVICE = "test.Echo"
METHOD = f"/{SERVICE}/Exchange"
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))

Serve = Callable[[ServedCall], Awaitable[None]]
Handler = Callable[[Any, Any], Awaitable[None]]


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until it is so; a wait in vain ends with the test's time."""
    while not is_so():  # noqa: ASYNC110 - what is looked at tells nobody
        await asyncio.sleep(0)


def lose(stream: MessageStream) -> None:
    """Cut the connection of the stream."""
    transport = stream._connection._transport
    assert transport is not None
    transport.abort()


async def echo(call: ServedCall) -> None:
    call.send_headers()
    while (message := await call.read_message()) is not None:
        call.write_messages(message)
        await call.wait_drained()


@asynccontextmanager
async def ours(
    serve: Serve = echo, *, budgets: ConnectionBudgets | None = None, talks: bool = True
) -> AsyncIterator[tuple[CallServer, str]]:
    """A server of ours with one method, and its address."""
    server = CallServer({METHOD: ServedMethod(serve, talks)}.get, budgets=budgets)
    async with served(server) as address:
        yield server, address


@asynccontextmanager
async def served(server: CallServer, name: str = "") -> AsyncIterator[str]:
    """The address at which the server listens."""
    sock = bind_socket("127.0.0.1:0")
    await server.add_listener(sock, name)
    try:
        yield f"127.0.0.1:{sock.getsockname()[1]}"
    finally:
        await server.stop_serving(0)


async def echo_of_grpc(_: object, context: "aio.ServicerContext[Any, Any]") -> None:
    while (message := await context.read()) is not aio.EOF:
        await context.write(message)


@asynccontextmanager
async def theirs(handler: Handler = echo_of_grpc) -> AsyncIterator[tuple[aio.Server, str]]:
    """gRPC's own server, and its address."""
    server = aio.server(options=(("grpc.so_reuseport", 0), *UNLIMITED))
    exchange = grpc.stream_stream_rpc_method_handler(handler)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Exchange": exchange}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield server, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def call_of_grpc(address: str, method: str = METHOD, **how: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - as grpc
    """A call by gRPC's own client."""
    async with aio.insecure_channel(address, options=UNLIMITED) as channel:
        call = channel.stream_stream(method)(**how)
        try:
            yield call
        finally:
            call.cancel()
