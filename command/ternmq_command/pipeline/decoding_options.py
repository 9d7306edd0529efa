"""What bodies are in, on the command line: schemas come from files."""

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.installing import install_hint

if TYPE_CHECKING:
    from pyspark_ternmq.decoding.columns import Format

F = TypeVar("F", bound=Callable[..., Any])
SCHEMA_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def decoding_options(command: F) -> F:
    """Gives the command `decoding`, a function that makes the format of bodies, or None where they stay bytes."""

    @functools.wraps(command)
    def decoding(
        *arguments: Any,  # noqa: ANN401
        avro_schema: Path | None,
        protobuf_descriptor: Path | None,
        protobuf_message: str | None,
        **others: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        def made() -> "Format | None":
            if avro_schema is not None and protobuf_descriptor is not None:
                raise WrongUsage("--avro-schema and --protobuf-descriptor exclude each other: bodies have one format")
            if (protobuf_descriptor is None) != (protobuf_message is None):
                raise WrongUsage("--protobuf-descriptor and --protobuf-message go together")
            if avro_schema is not None:
                return _avro(avro_schema)
            if protobuf_descriptor is not None and protobuf_message is not None:
                return _protobuf(protobuf_descriptor, protobuf_message)
            return None

        return command(*arguments, decoding=made, **others)

    decorated = cast("F", decoding)
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS: tuple[Callable[[F], F], ...] = (
    click.option(
        "--avro-schema",
        type=SCHEMA_FILE,
        metavar="FILE",
        help="Decode bodies as Avro of this schema (.avsc), without a header, into a column avro.",
    ),
    click.option(
        "--protobuf-descriptor",
        type=SCHEMA_FILE,
        metavar="FILE",
        help="Decode bodies as Protobuf into a column protobuf; FILE is of protoc --include_imports "
        "--descriptor_set_out=FILE.",
    ),
    click.option(
        "--protobuf-message", metavar="NAME", help="With --protobuf-descriptor, the message's name, as in shop.Order."
    ),
)


def _avro(file: Path) -> "Format":
    if importlib.util.find_spec("fastavro") is None:
        raise WrongUsage(f"fastavro is not installed: {install_hint('avro')}")
    from pyspark_ternmq.decoding.avro_format import AvroFormat
    from pyspark_ternmq.decoding.avro_schema import AvroSchema

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{file} can't be read: {error}") from None
    return _checked(AvroFormat(AvroSchema(text)), file)


def _protobuf(file: Path, message: str) -> "Format":
    from pyspark_ternmq.decoding.protobuf_body import ProtobufFormat
    from pyspark_ternmq.decoding.protobuf_schema import ProtobufSchema

    try:
        content = file.read_bytes()
    except OSError as error:
        raise WrongUsage(f"{file} can't be read: {error}") from None
    return _checked(ProtobufFormat(ProtobufSchema(content, message)), file)


def _checked(wanted: "Format", file: Path) -> "Format":
    """The format, before Java is started, unless its schema can't be columns."""
    try:
        wanted.columns()
    except ValueError as error:
        raise WrongUsage(f"{file}: {error}") from None
    return wanted
