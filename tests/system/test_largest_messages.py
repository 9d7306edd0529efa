"""Messages with as much beside their body as there may be: they arrive whole, are filtered by, found by, and become
dead letters that can be sent again."""

from typing import TYPE_CHECKING

from ternmq_common.limits import MessageLimits
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import RawClient, code, message, moment, names
from tests.system.conftest import SERVER_LOOP

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = SERVER_LOOP

LIMITS = MessageLimits()
TAG, KEYS = "t" * 1000, ["a" * 500, "b" * 500, "ä" * 500]
LAST = "last"
BORN = moment(1_700_000_000_999)  # a time is stored in as many bytes as it needs, and each of them counts here


def properties(last: str) -> dict[str, str]:
    """As many as there may be, which with tag and keys are as long as they may be together; `last` is the last one's
    value."""
    pairs = {f"property-{number}": "" for number in range(LIMITS.properties_max - 1)}
    texts = [*pairs, LAST, last, TAG, *KEYS]
    left = LIMITS.properties_bytes_max - sum(len(text.encode()) for text in texts)
    share, rest = divmod(left, len(pairs))
    values = {key: "v" * (share + (number < rest)) for number, key in enumerate(pairs)}
    return {**values, LAST: last}


def largest(topic: str, last: str, *, trace: int = 0) -> pb.Message:
    """`trace` is how long its trace context is, which is stored beside what the limit of properties is about."""
    trace_context = "c" * trace
    own = properties(last)
    return message(topic, properties=own, tag=TAG, keys=KEYS, trace_context=trace_context, born_timestamp=BORN)


def check_whole(got: pb.Message, sent: pb.Message, added: "Mapping[str, str]") -> None:
    system = got.system_properties
    assert dict(got.user_properties) == {**sent.user_properties, **added}
    assert (system.tag, list(system.keys)) == (TAG, KEYS)
    assert system.trace_context == sent.system_properties.trace_context
    assert got.body == sent.body


async def send(client: RawClient, *messages: pb.Message) -> str:
    return code(await client.call("SendMessage", messages=messages))


async def longest_trace(client: RawClient, topic: str) -> int:
    """How long a trace context may be beside all that."""
    fits, too_long = 0, 2**15
    while too_long - fits > 1:
        tried = (fits + too_long) // 2
        if await send(client, largest(topic, "1", trace=tried)) == "OK":
            fits = tried
        else:
            too_long = tried
    return fits


async def test_the_largest_properties_arrive_whole_and_the_last_of_them_is_filtered_by(
    client: RawClient, topic: str, group: str
) -> None:
    sent = {last: largest(topic, last) for last in ("1", "2", "3")}
    for each in sent.values():
        assert await send(client, each) == "OK"
    chosen = {"type": pb.SQL, "expression": f"{LAST} = '2' OR {LAST} > 2"}
    received = await client.receive(topic, group, filter_expression=chosen)
    assert [each.user_properties[LAST] for each in received.messages] == ["2", "3"]
    for each in received.messages:
        check_whole(each, sent[each.user_properties[LAST]], {})
    tagged = await client.receive(topic, f"{group}-tagged", tags=f"other || {TAG}")
    assert len(tagged.messages) == 3
    for key in KEYS:
        found = await client.admin("QueryMessages", topic=topic, key=key)
        assert len(found.messages) == 3


async def test_the_largest_message_becomes_a_dead_letter_and_is_sent_again(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    sent = largest(topic, "1", trace=await longest_trace(client, await client.create_topic(new_topic)))
    assert await send(client, sent) == "OK"
    received = await client.receive(topic, group)
    handle = received.messages[0].system_properties.receipt_handle
    assert await client.forward_to_dead_letters(topic, group, handle) == "OK"
    (letter,) = (await client.receive(f"%DLQ%{group}", f"{group}-letters")).messages
    added = {key: value for key, value in letter.user_properties.items() if key not in sent.user_properties}
    assert all(key.startswith("DLQ_") for key in added)
    check_whole(letter, sent, added)
    resend = await client.admin("ResendDeadLetters", group=group, offsets=[0])
    assert names(resend.letters) == ["OK"]
    (again,) = (await client.receive(topic, group)).messages
    check_whole(again, sent, {})
