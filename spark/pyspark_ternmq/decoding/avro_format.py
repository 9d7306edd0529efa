"""Avro as a format of bodies: plain, or framed for a schema registry."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.sql.types import StructType

from pyspark_ternmq.decoding.avro_body import avro_body
from pyspark_ternmq.decoding.avro_schema import AvroSchema, ParsedSchema, column_type, parse_avro_schema


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Bodies that were written with `schema`."""

    schema: AvroSchema

    @property
    def name(self) -> str:
        return "avro"

    def column_type(self) -> StructType:
        return column_type(parse_avro_schema(self.schema))

    def make_decoder(self) -> Callable[[bytes], Any]:
        return _plain_decoder(self.schema)


@lru_cache(maxsize=16)
def reader_of(schema: AvroSchema) -> ParsedSchema:
    """A reader's schema, ready to be resolved to; once for each worker."""
    found = parse_avro_schema(schema)
    column_type(found)
    return found


@lru_cache(maxsize=16)
def _plain_decoder(schema: AvroSchema) -> Callable[[bytes], Any]:
    reader = reader_of(schema)
    return avro_body(reader, reader)
