"""Bodies in Avro: read with the schema they were written with, and resolved to the reader's."""

import io
from collections.abc import Callable, Sequence
from typing import Any

from fastavro import schemaless_reader
from fastavro.read import SchemaResolutionError

from pyspark_ternmq.decoding.avro_check import checked_by
from pyspark_ternmq.decoding.avro_schema import (
    LOCAL_TIMESTAMPS,
    TIMESTAMPS,
    Avro,
    ParsedSchema,
    kind_of,
    logical_of,
)
from pyspark_ternmq.decoding.limits import BrokenBody, WrongSchema

_NUMBERS = {"int": "number", "long": "number"}
_BROKEN = (ArithmeticError, EOFError, IndexError, KeyError, SchemaResolutionError, TypeError, ValueError)


def avro_body(writer: ParsedSchema, reader: ParsedSchema) -> Callable[[bytes], Any]:
    """A function from a body to a record; BrokenBody if it is none. WrongSchema if the two schemas don't go together.

    `columns` was called for the reader's.
    """
    check = checked_by(writer)
    if writer is not reader:
        _LogicalTypes(writer, reader).check_types(writer.root, reader.root, "")
    root, wanted = writer.root, None if writer is reader else reader.root

    def decode_body(raw: bytes) -> Any:  # noqa: ANN401
        check(raw)
        try:
            return schemaless_reader(io.BytesIO(raw), root, wanted)
        except _BROKEN as error:
            # Its text may be a whole schema.
            raise BrokenBody(f"{type(error).__name__}: {str(error)[:200]}".rstrip(": ")) from None

    return decode_body


class _LogicalTypes:
    """fastavro gives what the writer's type says: a plain number would be taken for microseconds."""

    def __init__(self, writer: ParsedSchema, reader: ParsedSchema) -> None:
        self._writer, self._reader = writer, reader

    def check_types(self, one: Avro, other: Avro, path: str) -> None:
        """WrongSchema if a type of the writer and the reader's at its place are numbers of different meanings."""
        for part in _list_parts(self._writer.type_of(one)):
            for wanted in _list_parts(self._reader.type_of(other)):
                self._check_types(self._writer.type_of(part), self._reader.type_of(wanted), path)

    def _check_types(self, one: Avro, other: Avro, path: str) -> None:
        kind, wanted = (_NUMBERS.get(kind_of(schema), kind_of(schema)) for schema in (one, other))
        if kind != wanted:
            return
        if kind == "record":
            self._check_fields(one, other, path)
        elif kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            self.check_types(one[inner], other[inner], f"{path}[]")
        elif _type_family(one) != _type_family(other):
            raise WrongSchema(
                f"{path.removeprefix('.')} is {_describe_type(one)}, and the reader's is {_describe_type(other)}"
            )

    def _check_fields(self, one: Avro, other: Avro, path: str) -> None:
        theirs = {field["name"]: field["type"] for field in one["fields"]}
        for field in other["fields"]:
            for name in (field["name"], *field.get("aliases", ())):
                if name in theirs:
                    self.check_types(theirs[name], field["type"], f"{path}.{name}")


def _list_parts(schema: Avro) -> Sequence[Avro]:
    return schema if isinstance(schema, list) else [schema]


def _type_family(schema: Avro) -> str | None:
    logical = logical_of(schema)
    for family in (TIMESTAMPS, LOCAL_TIMESTAMPS):
        if logical in family:
            return family[0]
    return logical


def _describe_type(schema: Avro) -> str:
    return " of ".join(part for part in (logical_of(schema), kind_of(schema)) if part)
