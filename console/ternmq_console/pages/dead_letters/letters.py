"""The page of one group's dead letters: time, original message, reason and attempts of each."""

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from ternmq_common.dead_letters import ATTEMPTS, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON, DeadLetterReason
from ternmq_common.names import dead_letter_topic
from ternmq_console.pages.base.forms import BadForm, PageForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import render_page
from ternmq_console.pages.messages.message_rows import build_row
from ternmq_console.pages.messages.newest import NewestMessages
from ternmq_console.pages.messages.reading import MessageSearch
from ternmq_console.pages.topics import count_held

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext
    from ternmq_console.pages.messages.message_rows import MessageRow

PAGE = 25
FOUND_MAX = 64
FIELDS = ("from", "before", "key")
_REASONS = {
    DeadLetterReason.ATTEMPTS.value: "never acknowledged",
    DeadLetterReason.FORWARDED.value: "given up by its consumer",
}


class LetterRow(NamedTuple):
    """One dead letter in the list, with the properties that describe it."""

    row: "MessageRow"
    topic: str
    message_id: str
    attempts: str
    reason: str

    @property
    def name(self) -> str:
        """Its name in the form: broker and offset."""
        return f"{self.row.place.broker}/{self.row.place.offset}"

    @property
    def origin(self) -> str:
        """The page that finds the original message."""
        return f"/console/messages?{urlencode({'topic': self.topic, 'id': self.message_id})}"


def build_letter_row(row: "MessageRow") -> LetterRow:
    """Return the row of a dead letter; missing values are "".

    The values are in user properties too, since some clients show only those.
    """
    origin, properties = row.system.dead_letter_queue, row.properties
    reason = properties.get(REASON, "")
    return LetterRow(
        row,
        properties.get(ORIGIN_TOPIC) or origin.topic,
        properties.get(ORIGIN_MESSAGE_ID) or origin.message_id,
        properties.get(ATTEMPTS, ""),
        _REASONS.get(reason, reason),
    )


def letters_path(group: str) -> str:
    """Return the path of the page of the group's letters."""
    return f"/console/dead-letters/{quote(group, safe='')}"


class LetterSearch(NamedTuple):
    """A search for dead letters, by key and time; `given` are the fields with values."""

    search: MessageSearch
    key: str
    given: dict[str, str]


def read_search(group: str, form: PageForm) -> LetterSearch:
    """Return the search in the fields; raises BadForm."""
    search = MessageSearch(
        topic=dead_letter_topic(group),
        since=form.parse_time("from") if form.is_set("from") else None,
        before=form.parse_time("before") if form.is_set("before") else None,
    )
    given = {field: form.text(field) for field in FIELDS if form.is_set(field)}
    return LetterSearch(search, form.text("key"), given)


async def describe_letters(group: str, asking: "PageContext") -> "Message | None":
    """Describe the group's dead letter topic, None before the first letter; raises Refused, also for a missing
    group."""
    try:
        return await asking.call_server("DescribeTopic", name=dead_letter_topic(group))
    except CallRefused as error:
        if not error.is_missing:
            raise
    await asking.call_server("DescribeGroup", name=group)
    return None


async def find_by_key(asking: "PageContext", wanted: LetterSearch) -> list["MessageRow"]:
    """Return the newest letters with the key of the search, in its time."""
    answer = await asking.call_server("QueryMessages", topic=wanted.search.topic, key=wanted.key, limit=FOUND_MAX)
    rows = [
        build_row(message, wanted.search.topic, broker)
        for message, broker in zip(answer.messages, answer.brokers, strict=True)
        if wanted.key in message.system_properties.keys
    ]
    since, before = wanted.search.since, wanted.search.before
    return [
        row
        for row in rows
        if (since is None or since.ToNanoseconds() <= row.stored_ns)
        and (before is None or row.stored_ns < before.ToNanoseconds())
    ]


async def show_letters(
    request: "Request", asking: "PageContext", error: str = "", form: PageForm | None = None
) -> "Response":
    """Show a page of the group's letters, the newest first."""
    group = request.path_params["group"]
    query = form or PageForm.of_query(request)
    described = await describe_letters(group, asking)
    rows: list[MessageRow] = []
    following, given, at = "", {}, "" if form else query.text("at")
    try:
        wanted = read_search(group, query)
        given = wanted.given
        if described is not None and wanted.key:
            rows = await find_by_key(asking, wanted)
        elif described is not None:
            newest = await NewestMessages.open_search(asking, wanted.search, list(described.queues), at, size=PAGE)
            rows, following = await newest.read_page(), newest.following
    except BadForm as problem:
        error = error or problem.message
        given = {field: query.text(field) for field in FIELDS if query.is_set(field) and field != problem.field}
    return await render_page(
        request, asking, "dead_letters/letters.html",
        title=f"Dead letters of {group}", group=group, path=letters_path(group), given=given, query=urlencode(given),
        at=at,
        letters=[build_letter_row(row) for row in rows], following=following, error=error, form=form,
        held=0 if described is None else count_held(described), chosen=form.texts("letter") if form else [],
        silent=() if described is None else described.silent_brokers,
        brokers=sorted({row.place.broker for row in rows}), topic=dead_letter_topic(group),
        status=400 if error else 200,
    )  # fmt: skip
