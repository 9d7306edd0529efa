"""The form of frames between proxy and broker: MessagePack, by msgspec.

A frame is an array of pieces; all pieces that wait travel in one frame. A piece is an array

    what | number | body | topic_created_version | group_created_version | timeout_ms | traceparent

of which the end may be missing, and more may follow, which an older peer skips. A *call* has one of the names
in `calls.py`, a number of its own and its arguments as body: an array in the order of the signature. Its answer,
in any order, is `answer` (the result) or `failed` (`ShardFailure`) with its number. All else are *notes*, without an
answer; an unknown one is skipped. The last four are of calls, see `FramePiece`.

A stream begins with `hello` and is answered by `welcome`. When it breaks, calls without an answer may or may not have
happened; messages of an answer that could not be written are ready for other consumers at once.

Values travel as `model.py` has them: a Struct or NamedTuple as an array, a dataclass as a map by the names of its
fields, an enum by its value, bytes as they are; a filter as its text and whether that is SQL92, a range as its end. Who
reads checks types and ranges, and steps over fields that it does not know; those that are missing have their defaults
(NamedTuples are what they are). So a call can be added, and an argument or field with a default, always at the end.
Brokers are upgraded before proxies; one that does not know a call says NOT_IMPLEMENTED. Anything else needs another
FORM, and peers of another are refused.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import MsgspecError, Raw, Struct, convert
from msgspec.msgpack import Decoder, Encoder

from ternmq_common.filters.message_filter import FilterText, MessageFilter
from ternmq_common.filters.sql_filter import SqlFilter
from ternmq_common.shard.model import DroppedLite, OrphanedTransaction, PullingMember
from ternmq_common.shard.ranges import UInt32

FORM: Final = 2
"""1 was that of protobuf messages."""
T = TypeVar("T")
_ARRAY = struct.Struct(">BI")
_SHORT_MAX = 15
# Errors of msgspec for bytes that others wrote: text that is no UTF-8, and nesting deeper than Python's limit, too.
_UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)


class InvalidFrame(Exception):
    """The other side sent an invalid frame or note; the text is the reason."""


class FramePiece(Struct, array_like=True, gc=False):
    """One call, answer or note; see the module.

    `topic_created_version` and `group_created_version` are the registry's versions at which the topic or group of the
    call was created, as the proxy knows it, 0: not known. A broker that does not know what was deleted before does
    nothing and answers HA_NOT_AVAILABLE: it would take the new one for an earlier one of that name, and remove it with
    that. `timeout_ms` is how long the caller waits for the answer, 0: without end. `traceparent` is the W3C trace
    context of the caller, empty if it is not traced.
    """

    what: str
    number: int = 0
    body: Raw = Raw(b"\xc0")
    topic_created_version: int = 0
    group_created_version: int = 0
    timeout_ms: UInt32 = 0
    traceparent: str = ""


def filter_text(passing: MessageFilter) -> FilterText:
    """Return a filter as it travels. The broker compiles it."""
    return FilterText(passing.expression, isinstance(passing, SqlFilter))


# So that it may replace a filter in signatures.
MessageFilter.register(FilterText)


def _encode_value(value: object) -> object:
    if isinstance(value, range):
        return value.stop
    raise TypeError(f"{type(value).__name__} does not travel")


_encoder = Encoder(enc_hook=_encode_value)


def _decode_value(kind: type[object], value: object) -> object:
    if kind is range:
        return range(convert(value, UInt32))
    if kind is MessageFilter:
        return convert(value, FilterText)
    raise TypeError(f"{kind.__name__} does not travel")


def create_decoder(kind: type[T]) -> "Decoder[T]":
    """A decoder of that annotated type."""
    return Decoder(kind, dec_hook=_decode_value)


_pieces = Decoder(list[FramePiece])


def encode_piece(what: str, number: int = 0, body: object = None, *of_call: object) -> bytes:
    """Encode a `FramePiece`."""
    return _encoder.encode((what, number, body, *of_call))


def join_pieces(pieces: Sequence[bytes]) -> bytes:
    """Join encoded pieces into a frame."""
    count = len(pieces)
    head = bytes((0x90 | count,)) if count <= _SHORT_MAX else _ARRAY.pack(0xDD, count)
    return b"".join((head, *pieces))


def decode_frame(data: bytes) -> list[FramePiece]:
    """Decode a frame. NoFrame if it is invalid."""
    try:
        return _pieces.decode(data)
    except _UNREADABLE as error:
        raise InvalidFrame(str(error)) from None


def decode_body(piece: FramePiece, decoder: "Decoder[T]") -> T:
    """Decode the body of a piece. NoFrame if it is invalid."""
    try:
        return decoder.decode(piece.body)
    except _UNREADABLE as error:
        raise InvalidFrame(f"{piece.what[:100]!r}: {error}") from None


class NoteType(Generic[T]):
    """A kind of message without an answer; its body is a `kind`."""

    def __init__(self, what: str, kind: type[T]) -> None:
        self.what = what
        self._decoder: Decoder[T] = create_decoder(kind)

    def encode_note(self, value: T, number: int = 0) -> bytes:
        return encode_piece(self.what, number, value)

    def decode_note(self, piece: FramePiece) -> T:
        """Decode the body; NoFrame if it is invalid."""
        return decode_body(piece, self._decoder)


@dataclass(frozen=True)
class PeerGreeting:
    """The name of a proxy or broker, and its version of TernMQ. `takes_changes`: a broker that reads
    `PRESENCE_CHANGES`."""

    name: str
    version: str = ""
    form: int = FORM
    takes_changes: bool = False


class ShardFailure(NamedTuple):
    """A `MessagingError`. With HA_NOT_AVAILABLE the broker can't do the call now, and has done nothing of it: another
    broker may be tried."""

    code: int
    message: str


class ProxyQuestion(NamedTuple):
    """A question of one proxy to the others, by way of a broker; only proxies know what it means."""

    question: str
    argument: str


class ProxyAnswered(NamedTuple):
    """The answer; None: the proxy does not know the question, or can't answer."""

    data: bytes | None


