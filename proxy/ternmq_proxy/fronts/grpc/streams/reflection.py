"""grpc.reflection.v1alpha: describes the server's calls and their types to tools."""

from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection_pb2 import ErrorResponse, ServerReflectionRequest, ServerReflectionResponse

from ternmq_protos.pool import POOL
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NAME = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"].full_name
# Our own names are in our own pool, those of health and reflection in protobuf's.
_POOLS: tuple[Any, ...] = (POOL, descriptor_pool.Default())


class ReflectionService:
    """Describes these services and itself."""

    def __init__(self, services: "Sequence[str]") -> None:
        self._services = sorted((*services, _NAME))

    def served_methods(self) -> dict[str, ServedMethod]:
        """Return the methods by path."""
        return {f"/{_NAME}/ServerReflectionInfo": ServedMethod(self._serve_reflection, is_conversation=True)}

    async def _serve_reflection(self, call: ServedCall) -> None:
        while (data := await call.read_message()) is not None:
            try:
                request = ServerReflectionRequest.FromString(data)
            except DecodeError as error:
                raise CallRefused(GrpcStatus.INTERNAL, "the bytes sent are no ServerReflectionRequest") from error
            answer = self._answer_request(request)
            answer.valid_host = request.host
            answer.original_request.CopyFrom(request)
            call.write_messages(answer.SerializeToString())
            await call.wait_drained()

    def _answer_request(self, request: ServerReflectionRequest) -> ServerReflectionResponse:
        answer = ServerReflectionResponse()
        question = request.WhichOneof("message_request")
        try:
            if question == "list_services":
                for name in self._services:
                    answer.list_services_response.service.add(name=name)
            elif question == "file_by_filename":
                _add_file(answer, _find_descriptor("FindFileByName", request.file_by_filename))
            elif question == "file_containing_symbol":
                _add_file(answer, _find_descriptor("FindFileContainingSymbol", request.file_containing_symbol))
            elif question == "file_containing_extension":
                wanted = request.file_containing_extension
                _add_file(
                    answer,
                    _in_pools(lambda pool: _find_extension(pool, wanted.containing_type, wanted.extension_number).file),
                )
            elif question == "all_extension_numbers_of_type":
                name = request.all_extension_numbers_of_type
                answer.all_extension_numbers_response.base_type_name = name
                answer.all_extension_numbers_response.extension_number.extend(
                    _in_pools(lambda pool: _extension_numbers(pool, name))
                )
            else:
                answer.error_response.CopyFrom(
                    _error_response(GrpcStatus.INVALID_ARGUMENT, "the request asks for nothing")
                )
        except KeyError:
            answer.error_response.CopyFrom(_error_response(GrpcStatus.NOT_FOUND, "there is no such thing here"))
        return answer


def _find_descriptor(how: str, name: str) -> Any:  # noqa: ANN401 - a file of either pool
    return _in_pools(lambda pool: getattr(pool, how)(name))


def _in_pools(find: "Callable[[Any], Any]") -> Any:  # noqa: ANN401 - any descriptor
    """Return the result of the first pool that has one. Raises KeyError."""
    for pool in _POOLS[:-1]:
        try:
            return find(pool)
        except KeyError:
            continue
    return find(_POOLS[-1])


def _find_extension(pool: Any, name: str, number: int) -> Any:  # noqa: ANN401 - of either pool
    return pool.FindExtensionByNumber(pool.FindMessageTypeByName(name), number)


def _extension_numbers(pool: Any, name: str) -> list[int]:  # noqa: ANN401 - of either pool
    return sorted(extension.number for extension in pool.FindAllExtensions(pool.FindMessageTypeByName(name)))


def _add_file(answer: ServerReflectionResponse, file: Any) -> None:  # noqa: ANN401 - of either pool
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    answer.file_descriptor_response.file_descriptor_proto.append(proto.SerializeToString())


def _error_response(status: GrpcStatus, text: str) -> ErrorResponse:
    return ErrorResponse(error_code=int(status), error_message=text)
