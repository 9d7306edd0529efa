"""grpc.health.v1: whether the server serves, as one answer or as a stream."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, ClassVar

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod

if TYPE_CHECKING:
    from collections.abc import Sequence


class HealthService:
    """Reports these services as serving, until `report_not_serving`."""

    NAME: ClassVar[str] = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

    def __init__(self, services: "Sequence[str]") -> None:
        self._services = frozenset(services)
        self._ended = False
        self._watching: set[ServedCall] = set()

    def served_methods(self) -> dict[str, ServedMethod]:
        """Return the methods by path."""
        return {
            f"/{self.NAME}/Check": ServedMethod(self._check_service),
            f"/{self.NAME}/Watch": ServedMethod(self._watch_service, is_conversation=True),
        }

    def report_not_serving(self) -> None:
        """Report to all watchers that the services no longer serve."""
        self._ended = True
        for call in self._watching:
            with contextlib.suppress(StreamBroken):
                call.write_messages(self._service_status(""))

    async def _check_service(self, call: ServedCall) -> None:
        service = await _read_service(call)
        if service not in self._services:
            raise CallRefused(GrpcStatus.NOT_FOUND, f"{service} is not known here")
        await call.finish_answer(self._service_status(service))

    async def _watch_service(self, call: ServedCall) -> None:
        service = await _read_service(call)
        call.write_messages(self._service_status(service))
        if service in self._services:
            self._watching.add(call)
        try:
            await asyncio.get_running_loop().create_future()  # until one side ends it
        finally:
            self._watching.discard(call)

    def _service_status(self, service: str) -> bytes:
        if service not in self._services:
            status = HealthCheckResponse.SERVICE_UNKNOWN
        elif self._ended:
            status = HealthCheckResponse.NOT_SERVING
        else:
            status = HealthCheckResponse.SERVING
        answer: bytes = HealthCheckResponse(status=status).SerializeToString()
        return answer


async def _read_service(call: ServedCall) -> str:
    try:
        request = HealthCheckRequest.FromString(await call.read_message() or b"")
    except DecodeError as error:
        raise CallRefused(GrpcStatus.INTERNAL, "the bytes sent are no HealthCheckRequest") from error
    return str(request.service)
