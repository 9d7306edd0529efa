"""What the page of the audit log says where there is none that can be read."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from ternmq_console.pages.access.audit import CALLS_MAX, show_audit
from ternmq_console.pages.base.page_context import PageContext
from ternmq_console.pages.base.sessions import SessionStore
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_runtime.http.basic import HttpCaller

NONE = "proxy-1 writes its audit log to its own log (logger ternmq_proxy.audit)"


class AnsweringDesk:
    """Has the same answer to all calls."""

    def __init__(self, answer: admin_pb2.ListAuditEntriesResponse) -> None:
        self._answer = answer
        self.asked: list[admin_pb2.ListAuditEntriesRequest] = []

    async def sign_in(self, asker: "HttpCaller") -> None:
        """Everybody may."""

    async def call(self, name: str, request: Any, asker: "HttpCaller") -> list[Any]:  # noqa: ANN401 - of the call's own type
        del name, asker
        self.asked.append(request)
        return [self._answer]


async def shown(desk: AnsweringDesk, query: bytes = b"") -> str:
    _, session = SessionStore().begin_session("root", "a-secret-of-a-test")
    scope = {"type": "http", "method": "GET", "path": "/console/audit", "query_string": query, "headers": []}
    response = await show_audit(Request(scope), PageContext(desk, session, "", []))
    assert response.status_code == 200
    return bytes(response.body).decode()


async def test_a_server_that_has_none_says_so() -> None:
    status = definition_pb2.Status(code=definition_pb2.PRECONDITION_FAILED, message=NONE)
    page = await shown(AnsweringDesk(admin_pb2.ListAuditEntriesResponse(status=status)))
    assert NONE in page
    assert "<form class=" not in page.partition("<main")[2]


async def test_a_page_asks_a_few_times_and_then_the_person() -> None:
    answer = admin_pb2.ListAuditEntriesResponse(
        status={"code": definition_pb2.OK}, next_page=":0123456789abcdef:5", server="broker-0", damaged=2
    )
    desk = AnsweringDesk(answer)
    page = await shown(desk, b"user=alice&outcome=refused")
    assert [request.page for request in desk.asked] == ["", *[":0123456789abcdef:5"] * (CALLS_MAX - 1)]
    assert {(request.user, request.allowed) for request in desk.asked} == {("alice", False)}
    assert "Nothing like that; there is more to read." in page
    assert f"{2 * CALLS_MAX} lines of what was read are no entries" in page
    assert "page=%3A0123456789abcdef%3A5" in page
