"""Resends dead letters, chosen ones or all of a search, and shows the result of each; purges them."""

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.names import dead_letter_topic
from ternmq_console.api.answers import OK
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.dead_letters.letters import describe_letters, find_by_key, letters_path, read_search
from ternmq_console.pages.messages.newest import NewestMessages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

BATCH = 256
RESENT_MAX = 10_000
"""The most letters that are resent in one request, so that it ends in time."""
LISTED_MAX = 300
_DIGITS_MAX = 18
LetterOffsets = dict[str, range | list[int]]
"""Offsets of letters by broker."""


class ResendResult(NamedTuple):
    """The result for one letter; `problem` is "" if it was sent to `topic`."""

    broker: str
    offset: int
    topic: str
    message_id: str
    problem: str


def read_chosen(form: "PageForm") -> LetterOffsets:
    """Return the letters chosen in the form; raises BadForm for none or invalid ones."""
    places: LetterOffsets = defaultdict(list)
    for name in dict.fromkeys(form.texts("letter")):
        broker, _, offset = name.rpartition("/")
        if not broker or not (offset.isascii() and offset.isdigit() and len(offset) <= _DIGITS_MAX):
            raise BadForm("letter", f"{name!r} is no letter")
        offsets = places[broker]
        assert isinstance(offsets, list)
        offsets.append(int(offset))
    if not places:
        raise BadForm("letter", "choose letters first")
    return places


async def resend_chosen(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Resend the chosen letters."""
    group = request.path_params["group"]
    return await _resend_letters(request, asking, group, read_chosen(form), form.text("to_topic"))


async def resend_all(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Resend all letters that the search finds now."""
    group = request.path_params["group"]
    form.check_confirmation(group)
    places = await find_offsets(group, asking, form)
    count = sum(map(len, places.values()))
    if not count:
        raise BadForm("letter", "there is no such letter")
    if count > RESENT_MAX:
        raise BadForm(
            "from",
            f"these are {count:,} letters, and at most {RESENT_MAX:,} are resent at a time: choose a shorter time",
        )
    return await _resend_letters(request, asking, group, places, form.text("to_topic"))


async def find_offsets(group: str, asking: "PageContext", form: "PageForm") -> LetterOffsets:
    """Return the offsets of the letters that the search finds; raises BadForm."""
    wanted = read_search(group, form)
    described = await describe_letters(group, asking)
    if described is None:
        return {}
    if wanted.key:
        places: dict[str, list[int]] = defaultdict(list)
        for row in reversed(await find_by_key(asking, wanted)):
            places[row.place.broker].append(row.place.offset)
        return dict(places)
    newest = await NewestMessages.open_search(asking, wanted.search, list(described.queues), "", size=1)
    return {queue.broker: left for queue, left in newest.remaining_offsets() if left}


async def _resend_letters(
    request: "Request", asking: "PageContext", group: str, places: "Mapping[str, range | list[int]]", to_topic: str
) -> "Response":
    """Resend letters batch by batch, and show the results.

    If a batch is refused as a whole, each of its letters has that error, and the others continue, since letters that
    were sent before can't be recalled.
    """
    outcomes: list[ResendResult] = []
    sent = failed = 0
    for broker, offsets in places.items():
        for start in range(0, len(offsets), BATCH):
            wanted = list(offsets[start : start + BATCH])
            batch = await _resend_batch(asking, group, broker, wanted, to_topic, is_first=not outcomes)
            sent += sum(not each.problem for each in batch)
            failed += sum(bool(each.problem) for each in batch)
            outcomes += batch
    # Failures first, since they matter most in a long list.
    outcomes.sort(key=lambda each: not each.problem)
    return await render_page(
        request, asking, "dead_letters/resent.html",
        title=f"Resent letters of {group}", group=group, path=letters_path(group), sent=sent, failed=failed,
        outcomes=outcomes[:LISTED_MAX], left=max(0, len(outcomes) - LISTED_MAX), to_topic=to_topic,
    )  # fmt: skip


async def _resend_batch(
    asking: "PageContext", group: str, broker: str, offsets: list[int], to_topic: str, *, is_first: bool
) -> list[ResendResult]:
    """Resend one batch and return the results; a missing right is raised in the first batch."""
    try:
        answer = await asking.call_server(
            "ResendDeadLetters", group=group, broker=broker, offsets=offsets, to_topic=to_topic
        )
    except CallRefused as error:
        if error.is_forbidden and is_first:
            raise
        return [ResendResult(broker, offset, "", "", error.message) for offset in offsets]
    return list(_read_results(broker, answer.letters))


def _read_results(broker: str, letters: "Iterable[Message]") -> "Iterable[ResendResult]":
    for letter in letters:
        is_sent = letter.status.code == OK
        problem = "" if is_sent else letter.status.message or "it could not be sent"
        yield ResendResult(broker, letter.offset, letter.topic, letter.message_id, problem)


async def purge_letters(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Remove the group's dead letters, all or those before a time."""
    group = request.path_params["group"]
    form.check_confirmation(group)
    bounds = {"before": form.parse_time("until")} if form.is_set("until") else {}
    purged = await asking.call_server("PurgeTopic", name=dead_letter_topic(group), **bounds)
    removed = sum(queue.after - queue.first for queue in purged.queues)
    asking.session.notice = f"{removed:,} dead letters of group {group} were removed."
    return redirect_to(letters_path(group))
