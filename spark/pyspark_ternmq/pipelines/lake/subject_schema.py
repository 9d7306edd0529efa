"""The schema of a subject that a lake has columns of: `_schemas/<subject>.json` in its folder.

It is what was the latest when the lake began with it. Later runs have the same columns, even if schemas were registered
since; without the file the next one fetches the latest again.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import quote

from pyspark_ternmq.decoding.schema_registry.registry import NoSuchSchema, RegistryClient
from pyspark_ternmq.decoding.schema_registry.subject import AvroOfSubject
from pyspark_ternmq.pipelines.lake.commits import LakeBroken

if TYPE_CHECKING:
    from pyspark_ternmq.decoding.avro_schema import AvroSchema
    from pyspark_ternmq.decoding.columns import BodyFormat
    from pyspark_ternmq.pipelines.files import FileSystem

FOLDER, VERSION = "_schemas", 1


def settle_format(files: "FileSystem", root: str, wanted: "BodyFormat | AvroOfSubject | None") -> "BodyFormat | None":
    """The format of bodies, with the schema that the lake has by now if it is a subject's.

    RegistryFailed; ValueError for a subject that is not there, or whose schema can't be columns.
    """
    if not isinstance(wanted, AvroOfSubject):
        return wanted
    # Brings fastavro, an extra.
    from pyspark_ternmq.decoding.schema_registry.registered_avro import RegisteredAvro, avro_schema

    path = f"{root}/{FOLDER}/{quote(wanted.subject, safe='')}.json"
    if not files.exists(path):
        try:
            latest = RegistryClient(wanted.registry).find_latest(wanted.subject)
        except NoSuchSchema:
            raise ValueError(f"the schema registry has no subject {wanted.subject}") from None
        schema = avro_schema(latest)
        RegisteredAvro(schema, wanted.registry).column_type()
        _keep_schema(files, path, {"version": VERSION, "subject": wanted.subject, "id": latest.id, **asdict(schema)})
    return RegisteredAvro(_parse_schema(files.read(path), path), wanted.registry)


def _keep_schema(files: "FileSystem", path: str, found: Mapping[str, object]) -> None:
    unpublished = f"{path}.{uuid.uuid4().hex}"
    files.create(unpublished, json.dumps(found))
    try:
        files.rename(unpublished, path)
    except OSError:
        if not files.exists(path):  # not another process's, which was faster
            raise
        files.delete(unpublished)


def _parse_schema(text: str, path: str) -> "AvroSchema":
    from pyspark_ternmq.decoding.avro_schema import AvroSchema

    try:
        found = json.loads(text)
        is_ours = found["version"] == VERSION
        schema = AvroSchema(str(found["text"]), tuple(map(str, found["references"])))
    except (ValueError, KeyError, TypeError) as error:
        raise LakeBroken(f"{path} is damaged: {error}") from None
    if not is_ours:
        raise LakeBroken(f"{path} is of a later program")
    return schema
