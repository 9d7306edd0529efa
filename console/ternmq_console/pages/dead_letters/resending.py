"""Resends dead letters, chosen ones or all of a search, and shows the result of each; purges them."""

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
"""The most letters that are resent in one request, so that it ends in time."""
LISTED_MAX = 300
_DIGITS_MAX = 18
Places = dict[str, range | list[int]]
"""Offsets of letters by broker."""


class Outcome(NamedTuple):
    """The result for one letter; `problem` is "" if it was sent to `topic`."""

    broker: str
    offset: int
    topic: str
    message_id: str
    problem: str


def chosen_of(form: "Form") -> Places:
    """Return the letters chosen in the form; raises BadForm for none or invalid ones."""
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
    """Resend the chosen letters."""
    group = request.path_params["group"]
    return await _resent(request, asking, group, chosen_of(form), form.text("to_topic"))


async def resend_all(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Resend all letters that the search finds now."""
    group = request.path_params["group"]
    form.confirm(group)
    places = await found_places(group, asking, form)
    count = sum(map(len, places.values()))
    if not count:
        raise BadForm("letter", "there is no such letter")
    if count > RESENT_MAX:
        raise BadForm(
            "from",
            f"these are {count:,} letters, and at most {RESENT_MAX:,} are resent at a time: choose a shorter time",
        )
    return await _resent(request, asking, group, places, form.text("to_topic"))


async def found_places(group: str, asking: "Asking", form: "Form") -> Places:
    """Return the offsets of the letters that the search finds; raises BadForm."""
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
    """Resend letters batch by batch, and show the results.

    If a batch is refused as a whole, each of its letters has that error, and the others continue, since letters that
    were sent before can't be recalled.
    """
    outcomes: list[Outcome] = []
    sent = failed = 0
    for broker, offsets in places.items():
        for start in range(0, len(offsets), BATCH):
            wanted = list(offsets[start : start + BATCH])
            batch = await _batch(asking, group, broker, wanted, to_topic, is_first=not outcomes)
            sent += sum(not each.problem for each in batch)
            failed += sum(bool(each.problem) for each in batch)
            outcomes += batch
    # Failures first, since they matter most in a long list.
    outcomes.sort(key=lambda each: not each.problem)
    return await page(
        request, asking, "dead_letters/resent.html",
        title=f"Resent letters of {group}", group=group, path=path_of(group), sent=sent, failed=failed,
        outcomes=outcomes[:LISTED_MAX], left=max(0, len(outcomes) - LISTED_MAX), to_topic=to_topic,
    )  # fmt: skip


async def _batch(
    asking: "Asking", group: str, broker: str, offsets: list[int], to_topic: str, *, is_first: bool
) -> list[Outcome]:
    """Resend one batch and return the results; a missing right is raised in the first batch."""
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
    """Remove the group's dead letters, all or those before a time."""
    group = request.path_params["group"]
    form.confirm(group)
    asked = {"before": form.moment("until")} if form.is_set("until") else {}
    purged = await asking.ask("PurgeTopic", name=dead_letter_topic(group), **asked)
    removed = sum(queue.after - queue.first for queue in purged.queues)
    asking.session.notice = f"{removed:,} dead letters of group {group} were removed."
    return moved_to(path_of(group))
