"""Who reads which queues of a topic: the formulas of `pulling.md, Shares` again, and what each strategy promises."""

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ternmq_common.catalog.assignment_strategy import STRATEGY_CHARACTERS_MAX, AssignmentStrategy
from ternmq_common.errors import MessagingError
from ternmq_common.limits import QUEUES_MAX
from ternmq_common.shard.model import QueueRef
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.processors import assignment
from ternmq_proxy.processors.assignment import assign_queues

BROKERS = ("broker-a", "broker-b", "east@a", "east@b", "other-broker", "west@a")
ROOMS = ("", "east", "west", "10.0.0.1")
Shares = dict[str, list[QueueRef]]


@st.composite
def topics(draw: st.DrawFn) -> list[QueueRef]:
    """The queues of one topic in any order; brokers may have different numbers of them."""
    counts = draw(st.dictionaries(st.sampled_from(BROKERS), st.integers(1, 12)))
    queues = [QueueRef("T", broker, queue_id) for broker, count in counts.items() for queue_id in range(count)]
    return draw(st.permutations(queues))


CLIENT_IDS = st.builds(
    lambda room, name: f"{room}@{name}" if room else name,
    st.sampled_from(ROOMS),
    st.text("abc", min_size=1, max_size=3),
)
GROUPS = st.lists(CLIENT_IDS, min_size=1, max_size=7, unique=True)
PLAIN = ("averagely", "averagely-by-circle", "consistent-hash")
COMPLETE = (*PLAIN, *(f"machine-room-nearby:{inner}" for inner in PLAIN))
INCOMPLETE = ("machine-room:east,west", "by-config:a=0,east@a/1;b=broker-a/1,2")

# Strategies share the examples of a test.
SHARED = settings(max_examples=len(PLAIN) * settings().max_examples)


def shares(strategy: str, queues: Sequence[QueueRef], members: Sequence[str]) -> Shares:
    parsed = AssignmentStrategy.parse_strategy(strategy)
    return {member: assign_queues(parsed, queues, members, member) for member in members}


def in_order(queues: Sequence[QueueRef]) -> list[QueueRef]:
    return sorted(queues, key=lambda queue: (queue.topic, queue.broker, queue.queue_id))


# --- the example that was checked with the original


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("averagely", "012 345 67"),
        ("averagely-by-circle", "036 147 25"),
        ("consistent-hash", "56 024 137"),
        ("machine-room-nearby:averagely", "012 345 67"),
        ("by-config:c1=7;c2=broker-a/0,1;c3=5,broker-b/6", "7 01 5"),
    ],
)
def test_the_checked_example(strategy: str, expected: str) -> None:
    queues = [QueueRef("VT", "broker-a", queue_id) for queue_id in range(8)]
    found = shares(strategy, queues, ["c1", "c2", "c3"])
    assert " ".join("".join(str(queue.queue_id) for queue in share) for share in found.values()) == expected


def test_the_checked_example_of_machine_rooms() -> None:
    inside = [QueueRef("VT", "room1@broker-a", queue_id) for queue_id in range(5)]
    outside = [QueueRef("VT", broker, queue_id) for broker in ("room2@broker-a", "broker-a") for queue_id in range(8)]
    found = shares("machine-room:room1", [*outside, *inside], ["c1", "c2", "c3"])
    assert found == {
        "c1": [inside[0], inside[3]],
        "c2": [inside[1], inside[4]],
        "c3": [inside[2]],
    }


# --- the formulas again, as `pulling.md, Shares` has them


def reference_averagely(queues: list[QueueRef], members: list[str], index: int) -> list[QueueRef]:
    total, count = len(queues), len(members)
    rest = total % count
    longer = index < rest
    size = 1 if total <= count else total // count + longer
    start = index * size if rest > 0 and longer else index * size + rest
    return [queues[start + step] for step in range(min(size, total - start))]


