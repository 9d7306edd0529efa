"""Clients that do not read, or do not go on: what is kept for them."""

import itertools
import time

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import service_pb2 as rpc
from tests.attacks.requests import fill_topic
from tests.attacks.target import (
    CLIENT_ID,
    PULL,
    RECEIVE,
    ROUTE,
    SEND,
    TOPIC,
    Target,
    receive_request,
    route_request,
)
from tests.attacks.wire import Disconnected, Wire
from tests.support import http2_wire as h2

_ADMIN = f"/{admin_pb2.DESCRIPTOR.package}.Admin/"
_WAITING = 16_000
_GROUPS = 500
# Each is flushed to a disk that others may keep busy.
_CREATE_TIMEOUT_S = 120.0
_UNREAD_CALLS = 100_000
_OPEN_STREAMS = 100_000
_PULLS = 100
_BATCH = 500
_PROMISED = 100 << 20
_UPDATES = 20
_STALLED_S = 0.5
_STEP_S = 0.05


def create_topic(target: Target) -> None:
    """The topic, and nothing in it."""
    topic = admin_pb2.Topic(name=TOPIC, queues=1)
    with Wire(target.grpc) as wire:
        wire.call(f"{_ADMIN}CreateTopic", admin_pb2.CreateTopicRequest(topic=topic).SerializeToString(), CLIENT_ID)
        assert wire.wait_for_ends(1, _CREATE_TIMEOUT_S), "the topic could not be created"


def fill_and_make_groups(target: Target) -> None:
    """The topic, and groups that have read nothing of it."""
    fill_topic(target)
    with Wire(target.grpc) as wire:
        for number in range(_GROUPS):
            group = admin_pb2.Group(name=f"group-{number}")
            wire.call(f"{_ADMIN}CreateGroup", admin_pb2.CreateGroupRequest(group=group).SerializeToString(), CLIENT_ID)
        assert wire.wait_for_ends(_GROUPS, _CREATE_TIMEOUT_S), "the groups could not be created"


def streams_at_window_zero(target: Target) -> None:
    """16,000 answers that wait for their windows, then a few updates of the connection's."""
    for _ in target.rounds():
        with target.wire(window=0) as wire:
            for _ in range(_WAITING // _BATCH):
                wire.send(b"".join(_routed(wire) for _ in range(_BATCH)))
                if not target.left_s:
                    return
            for _ in range(_UPDATES):
                wire.send(h2.window_update(0, 1))
            while target.left_s:
                wire.send(h2.window_update(0, 1))
                time.sleep(_STEP_S)


def _routed(wire: Wire) -> bytes:
    stream, head = wire.headers(ROUTE, CLIENT_ID)
    return head + wire.data(stream, h2.message(route_request("waiting")), end_stream=True)


def unfinished_messages(target: Target) -> None:
    """8 messages of 100 MB on a connection, that come as far as they may and never end."""
    for _ in target.rounds():
        with target.wire() as wire:
            for number in range(8):
                stream, head = wire.headers(SEND, CLIENT_ID)
                # Half of them are of a size that is allowed.
                size = _PROMISED if number % 2 else _PROMISED // 4
                wire.send(head + wire.data(stream, b"\0" + h2.u32(size)))
                _send_all_but_one(target, wire, stream, size - 1)
            _hold(target, wire)


def _send_all_but_one(target: Target, wire: Wire, stream: int, size: int) -> None:
    part = bytes(1 << 20)
    while size and target.left_s:
        sent = wire.send_data(stream, part[:size], timeout_s=_STALLED_S)
        size -= sent
        target.count("bytes", sent)
        if not sent:
            return


def unread_receives(target: Target) -> None:
    """500 receives of a full topic, and nothing is read of the socket."""
    _receives(target, reads=False, receive_buffer=4096)


def receives_at_window_zero(target: Target) -> None:
    """500 receives of a full topic, without a window for the answers."""
    _receives(target, window=0)


def _receives(target: Target, **how: object) -> None:
    for _ in target.rounds():
        with target.wire(**how) as wire:
            for number in range(_GROUPS):
                wire.call(RECEIVE, receive_request(TOPIC, f"group-{number}", hidden_s=10), CLIENT_ID)
                target.count("calls")
                if not target.left_s:
                    return
            _hold(target, wire)


def pulls_at_window_zero(target: Target) -> None:
    """100 pulls of 2 MB each, without a window for the answers; more come every second."""
    topic = {"name": TOPIC}
    requests = [
        rpc.PullMessageRequest(
            group={"name": "pulling"}, message_queue={"topic": topic, "id": queue}, batch_size=256
        ).SerializeToString()
        for queue in range(8)
    ]
    for _ in target.rounds():
        with target.wire(window=0) as wire:
            while target.left_s:
                for number in range(_PULLS):
                    wire.call(PULL, requests[number % len(requests)], CLIENT_ID)
                    target.count("calls")
                _pause(target, wire, 1.0)


def unread_calls(target: Target) -> None:
    """100,000 calls whose answers stay in the socket."""
    for _ in target.rounds():
        with target.wire(reads=False, receive_buffer=4096) as wire:
            for _ in range(_UNREAD_CALLS // _BATCH):
                wire.send(b"".join(_routed(wire) for _ in range(_BATCH)))
                target.count("calls", _BATCH)
                if not target.left_s:
                    return
            _hold(target, wire)


def open_streams(target: Target) -> None:
    """100,000 calls that have begun and say nothing."""
    for _ in target.rounds():
        with target.wire() as wire:
            for _ in range(_OPEN_STREAMS // _BATCH):
                wire.send(b"".join(wire.headers(SEND, CLIENT_ID)[1] for _ in range(_BATCH)))
                target.count("streams", _BATCH)
                if not target.left_s:
                    return
            _hold(target, wire)


def reset_connections(target: Target) -> None:
    """Connections that crash while their answers are being written."""
    for number in target.rounds():
        try:
            wire = Wire(target.grpc, reads=False, receive_buffer=4096)
        except Disconnected:
            continue
        target.count("connections")
        try:
            wire.send(b"".join(_routed(wire) for _ in range(_BATCH)))
            for group in range(10):
                wire.call(RECEIVE, receive_request(TOPIC, f"group-{(10 * number + group) % _GROUPS}"), CLIENT_ID)
        except Disconnected:
            continue
        finally:
            wire.reset()


def _hold(target: Target, wire: Wire) -> None:
    """Keep the connection for as long as it is left alone."""
    while target.left_s:
        _pause(target, wire, 1.0)


def _pause(target: Target, wire: Wire, seconds: float) -> None:
    for _ in itertools.takewhile(lambda _: target.left_s > 0, range(round(seconds / _STEP_S))):
        if wire.closed:
            raise Disconnected
        time.sleep(_STEP_S)
