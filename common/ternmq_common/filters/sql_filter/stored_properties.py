"""The properties of a stored message for an expression: texts by name (`consuming.md, SQL92 values`).

User properties have their own names. System properties have the names of RocketMQ's store; an empty one is missing.
Producers may not use TAGS, KEYS or UNIQ_KEY (`sending.md, Reserved properties`), so these are never looked up in the
user properties; they may use `__SHARDINGKEY`, but the message group wins if there is one.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from ternmq_common.limits import KIB
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import SystemProperties

SYSTEM_PROPERTIES: "Mapping[str, Callable[[SystemProperties], str]]" = {
    "TAGS": lambda properties: properties.tag,
    "KEYS": lambda properties: " ".join(properties.keys),
    "UNIQ_KEY": lambda properties: properties.message_id,
    "__SHARDINGKEY": lambda properties: properties.message_group,
}
SYSTEM_PROPERTIES_ONLY = SYSTEM_PROPERTIES.keys() - {"__SHARDINGKEY"}

# Up to here it is cheaper to let protobuf copy the body than to look for its place in Python.
DECODED_WHOLE_BYTES_MAX = 64 * KIB
_USER_PROPERTIES = 2 << 3 | 2  # Message.user_properties = 2, length-delimited
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5


def system_properties(system: bytes, names: Collection[str]) -> dict[str, str]:
    """Return the properties in `names` that the message has; `system` is a serialized `SystemProperties`."""
    properties = definition_pb2.SystemProperties.FromString(system)
    return {name: text for name in names if (text := SYSTEM_PROPERTIES[name](properties))}


def user_properties(rest: bytes) -> Mapping[str, str]:
    """All user properties; `rest` is a serialized `Message`, whose body costs little however large it is."""
    if len(rest) > DECODED_WHOLE_BYTES_MAX:
        rest = only_user_properties(rest)
    return definition_pb2.Message.FromString(rest).user_properties


def only_user_properties(rest: bytes) -> bytes:
    """`rest`, a valid `Message`, without its other fields, which are skipped and not copied."""
    kept: list[bytes] = []
    at = 0
    while at < len(rest):
        begin = at
        tag, at = _read_varint(rest, at)
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            size, at = _read_varint(rest, at)
            at += size
        elif wire_type == _VARINT:
            _, at = _read_varint(rest, at)
        elif wire_type in (_FIXED64, _FIXED32):
            at += 8 if wire_type == _FIXED64 else 4
        else:
            # A group, which only an unknown field can be: protobuf shall find its end.
            return rest
        if tag == _USER_PROPERTIES:
            kept.append(rest[begin:at])
    return b"".join(kept)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