class MemberChanges(NamedTuple):
    """Members that pull through a proxy since its last report, and those that do no more."""

    joined: list[PullingMember]
    left: list[PullingMember]


class ReadyNote(NamedTuple):
    """There may be messages for the group now.

    Sent once to each proxy whose `pop` with `watch` found nothing, or was refused with HA_NOT_AVAILABLE.
    """

    group: str
    topic: str


# Sent by proxies. The version is the known one of the registry; a broker with an older one reads the registry first.
HELLO = NoteType("hello", PeerGreeting)
VERSION = NoteType("version", int)
PRESENCE: NoteType[list[PullingMember]] = NoteType("presence", list[PullingMember])
"""The members that pull through this proxy; replaces the former list."""
PRESENCE_CHANGES = NoteType("presence_changes", MemberChanges)
"""The changes of that list, to brokers whose `WELCOME` accepts them."""
CANCEL = NoteType("cancel", type(None))
"""The caller of the call of that number is gone."""
CHECK_REPLY = NoteType("asked", bool)
"""Whether there was a producer for the transaction check of that number."""
PROXY_REPLY = NoteType("told", ProxyAnswered)
"""The answer to the proxy's question of that number."""
PING = NoteType("ping", type(None))

# Sent by brokers, beside `VERSION`.
WELCOME = NoteType("welcome", PeerGreeting)
ANSWER = "answer"
FAILED = NoteType("failed", ShardFailure)
READY = NoteType("ready", ReadyNote)
TRANSACTION_CHECK = NoteType("question", OrphanedTransaction)
"""A transaction check for a producer: with `sender_only` for the sender of the half message, else for any."""
PROXY_QUESTION = NoteType("tell", ProxyQuestion)
"""A question of another proxy; `PROXY_REPLY` with the same number is the answer."""
DROPPED: NoteType[list[DroppedLite]] = NoteType("dropped", list[DroppedLite])
"""Subscriptions of lite topics that clients have lost; the proxy notifies its own clients."""
PONG = NoteType("pong", type(None))
LEAVING = NoteType("leaving", type(None))
"""The broker ends: it answers open calls, and accepts no more. The proxy ends its side of the stream."""
