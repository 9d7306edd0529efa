"""Limits of a request, checked before it is parsed and before anything is done for it."""

from typing import TYPE_CHECKING, Any

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.fronts.grpc.field_count import has_more_fields

if TYPE_CHECKING:
    from ternmq_common.limits import RequestLimits


class RequestSize:
    """The limits of requests of one type."""

    def __init__(self, kind: Any, limits: "RequestLimits") -> None:  # noqa: ANN401 - a message class
        self._descriptor = kind.DESCRIPTOR
        self._lists = [field.name for field in kind.DESCRIPTOR.fields if field.is_repeated]
        self._limits = limits
        # Smaller requests can't have too many fields.
        self.unlooked_bytes_max = 2 * limits.fields_max

    async def check_bytes(self, data: bytes) -> None:
        """Raise TOO_MANY_REQUESTS for bytes that would take too much time and memory to parse."""
        if await has_more_fields(data, self._descriptor, self._limits.fields_max):
            raise MessagingError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"the request has more than {self._limits.fields_max} fields; send several "
                f"(request_entries_max={self._limits.entries_max})",
            )

    def check_entries(self, request: Any) -> None:  # noqa: ANN401 - of the call's own type
        """Raise TOO_MANY_REQUESTS if a request has too many entries."""
        for name in self._lists:
            count = len(getattr(request, name))
            if count > self._limits.entries_max:
                raise MessagingError(
                    ErrorCode.TOO_MANY_REQUESTS,
                    f"the request has {count} {name}; {self._limits.entries_max} are allowed (request_entries_max)",
                )
