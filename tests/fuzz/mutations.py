"""Conversations that are wrong in one place, or in a few."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fuzz.conversations import Conversation
from tests.support import http2_wire as h2
from tests.support.http2_wire import Frame, FrameParser, Kind

CORPUS = Path(__file__).with_name("corpus")
_NUMBERS = (0, 1, 2, 3, 5, 8, 9, 0xFF, 0x4000, 0x4001, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_INPUT_MAX = 1 << 18


def corpus() -> list[bytes]:
    """Inputs that found something once, and a few to begin with."""
    return [path.read_bytes() for path in sorted(CORPUS.iterdir())]


def mutated(dice: random.Random, corpus: Sequence[bytes]) -> bytes:
    """An input: a conversation or a piece of the corpus, changed on the level of frames and on that of bytes."""
    known = bool(corpus) and not dice.randrange(8)
    frames = parsed(dice.choice(corpus)) if known else Conversation(dice).write()
    if frames:
        for _ in range(dice.choice((0, 1, 1, 2, 4))):
            dice.choice(_OF_FRAMES)(dice, frames)
    data = joined(dice, frames)
    for _ in range(dice.choice((0, 0, 0, 1, 3))):
        data = dice.choice(OF_BYTES)(dice, data)
    return data[:_INPUT_MAX]


def mutated_bytes(data: bytes, seed: int) -> bytes:
    """That input changed, for a fuzzer that has inputs of its own."""
    dice = random.Random(seed)
    frames = parsed(data)
    if not frames or not dice.randrange(10):
        frames = Conversation(dice).write()
    for _ in range(dice.randint(1, 3)):
        dice.choice(_OF_FRAMES)(dice, frames)
    data = joined(dice, frames)
    if not dice.randrange(3):
        data = dice.choice(OF_BYTES)(dice, data)
    return data


def parsed(data: bytes) -> list[Frame]:
    """The whole frames after the preface."""
    return list(FrameParser().feed(data.removeprefix(h2.PREFACE)))


def joined(dice: random.Random, frames: Sequence[Frame]) -> bytes:
    """What the client sends; rarely with a length that is not the payload's."""
    parts = [] if not dice.randrange(100) else [h2.PREFACE]
    for each in frames:
        data = h2.frame(each.kind & 0xFF, each.flags & 0xFF, each.stream & 0xFFFFFFFF, each.payload)
        if not dice.randrange(60):
            data = (dice.choice(_NUMBERS) & 0xFFFFFF).to_bytes(3, "big") + data[3:]
        parts.append(data)
    return b"".join(parts)


# --- frames


def _drop(dice: random.Random, frames: list[Frame]) -> None:
    if len(frames) > 1:
        del frames[dice.randrange(len(frames))]


def _repeat(dice: random.Random, frames: list[Frame]) -> None:
    at = dice.randrange(len(frames))
    frames[at:at] = [frames[at]] * dice.choice((1, 2, 20))


def _swap(dice: random.Random, frames: list[Frame]) -> None:
    one, other = dice.randrange(len(frames)), dice.randrange(len(frames))
    frames[one], frames[other] = frames[other], frames[one]


def _kind(dice: random.Random, frames: list[Frame]) -> None:
    at = dice.randrange(len(frames))
    frames[at] = frames[at]._replace(kind=dice.randrange(12))


def _flags(dice: random.Random, frames: list[Frame]) -> None:
    at = dice.randrange(len(frames))
    frames[at] = frames[at]._replace(flags=frames[at].flags ^ dice.choice((1, 4, 8, 0x20, 0xFF)))


def _stream(dice: random.Random, frames: list[Frame]) -> None:
    at = dice.randrange(len(frames))
    frames[at] = frames[at]._replace(stream=dice.choice((*_NUMBERS, *(each.stream for each in frames))))


def _payload(dice: random.Random, frames: list[Frame]) -> None:
    at = dice.randrange(len(frames))
    frames[at] = frames[at]._replace(payload=dice.choice(OF_BYTES)(dice, frames[at].payload))


def _number(dice: random.Random, frames: list[Frame]) -> None:
    """A number of four bytes, wherever it stands: a window, a setting, a length of a message."""
    at = dice.randrange(len(frames))
    payload = bytearray(frames[at].payload)
    if len(payload) >= 4:
        begin = dice.choice((0, 1, 2, len(payload) - 4))
        payload[begin : begin + 4] = dice.choice(_NUMBERS).to_bytes(4, "big")
        frames[at] = frames[at]._replace(payload=bytes(payload[: len(frames[at].payload)]))


def _insert(dice: random.Random, frames: list[Frame]) -> None:
    made = Frame(
        dice.choice(tuple(Kind)), dice.choice((0, 1, 4, 5)), dice.randrange(8), dice.randbytes(dice.randrange(20))
    )
    frames.insert(dice.randrange(len(frames) + 1), made)


def _another(dice: random.Random, frames: list[Frame]) -> None:
    """Two conversations on one connection."""
    at = dice.randrange(len(frames) + 1)
    frames[at:at] = Conversation(dice).write()


_OF_FRAMES: tuple[Callable[[random.Random, list[Frame]], None], ...] = (
    _drop,
    _repeat,
    _swap,
    _kind,
    _flags,
    _stream,
    _payload,
    _payload,
    _payload,
    _number,
    _insert,
    _another,
)


# --- bytes


def _flip(dice: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _set(dice: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[dice.randrange(len(data))] = dice.choice((0, 1, 0x20, 0x3F, 0x40, 0x7F, 0x80, 0xBE, 0xFF))
    return bytes(changed)


def _cut(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.randint(0, len(data))]


def _take_out(dice: random.Random, data: bytes) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + data[at + dice.randrange(1, 20) :]


def _put_in(dice: random.Random, data: bytes) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + dice.randbytes(dice.randrange(1, 20)) + data[at:]


def _splice(dice: random.Random, data: bytes) -> bytes:
    begin, size, at = dice.randint(0, len(data)), dice.randrange(1, 64), dice.randint(0, len(data))
    return data[:at] + data[begin : begin + size] + data[at:]


OF_BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (_flip, _flip, _set, _cut, _take_out, _put_in, _splice)