def reference_by_circle(queues: list[QueueRef], members: list[str], index: int) -> list[QueueRef]:
    return [queue for place, queue in enumerate(queues) if place % len(members) == index]


def reference_consistent_hash(queues: list[QueueRef], members: list[str], index: int) -> list[QueueRef]:
    def position(text: str) -> int:
        return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)

    points = [(position(f"{member}-{point}"), member) for member in members for point in range(10)]

    def way_to(point: int, queue: QueueRef) -> int:
        name = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue_id}]"
        return (point - position(name)) % 2**32

    nearest = {queue: min(points, key=lambda point: way_to(point[0], queue))[1] for queue in queues}
    return [queue for queue in queues if nearest[queue] == members[index]]


REFERENCES = {
    "averagely": reference_averagely,
    "averagely-by-circle": reference_by_circle,
    "consistent-hash": reference_consistent_hash,
}


@SHARED
@given(strategy=st.sampled_from(PLAIN), queues=topics(), members=GROUPS)
def test_shares_are_those_of_the_formula(strategy: str, queues: list[QueueRef], members: list[str]) -> None:
    everyone = sorted(members)
    for index, member in enumerate(everyone):
        expected = REFERENCES[strategy](in_order(queues), everyone, index)
        assert assign_queues(AssignmentStrategy.parse_strategy(strategy), queues, members, member) == expected


@given(queues=topics(), members=GROUPS, rooms=st.sets(st.sampled_from(["east", "west", "north"]), min_size=1))
def test_a_machine_room_is_shared_as_in_the_formula(
    queues: list[QueueRef], members: list[str], rooms: set[str]
) -> None:
    found = shares("machine-room:" + ",".join(rooms), queues, members)
    inside = [
        queue for queue in in_order(queues) if "@" in queue.broker and queue.broker[: queue.broker.find("@")] in rooms
    ]
    size, count = len(inside) // len(members), len(members)
    for index, member in enumerate(sorted(members)):
        expected = [inside[index * size + step] for step in range(size)]
        if index < len(inside) % count:
            expected.append(inside[index + count * size])
        assert found[member] == expected


@SHARED
@given(inner=st.sampled_from(PLAIN), queues=topics(), members=GROUPS)
def test_nearby_is_the_inner_strategy_in_each_room(inner: str, queues: list[QueueRef], members: list[str]) -> None:
    def room_of(name: str) -> str:
        return name[: max(name.find("@"), 0)]

    found = shares(f"machine-room-nearby:{inner}", queues, members)
    for room in {room_of(queue.broker) for queue in queues}:
        inside = [queue for queue in queues if room_of(queue.broker) == room]
        residents = [member for member in members if room_of(member) == room]
        expected = shares(inner, inside, residents or members)
        for member in members:
            here = [queue for queue in found[member] if room_of(queue.broker) == room]
            assert here == expected.get(member, [])
            assert not (residents and here and member not in residents)


@given(queues=topics(), lists=st.dictionaries(CLIENT_IDS, st.sets(st.integers(0, 12)), max_size=4), members=GROUPS)
def test_fixed_lists_are_followed_whoever_else_is_there(
    queues: list[QueueRef], lists: dict[str, set[int]], members: list[str]
) -> None:
    # The lists must not meet: the n-th one is about the n-th broker.
    fixed = {member: (broker, ids) for (member, ids), broker in zip(lists.items(), BROKERS, strict=False) if ids}
    text = ";".join(
        f"{member}=" + ",".join(f"{broker}/{queue_id}" for queue_id in ids) for member, (broker, ids) in fixed.items()
    )
    found = shares(f"by-config:{text or 'nobody=0'}", queues, members)
    for member in members:
        broker, ids = fixed.get(member, ("", set()))
        assert found[member] == [
            queue for queue in in_order(queues) if queue.broker == broker and queue.queue_id in ids
        ]


# --- what they promise


