"""Avro whose bodies say by an id which schema of a registry they were written with: resolved to the reader's."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.sql.types import StructType

from pyspark_ternmq.decoding.avro_body import avro_body
from pyspark_ternmq.decoding.avro_format import reader_of
from pyspark_ternmq.decoding.avro_schema import AvroSchema, column_type, parse_avro_schema
from pyspark_ternmq.decoding.limits import WrongSchema
from pyspark_ternmq.decoding.schema_registry.by_id import ById
from pyspark_ternmq.decoding.schema_registry.framing import HEADER_BYTES, schema_id
from pyspark_ternmq.decoding.schema_registry.registry import AVRO, RegisteredSchema, RegistryAddress, RegistryClient


@dataclass(frozen=True, slots=True)
class RegisteredAvro:
    """Bodies in Avro of schemas in a registry, whose columns are those of `schema`."""

    schema: AvroSchema
    registry: RegistryAddress

    @property
    def name(self) -> str:
        return "avro"

    def column_type(self) -> StructType:
        return column_type(parse_avro_schema(self.schema))

    def make_decoder(self) -> Callable[[bytes], Any]:
        return _create_decoder(self.schema, self.registry)


@lru_cache(maxsize=16)
def _create_decoder(schema: AvroSchema, registry: RegistryAddress) -> Callable[[bytes], Any]:
    client, reader = RegistryClient(registry), reader_of(schema)

    def decoder_of(number: int) -> Callable[[bytes], Any]:
        writer = avro_schema(client.schema(number))
        return avro_body(reader if writer == schema else parse_avro_schema(writer), reader)

    decoders = ById(decoder_of)
    return lambda raw: decoders.get(schema_id(raw))(raw[HEADER_BYTES:])


def avro_schema(found: RegisteredSchema) -> AvroSchema:
    """WrongSchema if it is none of Avro."""
    if found.kind != AVRO:
        raise WrongSchema(f"it is of {found.kind}, not of {AVRO}")
    return AvroSchema(found.text, found.references)
