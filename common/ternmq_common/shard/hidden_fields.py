"""Values of a 4.x message without a field in the stored form, hidden in a field that no client knows.

It is the field `_NUMBER` of `SystemProperties`, behind all others:

Content   version u8 | flag i32 | system flag i32 | times reconsumed i32 | properties in their text form; big-endian.

The properties are those with reserved names; those of users are stored where gRPC clients find them. Clients skip
fields that they don't know, and a producer that sends this field itself changes its own message only.
"""

import struct
from typing import Final, NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet

from ternmq_common.shard.property_text import read_properties, write_properties
from ternmq_common.wire import encode_field, encode_varint
from ternmq_protos.v2.definition_pb2 import SystemProperties

_NUMBER: Final = 2104
_LENGTH_DELIMITED: Final = 2
HIDDEN_TAG: Final = encode_varint(_NUMBER << 3 | _LENGTH_DELIMITED)
"""The start of the field, which other fields may have too."""
_VERSION: Final = 1
_HEAD: Final = struct.Struct(">Biii")

RETRY_TOPIC: Final = "RETRY_TOPIC"
"""The property with the topic that a message in a retry queue was sent to."""


class HiddenFields(NamedTuple):
    """The hidden fields of a message. `reconsume_times` is how often the group failed on it whose retry it is."""

    flag: int = 0
    system_flag: int = 0
    reconsume_times: int = 0
    properties: dict[str, str] = {}  # noqa: RUF012 - never changed

    @property
    def is_empty(self) -> bool:
        """Whether nothing needs to be hidden."""
        return not (self.flag or self.system_flag or self.reconsume_times or self.properties)


NOTHING_HIDDEN: Final = HiddenFields()


def encode_hidden(hidden: HiddenFields) -> bytes:
    """Return the field, to be appended to serialized system properties; nothing if there is nothing to hide."""
    if hidden.is_empty:
        return b""
    head = _HEAD.pack(_VERSION, hidden.flag, hidden.system_flag, hidden.reconsume_times)
    return encode_field(HIDDEN_TAG, head + write_properties(hidden.properties).encode())


def read_hidden(unknown: UnknownFieldSet) -> HiddenFields:
    """Return the hidden fields among those that system properties have and protobuf does not know."""
    for number in range(len(unknown)):
        field = unknown[number]
        if field.field_number == _NUMBER and field.wire_type == _LENGTH_DELIMITED:
            return _decode_content(field.data)
    return NOTHING_HIDDEN


def hidden_of(system: bytes) -> HiddenFields:
    """Return the hidden fields of serialized system properties."""
    return read_hidden(UnknownFieldSet(SystemProperties.FromString(system)))


def replace_hidden(system: bytes, hidden: HiddenFields) -> bytes:
    """Return serialized system properties with these hidden fields in place of theirs."""
    before = encode_hidden(hidden_of(system))
    if not system.endswith(before):
        properties = SystemProperties.FromString(system)
        properties.DiscardUnknownFields()
        return bytes(properties.SerializeToString()) + encode_hidden(hidden)
    return system.removesuffix(before) + encode_hidden(hidden)


def _decode_content(content: bytes) -> HiddenFields:
    if len(content) < _HEAD.size or content[0] != _VERSION:
        return NOTHING_HIDDEN
    _, flag, system_flag, reconsume_times = _HEAD.unpack_from(content)
    text = content[_HEAD.size :].decode(errors="replace")
    return HiddenFields(flag, system_flag, reconsume_times, read_properties(text))
