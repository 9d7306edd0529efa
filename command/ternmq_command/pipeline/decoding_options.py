"""The options for the format of message bodies; schemas come from files or from a schema registry."""

import functools
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ternmq_command.pipeline.registry_options import PASSWORD_VARIABLE, USER_VARIABLE, build_registry
from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.installing import install_hint

if TYPE_CHECKING:
    from pyspark_ternmq.decoding.columns import BodyFormat
    from pyspark_ternmq.decoding.schema_registry.registry import RegistryAddress
    from pyspark_ternmq.decoding.schema_registry.subject import AvroOfSubject

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingValues:
    """The values of the options."""

    avro_schema: Path | None
    protobuf_descriptor: Path | None
    protobuf_message: str | None
    schema_registry: str | None
    schema_registry_subject: str | None
    schema_registry_ca: Path | None
    schema_registry_credentials_file: Path | None


OPTIONS: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "avro_schema": click.option(
        "--avro-schema",
        type=FILE,
        metavar="FILE",
        help="Decode bodies as Avro with this schema (.avsc), without a header, into a column avro.",
    ),
    "protobuf_descriptor": click.option(
        "--protobuf-descriptor",
        type=FILE,
        metavar="FILE",
        help="Decode bodies as Protobuf into a column protobuf; FILE is of protoc --include_imports "
        "--descriptor_set_out=FILE.",
    ),
    "protobuf_message": click.option(
        "--protobuf-message", metavar="NAME", help="With --protobuf-descriptor, the message's name, as in shop.Order."
    ),
    "schema_registry": click.option(
        "--schema-registry",
        metavar="URL",
        help="Bodies begin with the id of a schema of this registry, as Confluent's serializers write them; the schema "
        f"of the options above is that of the columns. Its keys: ${USER_VARIABLE} and ${PASSWORD_VARIABLE}.",
    ),
    "schema_registry_subject": click.option(
        "--schema-registry-subject",
        metavar="SUBJECT",
        help="Avro: the columns are those of the latest schema of this subject, as it is at the first run.",
    ),
    "schema_registry_ca": click.option(
        "--schema-registry-ca", type=FILE, metavar="FILE", help="PEM file of the authorities to trust; the system's."
    ),
    "schema_registry_credentials_file": click.option(
        "--schema-registry-credentials-file",
        type=FILE,
        metavar="FILE",
        help="TOML file with user and password of the registry, instead of the variables.",
    ),
}


def decoding_options(command: F) -> F:
    """Add the options; the command gets `with_decoding`, a function that returns the format, None for plain bytes."""

    @functools.wraps(command)
    def with_decoding(*arguments: Any, **others: Any) -> Any:  # noqa: ANN401
        values = DecodingValues(**{name: others.pop(name) for name in OPTIONS})
        return command(*arguments, decoding=lambda: _build_format(values), **others)

    decorated: Callable[..., Any] = with_decoding
    for option in reversed(list(OPTIONS.values())):
        decorated = option(decorated)
    return cast("F", decorated)


def _build_format(values: DecodingValues) -> "BodyFormat | AvroOfSubject | None":
    """Return the format of bodies; raises WrongUsage, before Java is started, for a schema that can't be columns."""
    _check_options(values)
    registry = None
    if values.schema_registry is not None:
        registry = build_registry(
            values.schema_registry, values.schema_registry_ca, values.schema_registry_credentials_file
        )
    if values.avro_schema is not None:
        return _avro_format(values.avro_schema, registry)
    if values.schema_registry_subject is not None and registry is not None:
        _check_fastavro()
        from pyspark_ternmq.decoding.schema_registry.subject import AvroOfSubject

        return AvroOfSubject(values.schema_registry_subject, registry)
    if values.protobuf_descriptor is not None and values.protobuf_message is not None:
        return _protobuf_format(values.protobuf_descriptor, values.protobuf_message, registry)
    return None


def _check_options(values: DecodingValues) -> None:
    if (values.protobuf_descriptor is None) != (values.protobuf_message is None):
        raise WrongUsage("--protobuf-descriptor and --protobuf-message go together")
    formats = (values.avro_schema, values.protobuf_descriptor, values.schema_registry_subject)
    given = len(formats) - formats.count(None)
    if given > 1:
        raise WrongUsage(
            "--avro-schema, --protobuf-descriptor and --schema-registry-subject exclude each other: each sets what the "
            "columns are"
        )
    if values.schema_registry is not None and not given:
        raise WrongUsage(
            "--schema-registry needs to know the columns: --schema-registry-subject, --avro-schema or "
            "--protobuf-descriptor"
        )
    of_registry = (values.schema_registry_subject, values.schema_registry_ca, values.schema_registry_credentials_file)
    if values.schema_registry is None and of_registry.count(None) < len(of_registry):
        raise WrongUsage("--schema-registry-subject, -ca and -credentials-file go with --schema-registry")


def _check_fastavro() -> None:
    if importlib.util.find_spec("fastavro") is None:
        raise WrongUsage(f"fastavro is not installed: {install_hint('avro')}")


def _avro_format(file: Path, registry: "RegistryAddress | None") -> "BodyFormat":
    _check_fastavro()
    from pyspark_ternmq.decoding.avro_format import AvroFormat
    from pyspark_ternmq.decoding.avro_schema import AvroSchema
    from pyspark_ternmq.decoding.schema_registry.registered_avro import RegisteredAvro

    try:
        schema = AvroSchema(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{file} can't be read: {error}") from None
    return _check_columns(AvroFormat(schema) if registry is None else RegisteredAvro(schema, registry), file)


def _protobuf_format(file: Path, message: str, registry: "RegistryAddress | None") -> "BodyFormat":
    from pyspark_ternmq.decoding.protobuf_body import ProtobufFormat
    from pyspark_ternmq.decoding.protobuf_schema import ProtobufSchema
    from pyspark_ternmq.decoding.schema_registry.registered_protobuf import RegisteredProtobuf

    try:
        schema = ProtobufSchema(file.read_bytes(), message)
    except OSError as error:
        raise WrongUsage(f"{file} can't be read: {error}") from None
    return _check_columns(ProtobufFormat(schema) if registry is None else RegisteredProtobuf(schema, registry), file)


def _check_columns(wanted: "BodyFormat", file: Path) -> "BodyFormat":
    try:
        wanted.column_type()
    except ValueError as error:
        raise WrongUsage(f"{file}: {error}") from None
    return wanted
