"""Sends mutated frames of the remoting protocol to a real server: `python -m tests.fuzz.remoting --frames 1000000`.

Inputs    the frames that were captured from Apache's clients and servers, with headers, bodies and lengths changed.
Checks    what can't be read closes its connection, and nothing else does; after each thousand frames a route and a
          send are answered on a new connection; at the end the server has not grown by more than GROWTH_MAX_BYTES
          since WARM_UP frames, and its log has no traceback and no error.
"""

import argparse
import itertools
import json
import random
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from ternmq_rpc.remoting.commands import decode_command
from ternmq_rpc.remoting.frames import BINARY, JSON, FrameReader, RemotingError, join_frame
from tests.attacks.remoting.requests import ROUTE, SEND, send_fields
from tests.attacks.remoting.wire import RemotingWire
from tests.attacks.wire import Disconnected
from tests.fuzz.mutations import OF_BYTES
from tests.support.ports import free_address
from tests.support.stack import Stack
from tests.unit.rpc.remoting.captured import read_frames

GROWTH_MAX_BYTES = 64 << 20
WARM_UP = 100_000
_BATCH = 100
_RARELY = 20
_LOOK_EVERY = 1000
_SAY_EVERY = 50_000
_WITHIN_S = 30.0
_TOPIC = "sound"
_CODES = (*range(8), 9, 10, 11, 12, 14, 15, 30, 31, 34, 35, 36, 37, 38, 41, 42, 46, 105, 310, 320, 324, 361, 370)
_ADMIN = (17, 25, 28, 29, 32, 33, 206, 200, 202, 203, 204, 207, 208, 215, 217, 220, 221, 222, 224, 300, 301, 307, 3001)
_NUMBERS = (0, 1, -1, 2, 255, 2**15, 2**16, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63 - 1, -(2**63), 2**63, 10**30)
_TEXTS = ("", "x", "true", "%RETRY%g", "%DLQ%g", "TBW102", "\x00", "\x01\x02", "ü" * 50, "a" * 300, "*", "{}", "null")


class Frame(NamedTuple):
    form: int
    header: bytes
    body: bytes


class Input(NamedTuple):
    """The bytes of a frame, and what the server must do with them: `is_sound`, it goes on; `is_refused`, it closes the
    connection; neither, it waits for more."""

    data: bytes
    is_sound: bool
    is_refused: bool


def known_frames() -> list[Frame]:
    """The captured frames."""
    return [Frame(*frame) for data in read_frames().values() for frame in FrameReader().read_frames(data)]


def mutate(dice: random.Random, known: Sequence[Frame]) -> Input:
    """One frame, changed in one place or a few; rarely one that ends its connection."""
    made = _mutate_once(dice, known)
    while not made.is_sound and dice.randrange(_RARELY):
        made = _mutate_once(dice, known)
    return made


def _mutate_once(dice: random.Random, known: Sequence[Frame]) -> Input:
    frame = dice.choice(known)
    for _ in range(dice.choice((1, 1, 2, 3))):
        frame = dice.choice(_OF_FRAMES)(dice, frame)
    data = join_frame(frame.form & 0xFF, frame.header, frame.body)
    if not dice.randrange(50):
        data = dice.choice(_OF_LENGTHS)(dice, data)
    return _judge(data)


def _judge(data: bytes) -> Input:
    reader = FrameReader()
    try:
        for frame in reader.read_frames(data):
            decode_command(*frame)
    except RemotingError:
        return Input(data, is_sound=False, is_refused=True)
    return Input(data, is_sound=not reader.kept_bytes, is_refused=False)


# --- mutations


def _change_field(dice: random.Random, frame: Frame) -> Frame:
    """Another value of a field, or another field."""
    if frame.form != JSON:
        return _change_header(dice, frame)
    try:
        header = json.loads(frame.header)
    except ValueError:
        return frame
    if not isinstance(header, dict):
        return frame
    fields = header.get("extFields")
    where = fields if isinstance(fields, dict) and fields and dice.randrange(5) else header
    name = dice.choice(sorted(where) or ["code"])
    where[name] = dice.choice((dice.choice(_NUMBERS), str(dice.choice(_NUMBERS)), dice.choice(_TEXTS), None, True))
    if not dice.randrange(4):
        del where[name]
    return frame._replace(header=json.dumps(header).encode())


def _change_code(dice: random.Random, frame: Frame) -> Frame:
    """Another request, with the same fields."""
    code = dice.choice(_CODES if dice.randrange(4) else _ADMIN)
    if frame.form == BINARY:
        return frame._replace(header=struct.pack(">h", code) + frame.header[2:])
    try:
        header = json.loads(frame.header)
    except ValueError:
        return frame
    if not isinstance(header, dict):
        return frame
    return frame._replace(header=json.dumps({**header, "code": code, "flag": dice.choice((0, 0, 2))}).encode())


def _change_header(dice: random.Random, frame: Frame) -> Frame:
    return frame._replace(header=dice.choice(OF_BYTES)(dice, frame.header))


def _change_body(dice: random.Random, frame: Frame) -> Frame:
    body = frame.body or dice.randbytes(dice.randrange(100))
    for _ in range(dice.choice((1, 2, 8))):
        body = dice.choice(OF_BYTES)(dice, body)
    return frame._replace(body=body)


