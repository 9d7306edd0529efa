"""Frames that don't come whole, are too large, or are not as they must be; answers that are not read."""

import itertools
import json
import math
import struct
import time
from collections.abc import Callable, Iterator

from ternmq_rpc.remoting.frames import BINARY, FRAME_BYTES_MAX, JSON, join_frame
from tests.attacks.remoting.requests import HEARTBEAT, PULL, ROUTE, send_fields
from tests.attacks.slow import Held
from tests.attacks.target import TOPIC, Target
from tests.attacks.wire import Disconnected

_PREFIX = struct.Struct(">II")
_HELD = 100
_MANY = 450
_BATCH = 500
_UNREAD_CALLS = 100_000
_PULLS = 500
_STEP_S = 0.05
_UNFINISHED = 4
_PIPELINED = 10_000
_HEADER_MAX = 500_000


def half_frames(target: Target) -> None:
    """Frames that come byte by byte."""
    Held(target, target.remoting, _HELD, _PREFIX.pack(1 << 10, 100), b"{").hold()


def half_prefixes(target: Target) -> None:
    """Connections that begin a frame, and do not even say how long it is."""
    Held(target, target.remoting, _HELD, b"\0\0").hold()


def many_connections(target: Target) -> None:
    """More connections than there are descriptors."""
    Held(target, target.remoting, _MANY, b"", limit_s=math.inf).hold()


def unfinished_frames(target: Target) -> None:
    """Frames of 16 MiB of which the last byte does not come, on more connections each time."""
    for _ in target.rounds():
        with target.remoting_wires() as connect:
            part = bytes(1 << 20)
            while target.left_s:
                for _ in range(_UNFINISHED):
                    wire = connect()
                    wire.send(_PREFIX.pack(FRAME_BYTES_MAX - 8, 100))
                    for _ in range(15):
                        wire.send(part)
                        target.count("bytes", len(part))
                        if not target.left_s:
                            return
                time.sleep(_STEP_S)


def huge_lengths(target: Target) -> None:
    """Frames that are announced longer than they may be, or shorter than their header."""
    lengths = itertools.cycle(
        [
            _PREFIX.pack(0xFFFF_FFFF, 100),
            _PREFIX.pack(FRAME_BYTES_MAX + 1, 100),
            _PREFIX.pack(1 << 20, 0xFF_FFFF),
            _PREFIX.pack(10, 100),
            _PREFIX.pack(0, 0),
            _PREFIX.pack(0x4745_5420, 0x2F20_4854),  # GET / HT
        ]
    )
    for _ in target.rounds():
        with target.remoting_wire() as wire:
            wire.send(next(lengths) + bytes(1000))
            wire.wait_for_answers(1, 1.0)
            target.count("overdue")  # it must be closed at once


def header_bombs(target: Target) -> None:
    """Headers that cost their reader more than they look, and bodies that are read as JSON."""
    bombs = itertools.cycle(list(_bombs()))
    for _ in target.rounds():
        with target.remoting_wire() as wire:
            while target.left_s:
                wire.send(next(bombs))
                target.count("frames")
                wire.wait_for_answers(1 << 30, _STEP_S)


def _bombs() -> Iterator[bytes]:
    size = _HEADER_MAX
    for text in (
        b'{"code":105,"extFields":' + b"[" * size,
        b'{"code":105,"extFields":' + b'{"a":' * (size // 5),
        b'{"code":105,"extFields":{"topic":"%s"}}' % (b"\\u0000" * (size // 6)),
        b'{"code":105,"opaque":1' + b"0" * size + b"}",
        b'{"code":105,"version":' + b"9" * 5000 + b"}",
        b'{"code":105,"extFields":{"topic":1e999999999}}',
        b'{"code":105,"extFields":{"topic":"\xff\xfe\xc0\x80"}}',
        b'{"code":105,"remark":"\\ud800"}',
        b'{"code":105,"extFields":{%s}}' % b",".join(b'"%x":1' % number for number in range(size // 10)),
    ):
        yield join_frame(JSON, text)
    for body in (b"[" * (4 << 20), b"[[],[],[]" * (1 << 20), b"{1:" * (1 << 20), b'{"clientID":' + b"9" * (1 << 20)):
        yield join_frame(JSON, b'{"code":%d}' % HEARTBEAT, body)
    many = b",".join(b"{%d:%d}" % (number, number) for number in range(500_000))
    yield join_frame(JSON, b'{"code":%d}' % HEARTBEAT, b'{"consumerDataSet":[%s]}' % many)
    fixed = struct.pack(">hBhiiii", ROUTE, 0, 400, 1, 0, 0, 6 * (size // 6))
    yield join_frame(BINARY, fixed + bytes(6) * (size // 6))
    yield join_frame(BINARY, struct.pack(">hBhiiii", ROUTE, 0, 400, 1, 0, -1, 0x7FFF_FFFF))


def unread_routes(target: Target) -> None:
    """100,000 requests whose answers stay in the socket."""
    for _ in target.rounds():
        with target.remoting_wire(reads=False, receive_buffer=4096) as wire:
            for _ in range(_UNREAD_CALLS // _BATCH):
                wire.send(b"".join(wire.request(ROUTE, topic=TOPIC) for _ in range(_BATCH)))
                target.count("calls", _BATCH)
                if not target.left_s:
                    return
            _hold(target, lambda: wire.closed)


def unread_pulls(target: Target) -> None:
    """Pulls of a full topic whose answers are not read, on more connections each time."""
    for _ in target.rounds():
        with target.remoting_wires(reads=False, receive_buffer=4096) as connect:
            while target.left_s:
                wire = connect()
                for number in range(_PULLS):
                    wire.call(
                        PULL,
                        consumerGroup="pulling",
                        topic=TOPIC,
                        queueId=number % 4,
                        queueOffset=0,
                        maxMsgNums=256,
                        sysFlag=4,
                        subscription="*",
                    )
                    target.count("calls")
                time.sleep(10 * _STEP_S)


def pipelined_requests(target: Target) -> None:
    """10,000 requests in one write, of all kinds, most of which nobody serves; answers are read."""
    for _ in target.rounds():
        with target.remoting_wire() as wire:
            codes = itertools.cycle((ROUTE, 9999, -1, 14, 30, 38))
            batch = b"".join(wire.request(next(codes), topic=TOPIC, queueId=0) for _ in range(_PIPELINED))
            while target.left_s:
                wire.send(batch)
                target.count("calls", _PIPELINED)


def answers_to_nothing(target: Target) -> None:
    """Answers to requests that the server has not sent, and oneway requests that fail."""
    for _ in target.rounds():
        with target.remoting_wire() as wire:
            batch = b"".join(
                wire.request(0, b"", 1) + wire.request(310, b"", 2, **send_fields("")) for _ in range(_BATCH)
            )
            while target.left_s:
                wire.send(batch)
                target.count("frames", 2 * _BATCH)


def reset_connections(target: Target) -> None:
    """Connections of members that are closed while their answers are written."""
    for number in target.rounds():
        with target.remoting_wire(reads=False, receive_buffer=4096) as wire:
            body = {"clientID": f"resetting-{number}", "consumerDataSet": [{"groupName": "resetting"}]}
            wire.call(HEARTBEAT, json.dumps(body).encode())
            wire.send(b"".join(wire.request(ROUTE, topic=TOPIC) for _ in range(_BATCH)))


def _hold(target: Target, is_over: Callable[[], bool]) -> None:
    while target.left_s:
        if is_over():
            raise Disconnected
        time.sleep(_STEP_S)
