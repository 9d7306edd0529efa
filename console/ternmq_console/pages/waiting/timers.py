"""The page of timed messages that are not due yet, and the form to recall them."""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ternmq_console.calls import RECALLING
from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import redirect_to, render_page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 25
_PATH = "/console/timers"


async def show_timers(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show a page of timed messages, of one topic or of all; those of one topic can be recalled."""
    topic = form.text("topic") if form else request.query_params.get("topic", "").strip()
    after = request.query_params.get("page", "")
    listed = await asking.call_server("ListTimers", topic=topic, limit=PAGE, page=after)
    chosen = set(form.texts("handle")) if form else set()
    return await render_page(
        request, asking, "waiting/timers.html",
        title="Timers", topic=topic, after=after, following=listed.next_page, timers=listed.timers,
        chosen=chosen, error=error, status=400 if error else 200,
    )  # fmt: skip


async def recall_timers(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Recall the chosen messages, each by itself."""
    del request
    topic, handles = form.text("topic"), form.texts("handle")
    if not handles:
        raise BadForm("handle", "choose at least one message")
    form.check_confirmation(topic)
    done, refusals = 0, []
    for handle in handles:
        try:
            await asking.call_server(RECALLING, topic={"name": topic}, recall_handle=handle)
            done += 1
        except CallRefused as error:
            refusals.append(error.message)
    notice = f"{done} of {len(handles)} messages of topic {topic} were recalled."
    if refusals:
        notice += f" {refusals[0]}"
    asking.session.notice = notice
    return redirect_to(f"{_PATH}?{urlencode({'topic': topic})}")


FEATURE = PageFeature(
    homes=(("/timers", "Timers"),),
    shown={"/timers": show_timers},
    done={"/timers/recall": (recall_timers, show_timers)},
)
