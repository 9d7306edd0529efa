"""The calls that pages make in the name of the signed-in user."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ternmq_common.errors import ErrorCode
from ternmq_console.api.answers import MULTIPLE, OK, code_name, http_status
from ternmq_console.calls import CALLS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.requests import Request

    from ternmq_console.operator_calls import Message, OperatorCalls
    from ternmq_console.pages.base.sessions import ConsoleSession

BAD_REQUEST = ErrorCode.BAD_REQUEST


class CallRefused(Exception):
    """The server refused a call; `code` is the protocol's, by its name, and `status` that of HTTP."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code_name(code), message, http_status(code)

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_forbidden(self) -> bool:
        """Whether the user lacks the right."""
        return self.status == 403


@dataclass(frozen=True, slots=True)
class PageContext:
    """One request of one session, by which pages make calls."""

    desk: "OperatorCalls"
    session: "ConsoleSession"
    host: str
    navigation: "Sequence[tuple[str, str]]"
    """Path and name of each page in the navigation."""
    grafana: str = ""
    """The address of Grafana, or empty."""
    root: str = ""
    """The path prefix of a reverse proxy."""

    async def call_server(self, call: str, /, **fields: Any) -> "Message":  # noqa: ANN401 - of the call's own types
        """Make a call and return its answer; raises Refused, NotSignedIn and DeskBusy."""
        (answer,) = await self.call_for_frames(call, **fields)
        return answer

    async def call_if_allowed(self, call: str, /, **fields: Any) -> "Message | None":  # noqa: ANN401
        """Make a call; None if the user lacks the right, or if the object does not exist (any more)."""
        try:
            return await self.call_server(call, **fields)
        except CallRefused as error:
            if error.is_missing or error.is_forbidden:
                return None
            raise

    async def call_for_frames(self, call: str, /, *, also: "Collection[int]" = (), **fields: Any) -> "list[Message]":  # noqa: ANN401
        """Make a call whose answer may have several frames; the codes in `also` are no refusal either."""
        try:
            request = CALLS[call].request(**fields)
        except ValueError as error:  # a typed number may be out of the field's range
            raise CallRefused(BAD_REQUEST, f"Invalid request: {error}.") from error
        frames = await self.desk.call(call, request, self.session.build_caller(self.host))
        status = frames[0].status
        if status.code not in (OK, MULTIPLE, *also):
            raise CallRefused(status.code, status.message)
        return frames


def client_host(request: "Request") -> str:
    return "" if request.client is None else request.client.host
