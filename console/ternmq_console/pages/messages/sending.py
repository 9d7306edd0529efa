"""The form for a test message, with the fields of its topic's type; `half_messages.py` ends a transaction."""

from typing import TYPE_CHECKING, Any

from ternmq_common.catalog.message_type import MessageType
from ternmq_console.calls import SENDING
from ternmq_console.pages.base.forms import FORM_BYTES_MAX, BadForm, PageForm
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.messages.half_messages import OUTCOMES, end_transaction, read_outcome
from ternmq_console.pages.messages.message import found_path
from ternmq_protos.pool import Timestamp

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

MIXED, TRANSACTION = "MIXED", "TRANSACTION"
# The fields of each type of topic; a mixed topic has those of several types.
_OF_TYPE = {
    "FIFO": ("message_group",),
    "DELAY": ("delay", "delivery"),
    "PRIORITY": ("priority",),
    "LITE": ("lite_topic",),
    TRANSACTION: ("outcome",),
    MIXED: ("message_group", "delay", "delivery", "outcome"),
}


def type_name(topic: "Message") -> str:
    """Return the name of a topic's type."""
    return MIXED if topic.mixed else MessageType(topic.type).name


async def show_send_form(
    request: "Request", asking: "PageContext", error: str = "", form: PageForm | None = None
) -> "Response":
    """Show the form for a message."""
    topic = request.query_params.get("topic", "") if form is None else form.raw("topic")
    described = await asking.call_server("DescribeTopic", name=topic)
    kind = type_name(described.topic)
    return await render_page(
        request, asking, "messages/send.html",
        title=f"Send to {topic}", topic=topic, kind=kind, fields=_OF_TYPE.get(kind, ()), bytes_max=FORM_BYTES_MAX,
        outcomes=OUTCOMES, error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def send_message(request: "Request", asking: "PageContext", form: PageForm) -> "Response":
    """Send the message of the form."""
    topic, outcome = form.raw("topic"), read_outcome(form)
    fields = {"topic": {"name": topic}, "body": _unify_line_ends(form.raw("body")).encode("utf-8", "surrogatepass")}
    system = _system_properties(form) | ({"message_type": MessageType.TRANSACTION} if outcome else {})
    sent = await asking.call_server(
        SENDING, **fields, user_properties=_parse_properties(form), system_properties=system
    )
    if outcome:
        return await end_transaction(request, asking, outcome, topic, sent.message_id)
    waits = form.is_set("delay") or form.is_set("delivery")
    asking.session.notice = (
        f"Message {sent.message_id} was sent{', and is listed here when it is due' if waits else ''}."
    )
    return redirect_to(found_path(topic, sent.message_id, form.text("lite_topic")))


def _unify_line_ends(text: str) -> str:
    """Replace the CR LF of browsers by LF."""
    return text.replace("\r\n", "\n")


def _parse_properties(form: PageForm) -> dict[str, str]:
    """Parse the user properties, `name=value` on each line; raises BadForm."""
    found: dict[str, str] = {}
    for number, line in enumerate(_unify_line_ends(form.raw("properties")).split("\n"), start=1):
        name, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not name.strip():
            raise BadForm("properties", f"line {number} of the properties is no name=value")
        if name.strip() in found:
            raise BadForm("properties", f"property {name.strip()} is given twice")
        found[name.strip()] = value
    return found


def _system_properties(form: PageForm) -> dict[str, Any]:
    """Return the system properties that are set; raises BadForm."""
    fields: dict[str, Any] = {"keys": form.text("keys").split()}
    for field in ("tag", "message_group", "lite_topic"):
        if form.is_set(field):
            fields[field] = form.text(field)
    if form.is_set("priority"):
        fields["priority"] = form.parse_integer("priority")
    if form.is_set("delay") and form.is_set("delivery"):
        raise BadForm("delay", "give a delay or a time, not both")
    if form.is_set("delivery"):
        fields["delivery_timestamp"] = form.parse_time("delivery")
    elif form.is_set("delay"):
        fields["delivery_timestamp"] = _delay_end(form)
    return fields


def _delay_end(form: PageForm) -> Timestamp:
    """Return the end of a delay that begins now."""
    time = Timestamp()
    time.GetCurrentTime()
    try:
        time.FromNanoseconds(time.ToNanoseconds() + form.parse_duration("delay").ToNanoseconds())
    except ValueError as error:
        raise BadForm("delay", f"{form.text('delay')} is too long") from error
    return time
