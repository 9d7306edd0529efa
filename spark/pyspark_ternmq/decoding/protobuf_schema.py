"""Protobuf messages as columns of Spark, from a FileDescriptorSet as `protoc --include_imports` writes it.

Numbers     signed ones as they are; uint32 is a bigint, uint64 a decimal(20,0).
Null        fields that a body lacks, where Protobuf records presence: messages, `optional`, members of a oneof. Other
            scalars have their default, as Protobuf says.
Enums       by name; a number without one is its digits. `google.protobuf.Timestamp` is a timestamp.
Refused     recursive messages, such as `google.protobuf.Struct`, messages without fields, and what is too deep or wide.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_ternmq.decoding.limits import SCHEMA_BYTES_MAX, SchemaNesting, WrongSchema

TIMESTAMP = "google.protobuf.Timestamp"
_SCALARS: dict[int, DataType] = {
    FieldDescriptor.CPPTYPE_INT32: IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: LongType(),
    FieldDescriptor.CPPTYPE_UINT32: LongType(),
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: FloatType(),
    FieldDescriptor.CPPTYPE_BOOL: BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: StringType(),
    FieldDescriptor.CPPTYPE_STRING: StringType(),
}


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A serialized FileDescriptorSet, and the full name of one of its messages."""

    descriptor_set: bytes = field(repr=False)
    message: str


@lru_cache(maxsize=16)
def descriptor_of(schema: ProtobufSchema) -> Descriptor:
    """WrongSchema for what is no set of descriptors, or has no such message."""
    if len(schema.descriptor_set) > SCHEMA_BYTES_MAX:
        raise WrongSchema(f"the descriptor set has more than {SCHEMA_BYTES_MAX:,} bytes")
    pool = DescriptorPool()
    try:
        files = FileDescriptorSet.FromString(schema.descriptor_set).file
        _add_files(pool, {file.name: file for file in files})
    except (DecodeError, TypeError, ValueError) as error:
        raise WrongSchema(f"no FileDescriptorSet, as protoc --include_imports writes it: {error}") from None
    try:
        return pool.FindMessageTypeByName(schema.message)
    except KeyError:
        raise WrongSchema(f"the descriptor set has no message {schema.message}{_similar_names(list(files))}") from None


def _add_files(pool: DescriptorPool, waiting: dict[str, FileDescriptorProto]) -> None:
    """Files after those that they import: the order in a set is protoc's, and other tools have none."""
    while waiting:
        ready = [file for file in waiting.values() if not any(name in waiting for name in file.dependency)]
        if not ready:
            raise ValueError("files import each other")
        for file in ready:
            pool.AddSerializedFile(file.SerializeToString())
            del waiting[file.name]


def _similar_names(files: list[FileDescriptorProto]) -> str:
    names = [".".join(filter(None, (file.package, one.name))) for file in files for one in file.message_type]
    return f"; it has {', '.join(names[:20])}" if names else ""


def message_column_type(schema: ProtobufSchema) -> StructType:
    """The type of a message's column; WrongSchema for what can't be one."""
    found = _message_type(descriptor_of(schema), schema.message, SchemaNesting())
    if not isinstance(found, StructType):
        raise WrongSchema(f"{schema.message} is a timestamp, and a message of your own is needed")
    return found


def is_map(one: FieldDescriptor) -> bool:
    kind = one.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def _message_type(descriptor: Descriptor, path: str, nesting: SchemaNesting) -> DataType:
    if descriptor.full_name == TIMESTAMP:
        return TimestampType()
    if not descriptor.fields:
        raise WrongSchema(f"{path}: {descriptor.full_name} has no fields, and can't be a column")
    nesting.enter_type(descriptor.full_name, path, fields=len(descriptor.fields))
    known = dict[str, str]()
    found = StructType()
    for one in descriptor.fields:
        inner = f"{path}.{one.name}"
        if (other := known.setdefault(one.name.lower(), one.name)) != one.name:
            raise WrongSchema(f"{inner}: to Spark it is the same name as {other}")
        found = found.add(StructField(one.name, _column_type(one, inner, nesting)))
    nesting.leave_type()
    return found


def _column_type(one: FieldDescriptor, path: str, nesting: SchemaNesting) -> DataType:
    if one.message_type is not None and is_map(one):
        entry = one.message_type.fields_by_name
        return MapType(_value_type(entry["key"], path, nesting), _value_type(entry["value"], path, nesting))
    value = _value_type(one, path, nesting)
    return ArrayType(value) if one.is_repeated else value


def _value_type(one: FieldDescriptor, path: str, nesting: SchemaNesting) -> DataType:
    if one.message_type is not None:
        return _message_type(one.message_type, path, nesting)
    if one.type == FieldDescriptor.TYPE_BYTES:
        return BinaryType()
    return _SCALARS[one.cpp_type]