def _take_parts(dice: random.Random, frame: Frame) -> Frame:
    """The body of another frame."""
    return frame._replace(body=dice.choice(_KNOWN).body)


def _change_form(dice: random.Random, frame: Frame) -> Frame:
    return frame._replace(form=dice.choice((JSON, BINARY, 2, 255)))


def _set_length(dice: random.Random, data: bytes) -> bytes:
    at = dice.choice((0, 4))
    number = dice.choice((0, 1, 4, 100, 0xFFFF, 0xFF_FFFF, 0x100_0001, 0x7FFF_FFFF, 0xFFFF_FFFF))
    return data[:at] + struct.pack(">I", number) + data[at + 4 :]


def _cut(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.randrange(1, len(data))]


_KNOWN = known_frames()
_OF_FRAMES: tuple[Callable[[random.Random, Frame], Frame], ...] = (
    _change_field,
    _change_field,
    _change_field,
    _change_code,
    _change_code,
    _change_body,
    _change_body,
    _take_parts,
    _change_header,
    _change_form,
)
_OF_LENGTHS: tuple[Callable[[random.Random, bytes], bytes], ...] = (_set_length, _cut)


# --- a run


class Run:
    """One server, and one connection at a time. `facts` counts what happened."""

    def __init__(self, address: str, seed: int) -> None:
        self._address = address
        self._seed = seed
        self._numbers = itertools.count()
        self._wire = RemotingWire(address)
        self.facts = Counter[str]()

    def close(self) -> None:
        self.facts["answers"] += self._wire.answered
        self._wire.close()

    def send_batch(self) -> int:
        """Send up to a hundred frames, the last of which may end the connection; return how many."""
        data, count = [], 0
        while count < _BATCH:
            made = mutate(random.Random(f"{self._seed}/{next(self._numbers)}"), _KNOWN)
            data.append(made.data)
            count += 1
            if not made.is_sound:
                self._send(b"".join(data))
                self._end_connection(made)
                return count
        self._send(b"".join(data))
        return count

    def _send(self, data: bytes) -> None:
        try:
            self._wire.send(data)
        except Disconnected as error:
            raise AssertionError(f"the server closed the connection or takes nothing any more: {error}") from error

    def _end_connection(self, made: Input) -> None:
        if made.is_refused:
            self.facts["refused"] += 1
            try:
                self._wire.wait_for_answers(sys.maxsize, _WITHIN_S)
            except Disconnected:
                pass
            else:
                raise AssertionError("the server goes on after what can't be read")
        else:
            self.facts["unfinished"] += 1
        self.close()
        self._wire = RemotingWire(self._address)

    def check_connection(self) -> None:
        """The connection still is, and has begun all that it was sent: it answers."""
        before = self._wire.answered
        self._wire.call(ROUTE, topic=_TOPIC)
        assert self._wire.wait_for_answers(before + 1, _WITHIN_S), "the connection does not answer any more"


def check_served(address: str) -> None:
    """A route and a send are answered on a new connection."""
    codes: list[int] = []
    with RemotingWire(address, on_answer=lambda answer: codes.append(int(answer.code))) as wire:
        wire.call(SEND, b"sound", **send_fields(_TOPIC))
        assert wire.wait_for_answers(1, _WITHIN_S), "a send is not answered"
        wire.call(ROUTE, topic=_TOPIC)
        assert wire.wait_for_answers(2, _WITHIN_S), "a route is not answered"
    assert codes == [0, 0], codes


def run(frames: int, seed: int, stack: Stack) -> Counter[str]:
    """Send so many frames; AssertionError if the server breaks a rule."""
    address, process = stack.addresses["remoting"], psutil.Process(stack.process.pid)
    check_served(address)
    fuzz, sent, warm, began = Run(address, seed), 0, 0, time.monotonic()
    for looks in itertools.count(1):
        while sent < min(frames, looks * _LOOK_EVERY):
            sent += fuzz.send_batch()
        fuzz.check_connection()
        check_served(address)
        if not warm and sent >= WARM_UP:
            warm = process.memory_info().rss
        if looks % (_SAY_EVERY // _LOOK_EVERY) == 0:
            print(
                f"{sent:,} frames, {sent / (time.monotonic() - began):,.0f} a second, "
                f"{process.memory_info().rss >> 20} MiB",
                flush=True,
            )
        if sent >= frames:
            break
    fuzz.close()
    grown = process.memory_info().rss - (warm or process.memory_info().rss)
    fuzz.facts.update({"frames": sent, "grown MiB": grown >> 20})
    assert grown <= GROWTH_MAX_BYTES, f"the server has grown by {grown >> 20} MiB"
    return fuzz.facts


def read_problems(log: str) -> list[str]:
    """The lines of a log that must not be there."""
    return [line for line in log.splitlines() if "Traceback" in line or " ERROR " in line or "nobody foresaw" in line]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.remoting", description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ternmq-fuzz-") as folder:
        stack = Stack(Path(folder))
        stack.addresses["remoting"] = free_address()
        with stack:
            try:
                facts = run(arguments.frames, arguments.seed, stack)
            except AssertionError as error:
                print(f"{error}\n{stack.log_tail()}")
                return 1
            problems = read_problems(stack.log.read_text(errors="replace"))
            print(", ".join(f"{name} {count:,}" for name, count in facts.items()))
            print("\n".join(problems) or "nothing broke")
            return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
