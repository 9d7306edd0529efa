"""The page of the audit log: calls that users made at this server, and refusals, the newest first."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.forms import BadForm, PageForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import render_page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 50
# Each call reads a limited part of the files; after so many calls the page offers to continue.
CALLS_MAX = 5
_TEXTS, _TIMES = ("user", "call", "resource"), ("since", "until")
_FIELDS = (*_TEXTS, "outcome", *_TIMES)
OUTCOMES = {"": "allowed or refused", "allowed": "allowed", "refused": "refused"}
_NONE = "PRECONDITION_FAILED"


class AuditPage:
    """The entries of one page, found by one call or several."""

    def __init__(self) -> None:
        self.entries: list[Message] = []
        self.following = self.server = ""
        self.reached: Message | None = None
        self.damaged = 0

    async def fill_page(self, asking: "PageContext", wanted: dict[str, Any], after: str) -> None:
        """Find the entries of a page; raises Refused."""
        self.following = after
        for _ in range(CALLS_MAX):
            answer = await asking.call_server(
                "ListAuditEntries", page=self.following, limit=PAGE - len(self.entries), **wanted
            )
            self.entries.extend(answer.entries)
            self.following, self.server = answer.next_page, answer.server
            self.damaged += answer.damaged
            if answer.HasField("reached"):
                self.reached = answer.reached
            if not self.following or len(self.entries) == PAGE:
                return


async def show_audit(request: "Request", asking: "PageContext") -> "Response":
    """Show a page of the audit log, filtered by the query."""
    form = PageForm.of_query(request)
    found, problem, error, is_forbidden = AuditPage(), "", "", False
    try:
        wanted = _search_fields(form)
        await found.fill_page(asking, wanted, form.raw("page"))
    except BadForm as bad:
        error = bad.message
    except CallRefused as refused:
        is_forbidden = refused.is_forbidden
        if refused.code == _NONE:
            problem = refused.message
        elif not is_forbidden:
            raise
    query = {field: form.text(field) for field in _FIELDS if form.is_set(field)}
    return await render_page(
        request, asking, "access/audit.html",
        title="Audit log", form=form, found=found, outcomes=OUTCOMES, is_filtered=bool(query),
        is_first=not form.is_set("page"), problem=problem, is_forbidden=is_forbidden, error=error,
        first_path=f"{request.url.path}?{urlencode(query)}",
        following_path=f"{request.url.path}?{urlencode(query | {'page': found.following})}",
        status=400 if error else 200,
    )  # fmt: skip


def _search_fields(form: PageForm) -> dict[str, Any]:
    """Return the fields of the call; raises BadForm."""
    wanted: dict[str, Any] = {field: form.text(field) for field in _TEXTS}
    if form.text("outcome") in ("allowed", "refused"):
        wanted["allowed"] = form.text("outcome") == "allowed"
    for field in _TIMES:
        if form.is_set(field):
            wanted[field] = form.parse_time(field)
    return wanted


FEATURE = PageFeature(homes=(("/audit", "Audit log"),), shown={"/audit": show_audit}, done={}, is_of_access=True)
