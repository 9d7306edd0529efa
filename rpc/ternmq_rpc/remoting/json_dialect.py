"""The JSON of bodies as Java's fastjson writes and reads it: keys of maps may be numbers or objects without quotes.

`{0:"10.0.0.1:10911"}` is a map by broker id, and `{{"brokerName":"a","queueId":0,"topic":"T"}:3}` one by message queue.
Everything else is ordinary JSON, which is read fifty times as fast.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import MsgspecError
from msgspec.json import Decoder, Encoder

from ternmq_rpc.remoting.frames import RemotingError

BODY_BYTES_MAX = 1024 * 1024
"""The most bytes of a body that is read as JSON; the names of 4096 queues take less."""
DIALECT_BYTES_MAX = 128 * 1024
"""What a body may have that is no ordinary JSON."""
DEPTH_MAX = 32
_TOKEN = re.compile(
    r'[ \t\r\n]*(?:([{}\[\],:])|("(?:[^"\\]|\\.)*")|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null))',
    re.DOTALL,
)
_END = re.compile(r"[ \t\r\n]*\Z")
_DECODER = Decoder()
_ENCODER = Encoder()


class MessageQueueKey(NamedTuple):
    """A message queue as a key of a map."""

    topic: str
    broker: str
    queue_id: int


def encode_dialect(value: object) -> bytes:
    """Return the text of a value: numbers that are keys are written without quotes, and message queues as objects."""
    pieces: list[bytes] = []
    _write_value(value, pieces)
    return b"".join(pieces)


def encode_json(value: object) -> bytes:
    """Return the text of a value whose keys are all texts; much faster than `encode_dialect`."""
    return _ENCODER.encode(value)


def _write_value(value: object, pieces: list[bytes]) -> None:
    if isinstance(value, MessageQueueKey):
        pieces.append(_encode_queue(value))
    elif isinstance(value, Mapping):
        pieces.append(b"{")
        for number, (key, inner) in enumerate(value.items()):
            pieces.append((b"," if number else b"") + _encode_key(key) + b":")
            _write_value(inner, pieces)
        pieces.append(b"}")
    elif isinstance(value, list | tuple):
        pieces.append(b"[")
        for number, inner in enumerate(value):
            if number:
                pieces.append(b",")
            _write_value(inner, pieces)
        pieces.append(b"]")
    else:
        pieces.append(_ENCODER.encode(value))


def _encode_key(key: object) -> bytes:
    return _encode_queue(key) if isinstance(key, MessageQueueKey) else _ENCODER.encode(key)


def _encode_queue(queue: MessageQueueKey) -> bytes:
    return _ENCODER.encode({"brokerName": queue.broker, "queueId": queue.queue_id, "topic": queue.topic})


def decode_dialect(data: bytes, *, bytes_max: int = BODY_BYTES_MAX) -> object:
    """Return the value of a text of at most so many bytes: a key that is a number becomes its digits, one that is an
    object a `MessageQueueKey`. RemotingError if it is too long or not of this dialect, or if what is no ordinary JSON
    is nested more than `DEPTH_MAX` deep."""
    if len(data) > bytes_max:
        raise RemotingError(f"a body of {len(data)} bytes of JSON; {bytes_max} are allowed")
    try:
        return _DECODER.decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if len(data) > DIALECT_BYTES_MAX:
            raise RemotingError(f"a body of {len(data)} bytes is no JSON: {error}") from error
    return _decode_special(data)


def _decode_special(data: bytes) -> object:
    """Return the value of a text that is no ordinary JSON."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RemotingError(f"a body is no UTF-8: {error}") from error
    reader = _Reader(text)
    value = reader.read_value(0)
    if _END.match(text, reader.at) is None:
        raise RemotingError(f"a body has more than one value, at character {reader.at}")
    return value


class _Reader:
    """Reads values from a text, from `at` on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def read_value(self, depth: int) -> object:
        sign, literal = self._next_token()
        if literal:
            return _decode_scalar(literal)
        if depth == DEPTH_MAX:
            raise RemotingError(f"a body is nested more than {DEPTH_MAX} deep")
        if sign == "{":
            return self._read_map(depth + 1)
        if sign == "[":
            return self._read_list(depth + 1)
        raise self._unexpected(sign)

    def _read_list(self, depth: int) -> list[object]:
        values: list[object] = []
        if self._skip_sign("]"):
            return values
        while True:
            values.append(self.read_value(depth))
            sign, _ = self._next_token()
            if sign == "]":
                return values
            if sign != ",":
                raise self._unexpected(sign)

    def _read_map(self, depth: int) -> dict[str | MessageQueueKey, object]:
        pairs: dict[str | MessageQueueKey, object] = {}
        if self._skip_sign("}"):
            return pairs
        while True:
            key = self._read_key(depth)
            if not self._skip_sign(":"):
                raise self._unexpected("something")
            pairs[key] = self.read_value(depth)
            sign, _ = self._next_token()
            if sign == "}":
                return pairs
            if sign != ",":
                raise self._unexpected(sign)

    def _read_key(self, depth: int) -> str | MessageQueueKey:
        key = self.read_value(depth)
        if isinstance(key, str):
            return key
        if isinstance(key, int) and not isinstance(key, bool):
            return str(key)
        if isinstance(key, dict):
            topic, broker, queue_id = key.get("topic"), key.get("brokerName"), key.get("queueId")
            if isinstance(topic, str) and isinstance(broker, str) and isinstance(queue_id, int):
                return MessageQueueKey(topic, broker, queue_id)
        raise RemotingError(f"a key of a map, before character {self.at}, is no text, number or message queue")

    def _next_token(self) -> tuple[str, str]:
        """Return a sign of JSON, or a scalar's text."""
        found = _TOKEN.match(self._text, self.at)
        if found is None:
            raise RemotingError(f"a body is no JSON at character {self.at}")
        self.at = found.end()
        return found[1] or "", found[2] or found[3] or ""

    def _skip_sign(self, sign: str) -> bool:
        found = _TOKEN.match(self._text, self.at)
        if found is None or found[1] != sign:
            return False
        self.at = found.end()
        return True

    def _unexpected(self, sign: str) -> RemotingError:
        return RemotingError(f"a body has {sign or 'a value'} where JSON can't, before character {self.at}")


def _decode_scalar(literal: str) -> object:
    try:
        return _DECODER.decode(literal)
    except MsgspecError as error:
        raise RemotingError(f"a body has a text or number that JSON does not have: {error}") from error
