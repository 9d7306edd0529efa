"""grpc.testing.TestService, as gRPC's interop tests describe it, on our `CallServer`; and a call for h2spec.

Metadata   what a client sends as `INITIAL` comes back in the answer's headers, what it sends as `TRAILING` after it.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.serving.sockets import bind_socket
from ternmq_rpc.tls.contexts import create_server_context
from ternmq_rpc.tls.files import TlsFiles
from ternmq_rpc.tls.opening import PortTls

INITIAL, TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"
# A call that is answered once its client has ended it, whatever it said.
WAITING_PATH = "/test.H2spec/Wait"
WAITING_ANSWER = b"an answer that needs DATA"
_MESSAGE_MAX = 4 << 20
_US = 1e-6
# A descriptor says of which type the fields are; no annotation here can.
Proto = Any
Metadata = tuple[tuple[str, str], ...]


class TestService:
    """Its methods, by their paths."""

    __test__ = False

    def __init__(self) -> None:
        self._types = _message_types(Path(__file__).with_name("messages.proto"))
        served = {
            "EmptyCall": ServedMethod(self._empty),
            "UnaryCall": ServedMethod(self._unary),
            "StreamingInputCall": ServedMethod(self._streaming_input, is_conversation=True),
            "StreamingOutputCall": ServedMethod(self._streaming_output),
            "FullDuplexCall": ServedMethod(self._full_duplex, is_conversation=True),
            "HalfDuplexCall": ServedMethod(self._half_duplex, is_conversation=True),
        }
        self.methods = {f"/grpc.testing.TestService/{name}": method for name, method in served.items()}
        self.methods[WAITING_PATH] = ServedMethod(_wait)

    async def _empty(self, call: ServedCall) -> None:
        await call.read_message()
        await call.finish_answer(b"")

    async def _unary(self, call: ServedCall) -> None:
        request = self._parsed("SimpleRequest", await call.read_message())
        begin_with_metadata(call)
        _refuse_if_asked(request)
        answer = self._types["SimpleResponse"](payload=_payload(request.response_type, request.response_size))
        await finish_with_metadata(call, answer.SerializeToString())

    async def _streaming_input(self, call: ServedCall) -> None:
        size = 0
        while (message := await call.read_message()) is not None:
            size += len(self._parsed("StreamingInputCallRequest", message).payload.body)
        answer = self._types["StreamingInputCallResponse"](aggregated_payload_size=size)
        await call.finish_answer(answer.SerializeToString())

    async def _streaming_output(self, call: ServedCall) -> None:
        await self._send(call, self._parsed("StreamingOutputCallRequest", await call.read_message()))
        await call.end_stream()

    async def _full_duplex(self, call: ServedCall) -> None:
        begin_with_metadata(call)
        while (message := await call.read_message()) is not None:
            request = self._parsed("StreamingOutputCallRequest", message)
            _refuse_if_asked(request)
            await self._send(call, request)
        await end_with_metadata(call)

    async def _half_duplex(self, call: ServedCall) -> None:
        messages = []
        while (message := await call.read_message()) is not None:
            messages.append(message)
        for each in messages:
            await self._send(call, self._parsed("StreamingOutputCallRequest", each))
        await call.end_stream()

    async def _send(self, call: ServedCall, request: Proto) -> None:
        for wanted in request.response_parameters:
            await asyncio.sleep(wanted.interval_us * _US)
            answer = self._types["StreamingOutputCallResponse"](payload=_payload(request.response_type, wanted.size))
            call.write_messages(answer.SerializeToString())
            await call.wait_drained()

    def _parsed(self, name: str, message: bytes | None) -> Proto:
        if message is None:
            raise CallRefused(GrpcStatus.INTERNAL, "a request is needed")
        return self._types[name].FromString(message)


async def _wait(call: ServedCall) -> None:
    while await call.read_message() is not None:
        pass
    await call.finish_answer(WAITING_ANSWER)


def begin_with_metadata(call: Any) -> None:  # noqa: ANN401 - see below
    """Send the headers of the answer now, with what the client wants back in them."""
    # Typed `Any`: until handlers can send metadata, this is the one case that fails, and not the whole module.
    wanted = _asked_for(call, INITIAL)
    if wanted:
        call.send_headers(*wanted)


async def finish_with_metadata(call: Any, message: bytes) -> None:  # noqa: ANN401 - as above
    """Send the answer, with what the client wants back after it."""
    wanted = _asked_for(call, TRAILING)
    await (call.finish_answer(message, trailers=wanted) if wanted else call.finish_answer(message))


async def end_with_metadata(call: Any) -> None:  # noqa: ANN401 - as above
    """End the answer, with what the client wants back after it."""
    wanted = _asked_for(call, TRAILING)
    await (call.end_stream(trailers=wanted) if wanted else call.end_stream())


def _asked_for(call: ServedCall, name: str) -> Metadata:
    return ((name, call.headers[name]),) if name in call.headers else ()


def _refuse_if_asked(request: Proto) -> None:
    if request.response_status.code:
        raise CallRefused(GrpcStatus(request.response_status.code), request.response_status.message)


def _payload(kind: int, size: int) -> dict[str, object]:
    return {"type": kind, "body": bytes(size)}


def _message_types(proto: Path) -> dict[str, Proto]:
    """The classes of all messages of a file, by name."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "descriptors"
        arguments: Sequence[str] = ["protoc", f"-I{proto.parent}", f"--descriptor_set_out={output}", str(proto)]
        if protoc.main(arguments) != 0:
            raise AssertionError(f"{proto} is no protocol")
        described = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file[0]
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(described.SerializeToString())
    found = pool.FindFileByName(described.name).message_types_by_name
    return {name: message_factory.GetMessageClass(each) for name, each in found.items()}


@asynccontextmanager
async def serving(tls: PortTls | None = None) -> AsyncIterator[str]:
    """The address of a server with the service."""
    budgets = ConnectionBudgets(message_bytes_max=_MESSAGE_MAX)
    server = CallServer(TestService().methods.get, headers=(INITIAL, TRAILING), budgets=budgets, tls=tls)
    sock = bind_socket("127.0.0.1:0")
    await server.add_listener(sock)
    try:
        yield f"127.0.0.1:{sock.getsockname()[1]}"
    finally:
        await server.stop_serving(0)


def tls_of(certificates: Path) -> PortTls:
    """TLS and nothing else, with the server's certificate of `ternmq tls dev-ca`."""
    cert, key = certificates / "server.pem", certificates / "server.key"
    context = create_server_context(TlsFiles(prefix="tls", cert=cert, key=key, ca=None, ca_setting="tls_client_ca"))
    return PortTls(lambda: context, allow_plain=False)
