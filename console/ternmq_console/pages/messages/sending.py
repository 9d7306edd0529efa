"""The form for a test message, with the fields of its topic's type; `half_messages.py` ends a transaction."""

from typing import TYPE_CHECKING, Any

from ternmq_common.message_type import MessageType
from ternmq_console.calls import SENDING
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.forms import FORM_BYTES_MAX, BadForm, Form
from ternmq_console.pages.messages.half_messages import OUTCOMES, end, outcome_of
from ternmq_console.pages.messages.message import found_path
from ternmq_protos.pool import Timestamp

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking

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


def kind_of(topic: "Message") -> str:
    """Return the name of a topic's type."""
    return MIXED if topic.mixed else MessageType(topic.type).name


async def writing(request: "Request", asking: "Asking", error: str = "", form: Form | None = None) -> "Response":
    """Show the form for a message."""
    topic = request.query_params.get("topic", "") if form is None else form.raw("topic")
    described = await asking.ask("DescribeTopic", name=topic)
    kind = kind_of(described.topic)
    return await page(
        request, asking, "messages/send.html",
        title=f"Send to {topic}", topic=topic, kind=kind, fields=_OF_TYPE.get(kind, ()), bytes_max=FORM_BYTES_MAX,
        outcomes=OUTCOMES, error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def send(request: "Request", asking: "Asking", form: Form) -> "Response":
    """Send the message of the form."""
    topic, outcome = form.raw("topic"), outcome_of(form)
    asked = {"topic": {"name": topic}, "body": _lines(form.raw("body")).encode("utf-8", "surrogatepass")}
    system = _system(form) | ({"message_type": MessageType.TRANSACTION} if outcome else {})
    sent = await asking.ask(SENDING, **asked, user_properties=_properties(form), system_properties=system)
    if outcome:
        return await end(request, asking, outcome, topic, sent.message_id)
    waits = form.is_set("delay") or form.is_set("delivery")
    asking.session.notice = (
        f"Message {sent.message_id} was sent{', and is listed here when it is due' if waits else ''}."
    )
    return moved_to(found_path(topic, sent.message_id, form.text("lite_topic")))


def _lines(text: str) -> str:
    """Replace the CR LF of browsers by LF."""
    return text.replace("\r\n", "\n")


def _properties(form: Form) -> dict[str, str]:
    """Parse the user properties, `name=value` on each line; raises BadForm."""
    found: dict[str, str] = {}
    for number, line in enumerate(_lines(form.raw("properties")).split("\n"), start=1):
        name, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not name.strip():
            raise BadForm("properties", f"line {number} of the properties is no name=value")
        if name.strip() in found:
            raise BadForm("properties", f"property {name.strip()} is given twice")
        found[name.strip()] = value
    return found


def _system(form: Form) -> dict[str, Any]:
    """Return the system properties that are set; raises BadForm."""
    said: dict[str, Any] = {"keys": form.text("keys").split()}
    for field in ("tag", "message_group", "lite_topic"):
        if form.is_set(field):
            said[field] = form.text(field)
    if form.is_set("priority"):
        said["priority"] = form.whole("priority")
    if form.is_set("delay") and form.is_set("delivery"):
        raise BadForm("delay", "give a delay or a time, not both")
    if form.is_set("delivery"):
        said["delivery_timestamp"] = form.moment("delivery")
    elif form.is_set("delay"):
        said["delivery_timestamp"] = _later(form)
    return said


def _later(form: Form) -> Timestamp:
    """Return the end of a delay that begins now."""
    time = Timestamp()
    time.GetCurrentTime()
    try:
        time.FromNanoseconds(time.ToNanoseconds() + form.duration("delay").ToNanoseconds())
    except ValueError as error:
        raise BadForm("delay", f"{form.text('delay')} is too long") from error
    return time
