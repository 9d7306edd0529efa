"""A delivered message for a consumer."""

import hashlib
import zlib
from typing import TYPE_CHECKING, Any, NoReturn, overload

from ternmq.errors import BadRequest, UndecodableBody
from ternmq.times.wire_time import to_datetime
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from datetime import datetime

    from ternmq.connections.endpoints import Endpoints
    from ternmq.messages.json_body import ModelT

# zlib reads gzip and zlib headers with this: one producer writes zlib and calls it gzip.
_ANY_HEADER = zlib.MAX_WBITS | 32
INFLATED_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of a decompressed body: a few KiB can hold a GiB, for which a consumer may not have the memory."""


class MessageView:
    """One delivery of one message; fields are read from the protobuf message on access.

    `receipt_handle` is the right to settle this delivery; `change_invisible_duration` replaces it. It is empty for
    messages of a `PullConsumer`: nothing is hidden from others there, and progress is an offset. `delivery_attempt` is
    1 on the first delivery.

    It can be pickled and copied: the copy is the same delivery, which can be settled once. A `SimpleConsumer` returns
    `ReceivedMessage`s, which have `ack` and `nack`.
    """

    __slots__ = ("_body", "_message", "_properties", "broker", "delivery_attempt", "endpoints", "receipt_handle")

    def __init__(self, message: pb.Message, *, broker: str, endpoints: "Endpoints") -> None:
        self._message = message
        self._body: bytes | None = None
        self._properties: dict[str, str] | None = None
        self.broker = broker
        self.endpoints = endpoints
        self.receipt_handle = message.system_properties.receipt_handle
        self.delivery_attempt = message.system_properties.delivery_attempt or 1

    @property
    def topic(self) -> str:
        return self._message.topic.name

    @property
    def body(self) -> bytes:
        """The body as the producer sent it; `UndecodableBody` if it can't be decompressed, or has more than
        `INFLATED_BYTES_MAX` then. `to_proto().body` is the body as it was stored."""
        if self._body is None:
            self._body = self._decode_body()
        return self._body

    @overload
    def json(self) -> Any: ...  # noqa: ANN401 - JSON is of any kind

    @overload
    def json(self, model: "type[ModelT]") -> "ModelT": ...

    def json(self, model: "type[ModelT] | None" = None) -> object:
        """Decode the body from JSON: plain values, or an instance of a dataclass or a pydantic model.

            order = view.json(Order)

        `UndecodableBody` names the message if its body is not JSON, or doesn't fit the model;
        `ternmq.messages.json_body` says which types a dataclass can have.
        """
        from ternmq.messages.json_body import check_model, decode_body

        if model is not None:
            check_model(model)
        try:
            return decode_body(self.body, model)
        except ValueError as error:
            wanted = "JSON" if model is None else f"{model.__name__} in JSON"
            raise UndecodableBody(self.message_id, f"is no {wanted}: {error}") from error

    @property
    def stored_bytes(self) -> int:
        """The length of the body on the wire, before decompression."""
        return len(self._message.body)

    @property
    def message_id(self) -> str:
        return self._message.system_properties.message_id

    @property
    def tag(self) -> str | None:
        return self._message.system_properties.tag or None

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._message.system_properties.keys)

    @property
    def properties(self) -> dict[str, str]:
        """The user's properties."""
        if self._properties is None:
            self._properties = dict(self._message.user_properties)
        return self._properties

    @property
    def message_group(self) -> str | None:
        return self._message.system_properties.message_group or None

    @property
    def priority(self) -> int | None:
        system = self._message.system_properties
        return system.priority if system.HasField("priority") else None

    @property
    def lite_topic(self) -> str | None:
        return self._message.system_properties.lite_topic or None

    @property
    def trace_context(self) -> str | None:
        """The W3C `traceparent` of the producer, if it sent one."""
        return self._message.system_properties.trace_context or None

    @property
    def born_timestamp(self) -> "datetime | None":
        """When the producer created it, by the producer's clock."""
        system = self._message.system_properties
        return to_datetime(system.born_timestamp) if system.HasField("born_timestamp") else None

    @property
    def store_timestamp(self) -> "datetime | None":
        """When the server stored it."""
        system = self._message.system_properties
        return to_datetime(system.store_timestamp) if system.HasField("store_timestamp") else None

    @property
    def delivery_timestamp(self) -> "datetime | None":
        """When it was to be delivered; None for messages that weren't delayed."""
        system = self._message.system_properties
        return to_datetime(system.delivery_timestamp) if system.HasField("delivery_timestamp") else None

    @property
    def born_host(self) -> str:
        return self._message.system_properties.born_host

    @property
    def store_host(self) -> str:
        return self._message.system_properties.store_host

    @property
    def queue_id(self) -> int:
        return self._message.system_properties.queue_id

    @property
    def offset(self) -> int:
        """Its offset in its queue."""
        return self._message.system_properties.queue_offset

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic it came from, if this is a dead letter and the server says so."""
        return self._message.system_properties.dead_letter_queue.topic or None

    @property
    def intact(self) -> bool:
        """Whether the body is what was stored: its digest fits, and it can be decompressed."""
        digest = self._message.system_properties.body_digest
        if not _digest_fits(digest, self._message.body):
            return False
        try:
            return self.body is not None
        except BadRequest:
            return False

    def to_proto(self) -> pb.Message:
        """Return the message as it was received; not a copy."""
        return self._message

    if not TYPE_CHECKING:  # for a type checker only a `ReceivedMessage` has these

        def ack(self, *_: object) -> NoReturn:
            raise self._settle_error("ack")

        def nack(self, *_: object, **__: object) -> NoReturn:
            raise self._settle_error("nack")

    def _settle_error(self, call: str) -> BadRequest:
        way = (
            "the result of the listener settles it: nothing or ConsumeResult.SUCCESS, ConsumeResult.FAILURE or an "
            "exception"
            if self.receipt_handle
            else "nothing is to be settled: a PullConsumer commits how far it has come, a checker returns a resolution"
        )
        return BadRequest(pb.BAD_REQUEST, f"{self.message_id} has no {call}(): {way}")

    def __reduce__(self) -> tuple[object, ...]:
        data = self._message.SerializeToString()
        return _restore_view, (
            type(self),
            data,
            self.broker,
            self.endpoints,
            self.receipt_handle,
            self.delivery_attempt,
        )

    def _decode_body(self) -> bytes:
        if self._message.system_properties.body_encoding != pb.GZIP:
            return self._message.body
        try:
            return decompress_body(self._message.body)
        except zlib.error as error:
            raise UndecodableBody(self.message_id, f"says gzip and can't be read: {error}") from error

    def __repr__(self) -> str:
        return (
            f"MessageView(topic={self.topic!r}, message_id={self.message_id!r}, queue_id={self.queue_id}, "
            f"offset={self.offset}, delivery_attempt={self.delivery_attempt}, bytes={self.stored_bytes})"
        )


def _restore_view(
    kind: type[MessageView], data: bytes, broker: str, endpoints: "Endpoints", receipt_handle: str, attempt: int
) -> MessageView:
    view = kind(pb.Message.FromString(data), broker=broker, endpoints=endpoints)
    view.receipt_handle, view.delivery_attempt = receipt_handle, attempt
    return view


def decompress_body(packed: bytes) -> bytes:
    """Decompress a body of encoding GZIP; zlib.error if it is broken, or too long."""
    inflater = zlib.decompressobj(_ANY_HEADER)
    body = inflater.decompress(packed, INFLATED_BYTES_MAX + 1)
    if len(body) > INFLATED_BYTES_MAX:
        raise zlib.error(f"it has more than {INFLATED_BYTES_MAX} bytes when it is unpacked")
    if not inflater.eof:
        raise zlib.error("incomplete or truncated stream")
    return body


def _digest_fits(digest: pb.Digest, body: bytes) -> bool:
    if digest.type == pb.MD5:
        return hashlib.md5(body, usedforsecurity=False).hexdigest().upper() == digest.checksum.upper()
    if digest.type == pb.SHA1:
        return hashlib.sha1(body, usedforsecurity=False).hexdigest().upper() == digest.checksum.upper()
    # The text form of CRC32 depends on the producer's language, so it proves nothing.
    return True
