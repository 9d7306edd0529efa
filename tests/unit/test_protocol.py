"""Our `.proto` files against the published protocol: they have each row of `tests/data/protocol.tsv`, and nothing else.

Rows    kind | file | owner | name | number | type | label | oneof. A `message` row stands for a message without fields.
        Of an rpc, `number` tells how it streams, `type` is the request and `label` the answer.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor

from ternmq_protos.v2 import admin_pb2, definition_pb2, service_pb2

CONTRACT = Path(__file__).parent.parent / "data" / "protocol.tsv"
PACKAGE = "apache.rocketmq.v2"
Row = tuple[str, ...]
SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
}


def in_the_contract() -> list[Row]:
    with CONTRACT.open(newline="") as file:
        rows = [tuple(row) for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    assert rows[0] == ("kind", "file", "owner", "name", "number", "type", "label", "oneof")
    return rows[1:]


def in_our_files() -> Iterator[Row]:
    for module in (definition_pb2, service_pb2, admin_pb2):
        yield from rows_of_file(module.DESCRIPTOR)


def rows_of_file(file: FileDescriptor) -> Iterator[Row]:
    name = file.name.rsplit("/", 1)[-1]
    assert file.package == PACKAGE
    for enum in file.enum_types_by_name.values():
        yield from rows_of_enum(name, enum)
    for message in file.message_types_by_name.values():
        yield from rows_of_message(name, message)
    for service in file.services_by_name.values():
        yield from rows_of_service(name, service)


def rows_of_enum(file: str, enum: EnumDescriptor) -> Iterator[Row]:
    for value in enum.values:
        yield "enum", file, short(enum.full_name), value.name, str(value.number), "-", "-", "-"


def rows_of_message(file: str, message: Descriptor) -> Iterator[Row]:
    owner = short(message.full_name)
    if not message.fields:
        yield "message", file, owner, "-", "-", "-", "-", "-"
    for field in message.fields:
        yield "field", file, owner, field.name, str(field.number), type_of(field), label_of(field), oneof_of(field)
    for enum in message.enum_types:
        yield from rows_of_enum(file, enum)
    for nested in message.nested_types:
        if not nested.GetOptions().map_entry:
            yield from rows_of_message(file, nested)


def rows_of_service(file: str, service: ServiceDescriptor) -> Iterator[Row]:
    for method in service.methods:
        kinds = ["stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming)]
        request, answer = short(method.input_type.full_name), short(method.output_type.full_name)
        yield "rpc", file, service.name, method.name, "-".join(kinds), request, answer, "-"


def type_of(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        if is_map(field):
            key, value = field.message_type.fields
            return f"map<{type_of(key)},{type_of(value)}>"
        return short(field.message_type.full_name)
    if field.enum_type is not None:
        return short(field.enum_type.full_name)
    return SCALARS[field.type]


def label_of(field: FieldDescriptor) -> str:
    if field.is_repeated and not is_map(field):
        return "repeated"
    return "optional" if is_marked_optional(field) else "-"


def oneof_of(field: FieldDescriptor) -> str:
    oneof = field.containing_oneof
    return "-" if oneof is None or is_marked_optional(field) else oneof.name


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_marked_optional(field: FieldDescriptor) -> bool:
    """protoc puts a field that is marked `optional` into a oneof of its own, with an underscore before its name."""
    return field.containing_oneof is not None and field.containing_oneof.name == f"_{field.name}"


def short(full_name: str) -> str:
    return full_name.removeprefix(f"{PACKAGE}.")


def test_every_row_of_the_contract_is_in_our_files() -> None:
    assert sorted(set(in_the_contract()) - set(in_our_files())) == []


def test_nothing_is_in_our_files_that_the_contract_does_not_have() -> None:
    assert sorted(set(in_our_files()) - set(in_the_contract())) == []


def test_no_row_comes_twice() -> None:
    contract, ours = in_the_contract(), list(in_our_files())
    assert len(contract) == len(set(contract)) == len(ours)
