"""Requests that cost more than they look."""

import gzip
import itertools

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.attacks.target import (
    ACK,
    CLIENT_ID,
    RECEIVE,
    ROUTE,
    SEND,
    TOPIC,
    Target,
    message,
    receive_request,
    route_request,
    send_request,
)
from tests.attacks.wire import Wire

MIB = 1 << 20
_BOMBS = 150
_ENTRIES = 100_000
_BOMB_ENTRIES = 15_000_000
# How long the attacker waits for an answer before it asks again.
_PATIENCE_S = 2.0
_MEMBERS = 150
_LONG_CALL_S = 10.0
ESCAPE, FORGED = "\x1b[2J", "2026-01-01 00:00:00,000 ERROR   forged: the disk burns"


def _repeat(target: Target, path: str, request: bytes) -> None:
    """The same call again and again, two at a time."""
    for _ in target.rounds():
        with target.wire() as wire:
            for number in itertools.count():
                if not target.left_s:
                    return
                wire.call(path, request, CLIENT_ID, timeout_s=min(_LONG_CALL_S, target.left_s))
                target.count("calls")
                wire.wait_for_ends(number, min(_PATIENCE_S, target.left_s))


def gzip_bombs(target: Target) -> None:
    """150 bodies of 4 MiB each in a request of 600 KB."""
    bomb = gzip.compress(bytes(4 * MIB))
    bombs = [message(TOPIC, bomb, f"bomb-{number}", pb.GZIP) for number in range(_BOMBS)]
    _repeat(target, SEND, send_request(*bombs))


def tiny_messages(target: Target) -> None:
    """100,000 messages in a request of 1.6 MB."""
    _repeat(target, SEND, send_request(*[message("t", b"x", "x")] * _ENTRIES))


def many_acknowledgements(target: Target) -> None:
    """100,000 receipt handles in a request."""
    entry = rpc.AckMessageEntry(receipt_handle="no-such-handle", message_id="id")
    request = rpc.AckMessageRequest(group={"name": "acks"}, topic={"name": TOPIC}, entries=[entry] * _ENTRIES)
    _repeat(target, ACK, request.SerializeToString())


def empty_entries(target: Target) -> None:
    """30 MB of messages in which nothing is, for the parser."""
    _repeat(target, SEND, b"\x0a\x00" * _BOMB_ENTRIES)


def control_characters(target: Target) -> None:
    """Header fields, ids and names that would be seen in a log or on a terminal."""
    evil = f"{ESCAPE}x\n{FORGED}\r\n"
    for number in target.rounds():
        with target.wire() as wire:
            wire.call(ROUTE, route_request(f"{TOPIC}{evil}"), ("x-mq-client-id", evil))
            wire.call(f"/{evil}", b"", CLIENT_ID)
            wire.call(SEND, send_request(message(TOPIC, b"x", evil, born_host=evil)), ("x-mq-client-id", evil))
            wire.call(SEND, b"\xff" * 9, ("x-mq-client-id", f"{evil}{number}"))
            # Members of one group that filter differently are spoken of.
            wire.call(
                RECEIVE, receive_request(TOPIC, "evil", tags=f"tag{number}"), ("x-mq-client-id", f"{number}{evil}")
            )
            target.count("calls", 5)
            wire.wait_for_ends(5, min(_PATIENCE_S, target.left_s))


def filter_warnings(target: Target) -> None:
    """Members of one group who filter differently, and each time otherwise."""
    for _ in target.rounds():
        with target.wire() as wire:
            for number in itertools.count():
                if not target.left_s:
                    return
                tags = f"{'tag' * 10}{number}"
                member = ("x-mq-client-id", f"member-{number % _MEMBERS}")
                wire.call(RECEIVE, receive_request(TOPIC, "disagreeing", tags=tags), member)
                target.count("calls")
                wire.wait_for_ends(number - 20, min(_PATIENCE_S, target.left_s))


def topics_in_a_loop(target: Target) -> None:
    """Topics that are made by being used."""
    numbers = itertools.count()
    for _ in target.rounds():
        with target.wire() as wire:
            for called in itertools.count():
                if not target.left_s:
                    return
                name = f"made-{next(numbers)}"
                wire.call(SEND, send_request(message(name, b"x", name)), CLIENT_ID)
                target.count("calls")
                wire.wait_for_ends(called - 20, min(_PATIENCE_S, target.left_s))


def fill_topic(target: Target) -> None:
    """6.5 MB in the topic that is attacked."""
    body = bytes(64 << 10)
    with Wire(target.grpc) as wire:
        for number in range(100):
            wire.call(SEND, send_request(message(TOPIC, body, f"filled-{number}")), CLIENT_ID)
        assert wire.wait_for_ends(100, 30.0), "the topic could not be filled"
