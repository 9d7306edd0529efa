"""The page of timed messages that are not due yet, and the form to recall them."""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ternmq_console.calls import RECALLING
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.base.forms import BadForm

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

PAGE = 25
_PATH = "/console/timers"


async def timers(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show a page of timed messages, of one topic or of all; those of one topic can be recalled."""
    topic = form.text("topic") if form else request.query_params.get("topic", "").strip()
    after = request.query_params.get("page", "")
    listed = await asking.ask("ListTimers", topic=topic, limit=PAGE, page=after)
    chosen = set(form.texts("handle")) if form else set()
    return await page(
        request, asking, "waiting/timers.html",
        title="Timers", topic=topic, after=after, following=listed.next_page, timers=listed.timers,
        chosen=chosen, error=error, status=400 if error else 200,
    )  # fmt: skip


async def recall(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Recall the chosen messages, each by itself."""
    del request
    topic, handles = form.text("topic"), form.texts("handle")
    if not handles:
        raise BadForm("handle", "choose at least one message")
    form.confirm(topic)
    done, refusals = 0, []
    for handle in handles:
        try:
            await asking.ask(RECALLING, topic={"name": topic}, recall_handle=handle)
            done += 1
        except Refused as error:
            refusals.append(error.message)
    said = f"{done} of {len(handles)} messages of topic {topic} were recalled."
    if refusals:
        said += f" {refusals[0]}"
    asking.session.notice = said
    return moved_to(f"{_PATH}?{urlencode({'topic': topic})}")


FEATURE = Feature(
    homes=(("/timers", "Timers"),),
    shown={"/timers": timers},
    done={"/timers/recall": (recall, timers)},
)
