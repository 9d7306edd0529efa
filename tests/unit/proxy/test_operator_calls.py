"""What pages ask: calls that come at once leave the event loop to messages between any two."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from ternmq_common.limits import RequestLimits
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts import operator_calls
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.grpc.calls import UnaryCall
from ternmq_runtime.http.basic import HttpCaller

if TYPE_CHECKING:
    import pytest

    from ternmq_proxy.services import Services
    from ternmq_runtime.observability.front_figures import FrontFigures

CALLS = 25


class NoAccessControl:
    def authenticate_http(self, asker: HttpCaller, name: str) -> None: ...

    def require_own_client(self, *of_call: object) -> None: ...


class Turns:
    """Counts those of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._next()

    def _next(self) -> None:
        self.number += 1
        asyncio.get_running_loop().call_soon(self._next)


async def test_calls_at_once_have_turns_of_their_own(monkeypatch: "pytest.MonkeyPatch") -> None:
    turns = Turns()
    carried_out: list[int] = []

    async def get_status(*_: object) -> admin_pb2.GetStatusResponse:
        carried_out.append(turns.number)
        return admin_pb2.GetStatusResponse(status=OK)

    call = UnaryCall(get_status, admin_pb2.GetStatusRequest, admin_pb2.GetStatusResponse)
    monkeypatch.setattr(operator_calls, "admin_calls", lambda: {"GetStatus": call})
    services = SimpleNamespace(access=NoAccessControl(), request_limits=RequestLimits())
    figures = SimpleNamespace(record_call=lambda *_: None)
    calls = operator_calls.FrontOperatorCalls(cast("Services", services), cast("FrontFigures", figures))
    request, asker = admin_pb2.GetStatusRequest(), HttpCaller("", "", "127.0.0.1")
    answers = await asyncio.gather(*(calls.make_call("GetStatus", request, asker) for _ in range(CALLS)))
    assert all(frame.status == OK for (frame,) in answers)
    assert len(set(carried_out)) == CALLS
