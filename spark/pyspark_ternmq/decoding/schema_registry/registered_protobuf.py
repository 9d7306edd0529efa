"""Protobuf whose bodies say by an id and indexes which message of which file in a registry they are.

Columns are those of the message in the descriptor set, for any version of the file with which a body was written:
Protobuf needs no other schema to read it. The registry tells only whether it is that message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from pyspark.sql.types import StructType

from pyspark_ternmq.decoding.limits import BrokenBody, WrongSchema
from pyspark_ternmq.decoding.protobuf_body import protobuf_body
from pyspark_ternmq.decoding.protobuf_schema import ProtobufSchema, message_column_type
from pyspark_ternmq.decoding.schema_registry.by_id import ById
from pyspark_ternmq.decoding.schema_registry.framing import message_indexes, schema_id
from pyspark_ternmq.decoding.schema_registry.registry import RegistryAddress, RegistryClient


@dataclass(frozen=True, slots=True)
class RegisteredProtobuf:
    """Bodies that are messages of one name, in whichever version of its file."""

    schema: ProtobufSchema
    registry: RegistryAddress

    @property
    def name(self) -> str:
        return "protobuf"

    def column_type(self) -> StructType:
        return message_column_type(self.schema)

    def make_decoder(self) -> Callable[[bytes], Any]:
        return _protobuf_decoder(self.schema, self.registry)


@lru_cache(maxsize=16)
def _protobuf_decoder(schema: ProtobufSchema, registry: RegistryAddress) -> Callable[[bytes], Any]:
    client, decode = RegistryClient(registry), protobuf_body(schema)
    files = ById(lambda number: _parse_file(client.protobuf_file(number)))

    def decode_body(raw: bytes) -> Any:  # noqa: ANN401
        file = files.get(schema_id(raw))
        indexes, at = message_indexes(raw)
        if (found := _message_name(file, indexes)) != schema.message:
            raise BrokenBody(f"it is a {found}, not a {schema.message}")
        return decode(raw[at:])

    return decode_body


def _parse_file(content: bytes) -> FileDescriptorProto:
    try:
        return FileDescriptorProto.FromString(content)
    except DecodeError:
        raise WrongSchema("it is none of Protobuf") from None


def _message_name(file: FileDescriptorProto, indexes: tuple[int, ...]) -> str:
    names = [file.package] if file.package else []
    messages = list[DescriptorProto](file.message_type)
    for index in indexes:
        if not 0 <= index < len(messages):
            raise BrokenBody(f"its schema has no message {list(indexes)}")
        names.append(messages[index].name)
        messages = list(messages[index].nested_type)
    return ".".join(names)