@SHARED
@given(strategy=st.sampled_from(COMPLETE), queues=topics(), members=GROUPS)
def test_every_queue_has_exactly_one_reader(strategy: str, queues: list[QueueRef], members: list[str]) -> None:
    found = shares(strategy, queues, members)
    assert in_order([queue for share in found.values() for queue in share]) == in_order(queues)


@SHARED
@given(strategy=st.sampled_from(INCOMPLETE), queues=topics(), members=GROUPS)
def test_fixed_lists_and_machine_rooms_may_leave_queues_out_but_give_none_twice(
    strategy: str, queues: list[QueueRef], members: list[str]
) -> None:
    given_out = [queue for share in shares(strategy, queues, members).values() for queue in share]
    assert len(set(given_out)) == len(given_out)
    assert set(given_out) <= set(queues)


@SHARED
@given(strategy=st.sampled_from([*COMPLETE, *INCOMPLETE]), queues=topics(), members=GROUPS, data=st.data())
def test_the_order_and_repetition_of_what_is_listed_do_not_matter(
    strategy: str, queues: list[QueueRef], members: list[str], data: st.DataObject
) -> None:
    other_queues = data.draw(st.permutations([*queues, *queues[:1]]))
    other_members = data.draw(st.permutations([*members, members[0]]))
    expected = shares(strategy, queues, members)
    assert shares(strategy, other_queues, other_members) == expected
    assert all(share == in_order(share) for share in expected.values())


@SHARED
@given(strategy=st.sampled_from([*COMPLETE, *INCOMPLETE]), queues=topics(), members=st.lists(CLIENT_IDS))
def test_a_client_that_is_no_member_gets_nothing(strategy: str, queues: list[QueueRef], members: list[str]) -> None:
    assert assign_queues(AssignmentStrategy.parse_strategy(strategy), queues, members, "stranger") == []


@SHARED
@given(
    strategy=st.sampled_from(["averagely", "averagely-by-circle", "machine-room:east"]),
    queues=topics(),
    members=GROUPS,
)
def test_even_shares_differ_by_one_at_most(strategy: str, queues: list[QueueRef], members: list[str]) -> None:
    sizes = [len(share) for share in shares(strategy, queues, members).values()]
    assert max(sizes) - min(sizes) <= 1


@given(queues=topics(), members=st.lists(CLIENT_IDS, min_size=2, max_size=7, unique=True))
def test_with_consistent_hash_only_the_queues_of_the_member_that_comes_or_goes_move(
    queues: list[QueueRef], members: list[str]
) -> None:
    comes_or_goes, *stay = members
    without, with_it = (shares("consistent-hash", queues, group) for group in (stay, members))
    for member in stay:
        assert set(with_it[member]) <= set(without[member])
        assert set(without[member]) - set(with_it[member]) <= set(with_it[comes_or_goes])


def test_with_consistent_hash_a_queue_that_falls_on_a_point_is_that_member_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        assignment, "_ring_hash", lambda text: 20 if text.startswith("c2") or "queueId=1" in text else 10
    )
    queues = [QueueRef("T", "b", queue_id) for queue_id in range(2)]
    assert shares("consistent-hash", queues, ["c1", "c2"]) == {"c1": queues[:1], "c2": queues[1:]}


def test_a_fixed_queue_without_a_broker_is_that_one_of_every_broker_and_topic() -> None:
    queues = [QueueRef(topic, broker, queue_id) for topic in "TU" for broker in "ab" for queue_id in range(3)]
    found = shares("by-config:c1=0,b/2", queues, ["c1", "c2"])
    assert found["c1"] == [
        queue for queue in queues if queue.queue_id == 0 or (queue.broker, queue.queue_id) == ("b", 2)
    ]
    assert found["c2"] == []


