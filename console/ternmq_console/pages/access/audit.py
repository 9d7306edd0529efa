"""The page of the audit log: calls that users made at this server, and refusals, the newest first."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ternmq_console.pages.base.answering import page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.base.forms import BadForm, Form

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking

PAGE = 50
# Each call reads a limited part of the files; after so many calls the page offers to continue.
CALLS_MAX = 5
_TEXTS, _TIMES = ("user", "call", "resource"), ("since", "until")
_FIELDS = (*_TEXTS, "outcome", *_TIMES)
OUTCOMES = {"": "allowed or refused", "allowed": "allowed", "refused": "refused"}
_NONE = "PRECONDITION_FAILED"


class Found:
    """The entries of one page, found by one call or several."""

    def __init__(self) -> None:
        self.entries: list[Message] = []
        self.following = self.server = ""
        self.reached: Message | None = None
        self.damaged = 0

    async def look(self, asking: "Asking", wanted: dict[str, Any], after: str) -> None:
        """Find the entries of a page; raises Refused."""
        self.following = after
        for _ in range(CALLS_MAX):
            answer = await asking.ask("ListAuditEntries", page=self.following, limit=PAGE - len(self.entries), **wanted)
            self.entries.extend(answer.entries)
            self.following, self.server = answer.next_page, answer.server
            self.damaged += answer.damaged
            if answer.HasField("reached"):
                self.reached = answer.reached
            if not self.following or len(self.entries) == PAGE:
                return


async def audit(request: "Request", asking: "Asking") -> "Response":
    """Show a page of the audit log, filtered by the query."""
    form = Form.of_query(request)
    found, problem, error, is_forbidden = Found(), "", "", False
    try:
        wanted = _wanted(form)
        await found.look(asking, wanted, form.raw("page"))
    except BadForm as bad:
        error = bad.message
    except Refused as refused:
        is_forbidden = refused.is_forbidden
        if refused.code == _NONE:
            problem = refused.message
        elif not is_forbidden:
            raise
    query = {field: form.text(field) for field in _FIELDS if form.is_set(field)}
    return await page(
        request, asking, "access/audit.html",
        title="Audit log", form=form, found=found, outcomes=OUTCOMES, is_filtered=bool(query),
        is_first=not form.is_set("page"), problem=problem, is_forbidden=is_forbidden, error=error,
        first_path=f"{request.url.path}?{urlencode(query)}",
        following_path=f"{request.url.path}?{urlencode(query | {'page': found.following})}",
        status=400 if error else 200,
    )  # fmt: skip


def _wanted(form: Form) -> dict[str, Any]:
    """Return the fields of the call; raises BadForm."""
    wanted: dict[str, Any] = {field: form.text(field) for field in _TEXTS}
    if form.text("outcome") in ("allowed", "refused"):
        wanted["allowed"] = form.text("outcome") == "allowed"
    for field in _TIMES:
        if form.is_set(field):
            wanted[field] = form.moment(field)
    return wanted


FEATURE = Feature(homes=(("/audit", "Audit log"),), shown={"/audit": audit}, done={}, is_of_access=True)
