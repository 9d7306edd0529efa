"""Avro schemas as columns of Spark.

Kept        logical types that Spark has as well: decimal, date, timestamps. The others are removed, as the
            specification lets readers do: values come as the type below (a `uuid` as its text, `time-millis` as int).
Unions      of null and one other type are that type; null alone, and unions of several, are refused.
Refused     recursive types, empty records, and what is too deep or too wide.
Defaults    are turned from JSON into values here, as fastavro takes them as they stand.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from fastavro import parse_schema
from fastavro.schema import SchemaParseException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_ternmq.decoding.limits import SCHEMA_BYTES_MAX, SchemaNesting, WrongSchema

# As JSON has it, and as fastavro gives it back: a name, a union, or an object.
Avro: TypeAlias = Any
TIMESTAMPS = ("timestamp-millis", "timestamp-micros")
LOCAL_TIMESTAMPS = ("local-timestamp-millis", "local-timestamp-micros")
KEPT = ("decimal", "date", *TIMESTAMPS, *LOCAL_TIMESTAMPS)
DECIMAL_DIGITS_MAX = 38
_PRIMITIVES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "fixed": BinaryType(),
    "enum": StringType(),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema's JSON, and that of the schemas whose names it uses, each after those that it uses itself."""

    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A schema of fastavro's, and the types that have names."""

    root: Avro
    named: Mapping[str, Avro]

    def type_of(self, schema: Avro) -> Avro:
        """A type that is meant by its name, or the type itself."""
        return self.named.get(schema, schema) if isinstance(schema, str) else schema


def kind_of(schema: Avro) -> str:
    """`union`, or the name of its kind of type, such as `record`."""
    if isinstance(schema, list):
        return "union"
    return str(schema["type"] if isinstance(schema, dict) else schema)


def logical_of(schema: Avro) -> str | None:
    return schema.get("logicalType") if isinstance(schema, dict) else None


def parse_avro_schema(schema: AvroSchema) -> ParsedSchema:
    """WrongSchema for what is no schema of Avro."""
    named: dict[str, Avro] = {}
    root: Avro = None
    for text in (*schema.references, schema.text):
        root = _parse_schema(text, named)
    return ParsedSchema(root, named)


def _parse_schema(text: str, named: dict[str, Avro]) -> Avro:
    if len(text) > SCHEMA_BYTES_MAX:
        raise WrongSchema(f"the Avro schema has more than {SCHEMA_BYTES_MAX:,} characters")
    try:
        return parse_schema(_with_kept_types(json.loads(text)), named)
    except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WrongSchema(f"no Avro schema: {type(error).__name__}: {error}") from None
    except RecursionError:
        raise WrongSchema("the Avro schema is too deep") from None


