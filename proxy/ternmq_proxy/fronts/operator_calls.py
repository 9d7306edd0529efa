"""Calls of operators by HTTP, which have the rights, limits, audit log and figures of calls by gRPC.

The console's `OperatorCalls` (`ternmq_console.operator_calls`) is used in the thread that serves HTTP; the calls run on
the process's event loop.
"""

from typing import TYPE_CHECKING, Any

from ternmq_common.access.users import NO_USERS
from ternmq_common.event_loop.fairness import wait_for_turn
from ternmq_console.calls import QUERYING, READING, RECALLING, SEEKING, SENDING, SUBSCRIPTIONS
from ternmq_console.operator_calls import NotSignedIn, ServerBusy
from ternmq_proxy.access.authentication import NotAuthenticated
from ternmq_proxy.call import Call, current_call
from ternmq_proxy.fronts.grpc.activities.status import status_of
from ternmq_proxy.fronts.grpc.calls import StreamedCall, UnaryCall, admin_calls, messaging_calls, published_admin_calls
from ternmq_proxy.fronts.grpc.measured import CallMeasurement, code_name
from ternmq_proxy.fronts.grpc.request_size import RequestSize
from ternmq_runtime.http.watched_loop import LoopBusy, WatchedLoop

if TYPE_CHECKING:
    from ternmq_proxy.services import Services
    from ternmq_runtime.http.basic import HttpCaller
    from ternmq_runtime.observability.front_figures import FrontFigures

_PATIENCE_S = 30.0
_SIGN_IN = "SignIn"
# The client id of these calls in the log; calls that need a client have none.
_CLIENT_ID = "http"


class FrontOperatorCalls:
    """Runs calls of operators on the process's event loop."""

    def __init__(self, services: "Services", figures: "FrontFigures") -> None:
        self._services = services
        self._figures = figures
        messaging, published = messaging_calls(), published_admin_calls()
        self._calls: dict[str, UnaryCall | StreamedCall] = {
            **admin_calls(),
            **{name: published[name] for name in (SENDING, SUBSCRIPTIONS, QUERYING)},
            **{name: messaging[name] for name in (RECALLING, READING, SEEKING)},
        }
        self._sizes = {name: RequestSize(each.request, services.request_limits) for name, each in self._calls.items()}

    def sign_in(self, asker: "HttpCaller", name: str = _SIGN_IN) -> Call:
        """Return the call of an authenticated caller. Raises NotAuthenticated."""
        identity = self._services.access.authenticate_http(asker, name)
        return Call(
            client_id=_CLIENT_ID,
            peer=f"{asker.host}:0",
            user="" if identity is None else identity.user,
            identity=identity,
            remaining_s=_PATIENCE_S,
        )

    async def make_call(self, name: str, request: Any, asker: "HttpCaller") -> list[Any]:  # noqa: ANN401 - of the call's own type
        """Make a call; return the frames of the answer. Raises NotAuthenticated. Pages make many calls at once, and
        messages get turns in between."""
        await wait_for_turn()
        call = self._calls[name]
        with CallMeasurement(self._figures.record_call, name) as measured:
            operator_call = self.sign_in(asker, name)
            current_call.set(operator_call)
            try:
                self._sizes[name].check_entries(request)
                self._services.access.require_own_client(name, operator_call, self._services)
                frames = await self._answer_frames(call, request, operator_call)
            except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
                frames = [call.response(status=status_of(error, name))]
            measured.code = code_name(frames[0].status.code)
            return frames

    async def _answer_frames(self, call: UnaryCall | StreamedCall, request: Any, operator_call: Call) -> list[Any]:  # noqa: ANN401
        if isinstance(call, UnaryCall):
            return [await call.activity(request, operator_call, self._services)]
        answered = await call.activity(request, operator_call, self._services)
        return [call.response.FromString(bytes(frame)) for frame in answered.frames]


class ProcessOperatorCalls:
    """The calls of operators of this process, created on its event loop; they are refused until `open_calls`."""

    def __init__(self) -> None:
        self._loop = WatchedLoop()
        self._calls: FrontOperatorCalls | None = None

    def open_calls(self, calls: FrontOperatorCalls) -> None:
        """Accept calls from now on."""
        self._calls = calls

    async def sign_in(self, asker: "HttpCaller") -> None:
        calls = self._require_open()
        try:
            await self._loop.call_on_loop(lambda: calls.sign_in(asker), _PATIENCE_S)
        except NotAuthenticated as error:
            raise _not_signed_in(error) from error
        except LoopBusy as error:
            raise ServerBusy(str(error)) from error

    async def call(self, name: str, request: Any, asker: "HttpCaller") -> list[Any]:  # noqa: ANN401
        calls = self._require_open()
        try:
            return await self._loop.run_on_loop(lambda: calls.make_call(name, request, asker), _PATIENCE_S)
        except NotAuthenticated as error:
            raise _not_signed_in(error) from error
        except LoopBusy as error:
            raise ServerBusy(f"this was not answered within {_PATIENCE_S:g} s; it may have been done") from error

    def _require_open(self) -> FrontOperatorCalls:
        if self._calls is None:
            raise ServerBusy("the server begins")
        return self._calls


def _not_signed_in(error: NotAuthenticated) -> NotSignedIn:
    return NotSignedIn(error.message if error.message == NO_USERS else _NOBODY)


_NOBODY = "access key and secret of a user are needed, by Basic authentication"
