"""Converts protobuf messages to JSON and back, by protobuf's own mapping (protobuf.dev/programming-guides/json),
except:

names       as in the `.proto` files: `max_offset`
int64       a number, as no offset or time of ours comes near 2^53
presence    a field without presence is always included, with its default; messages and `optional` fields only if set
"""

import re
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

_TIME, _SPAN = "google.protobuf.Timestamp", "google.protobuf.Duration"
_STATUS = "status"
_BASE64 = re.compile(r"([\w+/-]*)(={0,2})", re.ASCII)
# Requests are not nested deeper.
_DEPTH_MAX = 10
# The library creates the types of descriptors and messages at run time.
Json = Any
Message = Any


class BadJson(Exception):
    """The JSON does not fit the message."""


def to_json(message: Message) -> dict[str, Json]:
    """Return the message's fields as JSON."""
    return {
        field.name: _field_to_json(field, message) for field in message.DESCRIPTOR.fields if _has_field(field, message)
    }


def answer_json(message: Message) -> dict[str, Json]:
    """Return an answer as JSON, without its status, which is converted to that of HTTP."""
    said = to_json(message)
    said.pop(_STATUS, None)
    return said


def _has_field(field: FieldDescriptor, message: Message) -> bool:
    return bool(message.HasField(field.name)) if field.has_presence else True


def _field_to_json(field: FieldDescriptor, message: Message) -> Json:
    value = getattr(message, field.name)
    if is_map(field):
        assert field.message_type is not None
        of_value = field.message_type.fields_by_name["value"]
        return {str(key): _value_to_json(of_value, each) for key, each in sorted(value.items())}
    if field.is_repeated:
        return [_value_to_json(field, each) for each in value]
    return _value_to_json(field, value)


def _value_to_json(field: FieldDescriptor, value: Json) -> Json:
    if field.message_type is not None:
        return value.ToJsonString() if is_text(field) else to_json(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def is_map(field: FieldDescriptor) -> bool:
    """Return whether the field is a map, which is an object with any names in JSON."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def is_text(field: FieldDescriptor) -> bool:
    """Return whether the field is a time or a duration, which is text in JSON."""
    return field.message_type is not None and field.message_type.full_name in (_TIME, _SPAN)


def from_json(said: Json, message: Message) -> None:
    """Fill the message from JSON; raises BadJson."""
    if not isinstance(said, dict):
        raise BadJson("the body must be a JSON object")
    _check_bytes(said, message.DESCRIPTOR, "", _DEPTH_MAX)
    try:
        json_format.ParseDict(said, message, max_recursion_depth=_DEPTH_MAX)
    except (json_format.ParseError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadJson(str(error)) from error


def _check_bytes(said: dict[str, Json], descriptor: Descriptor, path: str, depth: int) -> None:
    """Raise BadJson for bytes that are no Base64; other errors show when the message is filled."""
    for name, value in said.items():
        field = descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)
        if field is None or is_map(field):
            continue
        for each in value if isinstance(value, list) else [value]:
            if field.type == FieldDescriptor.TYPE_BYTES and isinstance(each, str) and not _is_base64(each):
                raise BadJson(f"{path}{name} must be Base64; for a body that is text use the field text")
            if field.message_type is not None and isinstance(each, dict) and depth:
                _check_bytes(each, field.message_type, f"{path}{name}.", depth - 1)


def _is_base64(text: str) -> bool:
    """Return whether protobuf decodes the whole text, in either alphabet, with or without padding.

    Protobuf would skip characters that are in neither alphabet.
    """
    found = _BASE64.fullmatch(text)
    if found is None:
        return False
    digits, padding = found.groups()
    return len(text) % 4 == 0 if padding else len(digits) % 4 != 1


def text_to_json(field: FieldDescriptor, texts: list[str]) -> Json:
    """Return the JSON value of a field that has these texts in a query; raises BadJson."""
    if field.is_repeated:
        return texts
    if len(texts) > 1:
        raise BadJson(f"{field.name} is given {len(texts)} times, and takes one value")
    if field.type == FieldDescriptor.TYPE_BOOL:
        if texts[0] not in ("true", "false"):
            raise BadJson(f"{field.name} must be true or false, not {texts[0]!r}")
        return texts[0] == "true"
    return texts[0]
