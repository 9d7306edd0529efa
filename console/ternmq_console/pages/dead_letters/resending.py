"""Dead letters delivered again: those that were chosen, or all of a search, and what became of each."""

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.names import dead_letter_topic
from ternmq_console.api.answers import OK
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.dead_letters.letters import described_letters, path_of, wanted_of, with_key
from ternmq_console.pages.messages.newest import Newest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

BATCH = 256
RESENT_MAX = 10_000
"""Letters of one act: nobody should wait for more."""
LISTED_MAX = 300
_DIGITS_MAX = 18
Places = dict[str, range | list[int]]
"""Offsets, by their broker."""


class Outcome(NamedTuple):
    """What became of one: `problem` is "" if it was sent to `topic`."""

    broker: str
    offset: int
    topic: str
    message_id: str
    problem: str


def chosen_of(form: "Form") -> Places:
    """The letters that the form names; BadForm if it names none, or what can be none."""
    places: Places = defaultdict(list)
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


async def resend(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Those that were chosen."""
    group = request.path_params["group"]
    return await _resent(request, asking, group, chosen_of(form), form.text("to_topic"))


async def resend_all(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """All that the search finds, as it does now."""
    group = request.path_params["group"]
    form.confirm(group)
    places = await found_places(group, asking, form)
    count = sum(map(len, places.values()))
    if not count:
        raise BadForm("letter", "there is no such letter")
    if count > RESENT_MAX:
        raise BadForm(
            "from", f"these are {count:,} letters, and {RESENT_MAX:,} are sent at once: choose a shorter time"
        )
    return await _resent(request, asking, group, places, form.text("to_topic"))


async def found_places(group: str, asking: "Asking", form: "Form") -> Places:
    """Where the letters of the search are; BadForm."""
    wanted = wanted_of(group, form)
    described = await described_letters(group, asking)
    if described is None:
        return {}
    if wanted.key:
        places: dict[str, list[int]] = defaultdict(list)
        for row in reversed(await with_key(asking, wanted)):
            places[row.place.broker].append(row.place.offset)
        return dict(places)
    newest = await Newest.of(asking, wanted.search, list(described.queues), "", size=1)
    return {queue.broker: left for queue, left in newest.left() if left}


async def _resent(
    request: "Request", asking: "Asking", group: str, places: "Mapping[str, range | list[int]]", to_topic: str
) -> "Response":
    """Batch after batch. One that is refused as a whole says so of each of its letters, and the others go on, since
    what was sent before can't be taken back."""
    outcomes: list[Outcome] = []
    sent = failed = 0
    for broker, offsets in places.items():
        for start in range(0, len(offsets), BATCH):
            wanted = list(offsets[start : start + BATCH])
            batch = await _batch(asking, group, broker, wanted, to_topic, is_first=not outcomes)
            sent += sum(not each.problem for each in batch)
            failed += sum(bool(each.problem) for each in batch)
            outcomes += batch
    # What went wrong first: that is what one has to see of many.
    outcomes.sort(key=lambda each: not each.problem)
    return await page(
        request, asking, "dead_letters/resent.html",
        title=f"Resent letters of {group}", group=group, path=path_of(group), sent=sent, failed=failed,
        outcomes=outcomes[:LISTED_MAX], left=max(0, len(outcomes) - LISTED_MAX), to_topic=to_topic,
    )  # fmt: skip


async def _batch(
    asking: "Asking", group: str, broker: str, offsets: list[int], to_topic: str, *, is_first: bool
) -> list[Outcome]:
    """What became of each. Who may not do it at all is told so, before anything was done."""
    try:
        answer = await asking.ask("ResendDeadLetters", group=group, broker=broker, offsets=offsets, to_topic=to_topic)
    except Refused as error:
        if error.is_forbidden and is_first:
            raise
        return [Outcome(broker, offset, "", "", error.message) for offset in offsets]
    return list(_outcomes(broker, answer.letters))


def _outcomes(broker: str, letters: "Iterable[Message]") -> "Iterable[Outcome]":
    for letter in letters:
        is_sent = letter.status.code == OK
        problem = "" if is_sent else letter.status.message or "it could not be sent"
        yield Outcome(broker, letter.offset, letter.topic, letter.message_id, problem)


async def purge(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Remove them, all or those before a time."""
    group = request.path_params["group"]
    form.confirm(group)
    asked = {"before": form.moment("until")} if form.is_set("until") else {}
    purged = await asking.ask("PurgeTopic", name=dead_letter_topic(group), **asked)
    removed = sum(queue.after - queue.first for queue in purged.queues)
    asking.session.notice = f"{removed:,} dead letters of group {group} were removed."
    return moved_to(path_of(group))