def _with_kept_types(schema: Avro) -> Avro:
    """Return the schema without logical types whose values stay those of the type below."""
    if isinstance(schema, list):
        return [_with_kept_types(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: value for name, value in schema.items() if name != "logicalType" or value in KEPT}
    for name in ("type", "items", "values"):
        if name in found:
            found[name] = _with_kept_types(found[name])
    if isinstance(found.get("fields"), list):
        found["fields"] = [_with_kept_types(field) for field in found["fields"]]
    return found


def column_type(schema: ParsedSchema) -> StructType:
    """The type of a record's column; WrongSchema for what can't be one. Sets fastavro's defaults by the way."""
    found = _ColumnTypes(schema).column_of(schema.root, "the schema")
    if not isinstance(found, StructType):
        raise WrongSchema(f"the schema is {kind_of(schema.root)}, and a record is needed")
    return found


class _ColumnTypes:
    def __init__(self, schema: ParsedSchema) -> None:
        self._schema, self._nesting = schema, SchemaNesting()
        self._with_defaults = set[str]()

    def column_of(self, schema: Avro, path: str) -> DataType:
        schema = self._schema.type_of(not_null(schema, path))
        kind, logical = kind_of(schema), logical_of(schema)
        if kind == "record":
            return self._record_type(schema, path)
        if kind in ("array", "map"):
            self._nesting.enter_type("", path)
            inner = self.column_of(schema["items" if kind == "array" else "values"], f"{path}[]")
            self._nesting.leave_type()
            return ArrayType(inner) if kind == "array" else MapType(StringType(), inner)
        if logical == "decimal":
            precision, scale = schema["precision"], schema.get("scale", 0)
            if precision > DECIMAL_DIGITS_MAX:
                raise WrongSchema(f"{path}: Spark's decimals have {DECIMAL_DIGITS_MAX} digits, not {precision}")
            return DecimalType(precision, scale)
        if logical == "date":
            return DateType()
        if logical in TIMESTAMPS or logical in LOCAL_TIMESTAMPS:
            return TimestampType() if logical in TIMESTAMPS else TimestampNTZType()
        if kind not in _PRIMITIVES:
            raise WrongSchema(f"{path}: {kind} has no column type")
        return _PRIMITIVES[kind]

    def _record_type(self, schema: Avro, path: str) -> StructType:
        fields = schema["fields"]
        if not fields:
            raise WrongSchema(f"{path}: a record without fields can't be a column")
        self._nesting.enter_type(schema["name"], path, fields=len(fields))
        known = dict[str, str]()
        found = StructType()
        for field in fields:
            name = field["name"]
            inner = name if path == "the schema" else f"{path}.{name}"
            if (other := known.setdefault(name.lower(), name)) != name:
                raise WrongSchema(f"{inner}: to Spark it is the same name as {other}")
            found = found.add(StructField(name, self.column_of(field["type"], inner)))
            # A type that is used twice comes here twice.
            if "default" in field and schema["name"] not in self._with_defaults:
                field["default"] = self._default_value(field["type"], field["default"], inner)
        self._nesting.leave_type()
        self._with_defaults.add(schema["name"])
        return found

    def _default_value(self, schema: Avro, value: Any, path: str) -> Any:  # noqa: ANN401
        """A default as a decoder gives it; a union's may be of any of its types."""
        if isinstance(schema, list):
            if value is None and "null" in schema:
                return None
            schema = not_null(schema, path)
        try:
            return self._checked_value(self._schema.type_of(schema), value, path)
        except (ArithmeticError, AttributeError, InvalidOperation, KeyError, TypeError, ValueError) as error:
            if isinstance(error, WrongSchema):
                raise
            raise WrongSchema(f"{path}: {value!r} is no default for its type") from None

    def _checked_value(self, schema: Avro, value: Any, path: str) -> Any:  # noqa: ANN401 - one for each kind
        kind, logical = kind_of(schema), logical_of(schema)
        if kind == "record":
            return {
                field["name"]: self._default_value(field["type"], value[field["name"]], f"{path}.{field['name']}")
                if field["name"] in value
                else field["default"]
                for field in schema["fields"]
            }
        if kind == "array":
            return [self._default_value(schema["items"], item, path) for item in value]
        if kind == "map":
            return {name: self._default_value(schema["values"], item, path) for name, item in value.items()}
        if kind in ("bytes", "fixed"):
            raw = value.encode("latin-1")
            return raw if logical is None else _decimal_of_bytes(raw, schema.get("scale", 0))
        if kind == "enum" and value not in schema["symbols"]:
            raise ValueError(value)
        if type(value) not in _JSON_TYPES[kind]:
            raise TypeError(value)
        return value if logical is None else _time_of_value(logical, value)


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "enum": (str,),
}


def _time_of_value(logical: str, value: int) -> date:
    if logical == "date":
        return date(1970, 1, 1) + timedelta(days=value)
    moment = _EPOCH + timedelta(microseconds=value * (1000 if logical.endswith("millis") else 1))
    return moment if logical in TIMESTAMPS else moment.replace(tzinfo=None)


def _decimal_of_bytes(raw: bytes, scale: int) -> Decimal:
    sign, digits, _ = Decimal(int.from_bytes(raw, "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -scale))


def not_null(schema: Avro, path: str) -> Avro:
    """The other type of a union with null; WrongSchema for null alone, and for unions of several."""
    if not isinstance(schema, list):
        return schema
    others: Sequence[Avro] = [part for part in schema if kind_of(part) != "null"]
    if len(others) != 1:
        names = ", ".join(kind_of(part) for part in schema)
        raise WrongSchema(f"{path}: a union of {names} has no column type; only null and one other have")
    return others[0]