# --- the texts


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", "averagely"),
        ("AVG", "averagely"),
        (" Averagely ", "averagely"),
        ("AVG_BY_CIRCLE", "averagely-by-circle"),
        ("averagely_by_circle", "averagely-by-circle"),
        ("CONSISTENT_HASH", "consistent-hash"),
        ("MACHINE_ROOM: west , east,west", "machine-room:east,west"),
        ("MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", "machine-room-nearby:averagely-by-circle"),
        ("machine-room-nearby:avg", "machine-room-nearby:averagely"),
        ("Config:B=02, b/1 ;A=x=b/03,0,0", "by-config:A=x=0,b/3;B=2,b/1"),
        ("by-config:10.0.0.1@4711@1#k:v=0", "by-config:10.0.0.1@4711@1#k:v=0"),
    ],
)
def test_texts_have_one_canonical_form(text: str, canonical: str) -> None:
    parsed = AssignmentStrategy.parse_strategy(text)
    assert str(parsed) == canonical
    assert AssignmentStrategy.parse_strategy(canonical) == parsed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "fair",
            "'fair' is no strategy; there are averagely, averagely-by-circle, consistent-hash, by-config",
        ),
        ("averagely:x", "averagely has no parameters"),
        ("consistent-hash:", "consistent-hash has no parameters"),
        ("machine-room", "names of rooms"),
        ("machine-room:", "names of rooms"),
        ("machine-room:a,,b", "names of rooms"),
        ("machine-room:a@b", "without @"),
        ("machine-room-nearby", "one of averagely, averagely-by-circle, consistent-hash"),
        ("machine-room-nearby:by-config", "one of averagely"),
        ("MACHINE_ROOM_NEARBY-MACHINE_ROOM", "one of averagely"),
        ("by-config", "member=0,broker/1"),
        ("by-config:c1", "member=0,broker/1"),
        ("by-config:=1", "member=0,broker/1"),
        ("by-config:c1=0;", "member=0,broker/1"),
        ("by-config:c1=", "not ''"),
        ("by-config:c1=-1", "not '-1'"),
        ("by-config:c1=/1", "not '/1'"),
        ("by-config:c1=b/", "not 'b/'"),
        ("by-config:c1=\u0664", "not '\u0664'"),
        (f"by-config:c1={QUEUES_MAX}", f"up to {QUEUES_MAX - 1}"),
        ("by-config:c1=0;c1=1", "two lists"),
        ("by-config:c1=0;c2=0", "queue 0 is in the lists of 'c1' and 'c2'"),
        ("by-config:c1=b/0;c2=b/0", "queue b/0 is in the lists of 'c1' and 'c2'"),
        ("by-config:c1=0;c2=b/0", "queue b/0 is in the lists of 'c1' and 'c2'"),
        ("by-config:c1=b/0;c2=0", "queue 0 is in the lists of 'c1' and 'c2'"),
        ("averagely" + " " * STRATEGY_CHARACTERS_MAX, f"{STRATEGY_CHARACTERS_MAX} are allowed"),
    ],
)
def test_any_other_text_is_refused_with_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(MessagingError) as refused:
        AssignmentStrategy.parse_strategy(text)
    assert refused.value.code == definition_pb2.BAD_REQUEST
    assert says in refused.value.message


@given(text=st.text(max_size=20) | st.lists(st.sampled_from([*"0=,;:/@b", "by-config", "machine-room"])).map("".join))
def test_a_text_is_refused_or_has_a_canonical_form(text: str) -> None:
    try:
        parsed = AssignmentStrategy.parse_strategy(text)
    except MessagingError:
        return
    assert AssignmentStrategy.parse_strategy(str(parsed)) == parsed


@given(member=st.text(min_size=1, max_size=5).filter(lambda text: text == text.strip() and ";" not in text))
def test_a_client_id_may_have_any_character_but_a_semicolon(member: str) -> None:
    strategy = AssignmentStrategy.parse_strategy(f"by-config:{member}=0")
    assert assign_queues(strategy, [QueueRef("T", "b", 0)], [member], member) == [QueueRef("T", "b", 0)]
