"""A subject of a schema registry as a format of bodies, until its schema is looked up. Needs no library of formats."""

from dataclasses import dataclass

from pyspark_ternmq.decoding.schema_registry.registry import RegistryAddress


@dataclass(frozen=True, slots=True)
class AvroOfSubject:
    """Avro whose columns are those of the latest schema of a subject."""

    subject: str
    registry: RegistryAddress
