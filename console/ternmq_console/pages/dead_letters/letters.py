"""The page of one group's dead letters: time, original message, reason and attempts of each."""

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from ternmq_common.dead_letters import ATTEMPTS, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON, Reason
from ternmq_common.names import dead_letter_topic
from ternmq_console.pages.base.answering import page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.forms import BadForm, Form
from ternmq_console.pages.messages.newest import Newest
from ternmq_console.pages.messages.places import row_of
from ternmq_console.pages.messages.reading import Search
from ternmq_console.pages.topics import held_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.messages.places import Row

PAGE = 25
FOUND_MAX = 64
FIELDS = ("from", "before", "key")
_REASONS = {
    Reason.ATTEMPTS.value: "never acknowledged",
    Reason.FORWARDED.value: "given up by its consumer",
}


class Letter(NamedTuple):
    """One dead letter in the list, with the properties that describe it."""

    row: "Row"
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


def letter_of(row: "Row") -> Letter:
    """Return the row of a dead letter; missing values are "".

    The values are in user properties too, since some clients show only those.
    """
    origin, properties = row.system.dead_letter_queue, row.properties
    reason = properties.get(REASON, "")
    return Letter(
        row,
        properties.get(ORIGIN_TOPIC) or origin.topic,
        properties.get(ORIGIN_MESSAGE_ID) or origin.message_id,
        properties.get(ATTEMPTS, ""),
        _REASONS.get(reason, reason),
    )


def path_of(group: str) -> str:
    """Return the path of the page of the group's letters."""
    return f"/console/dead-letters/{quote(group, safe='')}"


class Wanted(NamedTuple):
    """A search for dead letters, by key and time; `said` are the given fields."""

    search: Search
    key: str
    said: dict[str, str]


def wanted_of(group: str, form: Form) -> Wanted:
    """Return the search in the fields; raises BadForm."""
    search = Search(
        topic=dead_letter_topic(group),
        since=form.moment("from") if form.is_set("from") else None,
        before=form.moment("before") if form.is_set("before") else None,
    )
    said = {field: form.text(field) for field in FIELDS if form.is_set(field)}
    return Wanted(search, form.text("key"), said)


async def described_letters(group: str, asking: "Asking") -> "Message | None":
    """Describe the group's dead letter topic, None before the first letter; raises Refused, also for a missing
    group."""
    try:
        return await asking.ask("DescribeTopic", name=dead_letter_topic(group))
    except Refused as error:
        if not error.is_missing:
            raise
    await asking.ask("DescribeGroup", name=group)
    return None


async def with_key(asking: "Asking", wanted: Wanted) -> list["Row"]:
    """Return the newest letters with the key of the search, in its time."""
    answer = await asking.ask("QueryMessages", topic=wanted.search.topic, key=wanted.key, limit=FOUND_MAX)
    rows = [
        row_of(message, wanted.search.topic, broker)
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


async def letters(request: "Request", asking: "Asking", error: str = "", form: Form | None = None) -> "Response":
    """Show a page of the group's letters, the newest first."""
    group = request.path_params["group"]
    asked = form or Form.of_query(request)
    described = await described_letters(group, asking)
    rows: list[Row] = []
    following, said, at = "", {}, "" if form else asked.text("at")
    try:
        wanted = wanted_of(group, asked)
        said = wanted.said
        if described is not None and wanted.key:
            rows = await with_key(asking, wanted)
        elif described is not None:
            newest = await Newest.of(asking, wanted.search, list(described.queues), at, size=PAGE)
            rows, following = await newest.page(), newest.following
    except BadForm as problem:
        error = error or problem.message
        said = {field: asked.text(field) for field in FIELDS if asked.is_set(field) and field != problem.field}
    return await page(
        request, asking, "dead_letters/letters.html",
        title=f"Dead letters of {group}", group=group, path=path_of(group), said=said, query=urlencode(said), at=at,
        letters=[letter_of(row) for row in rows], following=following, error=error, form=form,
        held=0 if described is None else held_of(described), chosen=form.texts("letter") if form else [],
        silent=() if described is None else described.silent_brokers,
        brokers=sorted({row.place.broker for row in rows}), topic=dead_letter_topic(group),
        status=400 if error else 200,
    )  # fmt: skip
