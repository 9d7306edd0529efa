"""What must hold of a history, whatever happened to the servers; each check yields what is wrong, in words.

Queue   an acknowledged message is delivered to every group that reads its topic; nothing is delivered that was not
        sent, was refused for good, or was rolled back; nothing before its time
Order   no message of a message group is handed out before an earlier acknowledged one of it was
Log     at a place there is one message for ever, whoever saw it and when; an offset that was answered is the
        message's; offsets are without gaps; a send that began after another one ended is behind it in the queue
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop

from tests.cluster.history import Decision, History, Outcome, Place, Send

# Of the same wall clock, read by two processes in turn.
CLOCK_MS = 20
SHOWN_MAX = 20

Groups = Mapping[str, Sequence[str]]
"""The groups that read each topic to its end."""


def violations(history: History, groups: Groups) -> list[str]:
    """All that is wrong."""
    return [
        *lost(history, groups),
        *uncalled_for(history),
        *too_early(history),
        *out_of_order(history),
        *changed_places(history),
        *wrong_offsets(history),
        *gaps(history),
        *falling_offsets(history),
    ]


def check(history: History, groups: Groups) -> None:
    """AssertionError with what is wrong."""
    found = violations(history, groups)
    more = f"\nand {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    assert not found, "\n".join(found[:SHOWN_MAX]) + more


def missing(history: History, groups: Groups) -> dict[str, set[str]]:
    """By group, the bodies that it must have and has not."""
    due = {group for topic in groups for group in groups[topic]}
    got: dict[str, set[str]] = {group: set() for group in due}
    for each in history.deliveries:
        if each.group in got:
            got[each.group].add(each.body)
    promised = [send for send in history.sends.values() if send.is_acknowledged]
    return {
        group: {send.body for send in promised if group in groups.get(send.topic, ())} - got[group] for group in due
    }


# --- as a queue


def lost(history: History, groups: Groups) -> Iterator[str]:
    for group, bodies in missing(history, groups).items():
        for body in sorted(bodies):
            yield f"lost: group {group} never had {_of(history.sends[body])}"
    if history.readings:
        read, topics = set(history.readings.values()), {place.topic for place in history.readings}
        for send in history.sends.values():
            if send.is_acknowledged and send.topic in topics and send.body not in read:
                yield f"lost: no queue has {_of(send)}"


def uncalled_for(history: History) -> Iterator[str]:
    seen = [(each.body, each.topic, f"group {each.group}") for each in history.deliveries]
    seen += [(body, place.topic, str(place)) for place, body in history.readings.items()]
    for body, topic, where in dict.fromkeys(seen):
        send = history.sends.get(body)
        if send is None:
            yield f"never sent: {where} had {body!r}"
        elif send.topic != topic:
            yield f"of another topic: {where} had {_of(send)} as of {topic}"
        elif send.outcome is Outcome.FAIL:
            yield f"refused, and stored: {where} had {_of(send)}"
        elif send.decision is Decision.ROLLBACK:
            yield f"rolled back, and delivered: {where} had {_of(send)}"


def too_early(history: History) -> Iterator[str]:
    for each in history.deliveries:
        send = history.sends.get(each.body)
        if send is not None and each.at_ms + CLOCK_MS < send.due_ms:
            yield f"too early: group {each.group} had {_of(send)} {send.due_ms - each.at_ms} ms before its time"


def out_of_order(history: History) -> Iterator[str]:
    """One producer sends the messages of a group one after the other, so that their order is that of their begins."""
    lines: dict[tuple[str, str], list[Send]] = defaultdict(list)
    place_in_line: dict[str, int] = {}
    for send in history.sends.values():
        if send.message_group and send.is_acknowledged:
            line = lines[send.topic, send.message_group]
            place_in_line[send.body] = len(line)
            line.append(send)
    come: dict[tuple[str, str, str], int] = defaultdict(int)
    for each in history.deliveries:
        number = place_in_line.get(each.body)
        if number is None:
            continue
        send = history.sends[each.body]
        key = (each.group, send.topic, send.message_group)
        if number > come[key]:
            before = lines[send.topic, send.message_group][come[key]]
            yield f"out of order: group {each.group} had {_of(send)} before {_of(before)}"
        come[key] = max(come[key], number + 1)


# --- as a log


def changed_places(history: History) -> Iterator[str]:
    at: dict[Place, str] = dict(history.readings)
    for each in history.deliveries:
        if each.place is None:
            continue
        body = at.setdefault(each.place, each.body)
        if body != each.body:
            yield f"two messages at one offset: group {each.group} had {each.body} at {each.place}, where {body} is"


def wrong_offsets(history: History) -> Iterator[str]:
    """Of the queues that were read: one of them has the message where its producer was told."""
    offsets: dict[str, set[int]] = defaultdict(set)
    for place, body in history.readings.items():
        offsets[body].add(place.offset)
    for send in history.sends.values():
        found = offsets.get(send.body)
        if found is not None and send.is_acknowledged and send.offset is not None and send.offset not in found:
            yield f"moved: {_of(send)} was acknowledged at offset {send.offset} and is at {sorted(found)}"


def gaps(history: History) -> Iterator[str]:
    for queue, places in _by_queue(history.readings).items():
        found = sorted(place.offset for place in places)
        if found != list(range(found[0], found[0] + len(found))):
            absent = sorted(set(range(found[0], found[-1])) - set(found))
            yield f"gaps: {'/'.join(map(str, queue))} has nothing at {absent[:SHOWN_MAX]}"


def falling_offsets(history: History) -> Iterator[str]:
    """Whoever sends when another send has ended is behind it."""
    queues: dict[tuple[str, str, int], list[Send]] = defaultdict(list)
    for place, body in history.readings.items():
        send = history.sends.get(body)
        if send is not None and send.outcome is Outcome.OK and send.offset == place.offset:
            queues[place.queue].append(send)
    for sends in queues.values():
        yield from _falling(sends)


def _falling(sends: list[Send]) -> Iterator[str]:
    ended = [(send.ended_s or 0.0, send.offset or 0, send.body) for send in sends]
    heapify(ended)
    highest, body = -1, ""
    for send in sorted(sends, key=lambda send: send.began_s):
        while ended and ended[0][0] < send.began_s:
            _, offset, earlier = heappop(ended)
            if offset > highest:
                highest, body = offset, earlier
        if send.offset is not None and send.offset < highest:
            yield f"offsets fall: {_of(send)} is at {send.offset}, and {body}, which had ended before, at {highest}"


def _by_queue(places: Iterable[Place]) -> dict[tuple[str, str, int], list[Place]]:
    found: dict[tuple[str, str, int], list[Place]] = defaultdict(list)
    for place in places:
        found[place.queue].append(place)
    return found


def _of(send: Send) -> str:
    ended = "never" if send.ended_s is None else f"{send.ended_s:.3f}"
    group = f" of message group {send.message_group}" if send.message_group else ""
    return f"{send.body}{group} (sent {send.began_s:.3f}, {send.outcome} {ended})"
