"""Bodies in Protobuf: parsed by protobuf's own parser, which bounds depth, and taken over field by field.

A list of empty messages has two bytes for each; so objects of Python are counted before they are created.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import StructType

from pyspark_ternmq.decoding.limits import BrokenBody, ValueBudget
from pyspark_ternmq.decoding.protobuf_schema import (
    TIMESTAMP,
    ProtobufSchema,
    descriptor_of,
    is_map,
    message_column_type,
)

Take: TypeAlias = Callable[[Any, ValueBudget], Any]
# 0001-01-01 and 9999-12-31, as Protobuf and Spark bound them.
SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799
NANOS_MAX = 999_999_999


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """Bodies that are such messages."""

    schema: ProtobufSchema

    @property
    def name(self) -> str:
        return "protobuf"

    def column_type(self) -> StructType:
        return message_column_type(self.schema)

    def make_decoder(self) -> Callable[[bytes], Any]:
        return protobuf_body(self.schema)


@lru_cache(maxsize=16)
def protobuf_body(schema: ProtobufSchema) -> Callable[[bytes], Any]:
    """A function from a body to a dict; BrokenBody if it is no such message. `columns` was called for the schema."""
    descriptor = descriptor_of(schema)
    parse: Callable[[bytes], Message] = GetMessageClass(descriptor).FromString
    take = _message_reader(descriptor)

    def decode_body(raw: bytes) -> Any:  # noqa: ANN401
        try:
            message = parse(raw)
            if not message.IsInitialized():
                missing = ", ".join(message.FindInitializationErrors()[:5])  # type: ignore[attr-defined]
                raise BrokenBody(f"it lacks {missing}")
        except DecodeError:
            raise BrokenBody(f"it is no {schema.message}") from None
        return take(message, ValueBudget())

    return decode_body


def _message_reader(descriptor: Descriptor) -> Take:
    """A function from a message, and what is left of the budget, to a dict or a time."""
    if descriptor.full_name == TIMESTAMP:
        return _time_us
    # Names of fields, the functions that convert their values, and whether they may be absent.
    takes = [(one.name, _field_reader(one), one.has_presence) for one in descriptor.fields]

    def read_message(message: Message, budget: ValueBudget) -> dict[str, Any]:
        return {
            name: make(getattr(message, name), budget) if not may_lack or message.HasField(name) else None
            for name, make, may_lack in takes
        }

    return read_message


def _field_reader(one: FieldDescriptor) -> Take:
    if one.message_type is not None and is_map(one):
        return _map_reader(one.message_type)
    value = _value_reader(one)
    if not one.is_repeated:
        return value or _keep_value

    def items(found: Any, budget: ValueBudget) -> list[Any]:  # noqa: ANN401
        budget.spend_values(len(found))
        return list(found) if value is None else [value(item, budget) for item in found]

    return items


def _map_reader(entry: Descriptor) -> Take:
    key, value = (_value_reader(entry.fields_by_name[name]) or _keep_value for name in ("key", "value"))

    def read_entries(found: Any, budget: ValueBudget) -> list[tuple[Any, Any]]:  # noqa: ANN401
        budget.spend_values(len(found))
        return [(key(one, budget), value(found[one], budget)) for one in found]

    return read_entries


def _value_reader(one: FieldDescriptor) -> Take | None:
    """The function that converts a value; None if it needs no conversion."""
    if one.message_type is not None:
        inner = _message_reader(one.message_type)
        if one.message_type.full_name == TIMESTAMP:
            return inner
        fields = len(one.message_type.fields)

        def read_value(found: Any, budget: ValueBudget) -> Any:  # noqa: ANN401
            budget.spend_values(fields)
            return inner(found, budget)

        return read_value
    if one.enum_type is not None:
        names = {value.number: value.name for value in reversed(one.enum_type.values)}
        return lambda number, _: names.get(number, str(number))
    return None


def _keep_value(value: Any, budget: ValueBudget) -> Any:  # noqa: ANN401
    del budget
    return value


def _time_us(found: Any, budget: ValueBudget) -> int:  # noqa: ANN401
    """Microseconds since 1970; what is finer is cut off."""
    del budget
    if not (SECONDS_MIN <= found.seconds <= SECONDS_MAX and 0 <= found.nanos <= NANOS_MAX):
        raise BrokenBody(f"a timestamp of {found.seconds} s and {found.nanos} ns is none")
    return int(found.seconds) * 1_000_000 + int(found.nanos) // 1_000
