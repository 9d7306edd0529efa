"""From a column of bodies to a column of what they say, in Spark's Python workers, Arrow batch by Arrow batch.

Decoded     a struct of `value`, and of `problem`, which says why there is none. A body that is null has neither.
Memory      what bodies say is objects of Python for about 1 MiB of bodies at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_ternmq.decoding.limits import BrokenBody

if TYPE_CHECKING:
    from pyspark.sql import Column

SLICE_BYTES = 1024 * 1024
VALUE, PROBLEM = "value", "problem"
PROBLEM_CHARACTERS_MAX = 300
# Errors of pyarrow for values that don't fit: too large a number, digits that would be lost.
_UNFIT = (pa.ArrowException, ArithmeticError, TypeError, ValueError)


class BodyFormat(Protocol):
    """The format of bodies. It is sent to the workers, so it consists of plain values."""

    @property
    def name(self) -> str:
        """The name of the format in columns and reasons: `avro`, `protobuf`."""

    def column_type(self) -> StructType:
        """The type of what is decoded; WrongSchema if there is none."""

    def make_decoder(self) -> Callable[[bytes], Any]:
        """A function from a body to a dict, which raises BrokenBody. It is called with every batch."""


def decode_column(column: "Column", wanted: BodyFormat) -> "Column":
    """The column of `value` and `problem` of a column of bodies."""
    columns = wanted.column_type()
    both = StructType([StructField(VALUE, columns), StructField(PROBLEM, StringType())])
    value_type, both_type = to_arrow_type(columns, timezone="UTC"), to_arrow_type(both, timezone="UTC")

    def decode_bodies(bodies: pa.Array) -> pa.Array:
        values, problems = decoded_batch(bodies, wanted.make_decoder(), value_type)
        return pa.StructArray.from_arrays([values, problems], fields=list(both_type))

    return arrow_udf(decode_bodies, both)(column)  # type: ignore[call-overload, no-any-return]


def decoded_batch(bodies: pa.Array, decode: Callable[[bytes], Any], kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return the value of each body, and the problem of each that can't be decoded."""
    slices: list[pa.Array] = []
    problems: list[str | None] = []
    values: list[Any] = []
    waiting_bytes = 0
    for scalar in bodies:
        body = scalar.as_py()
        value, problem = None, None
        if body is not None:
            waiting_bytes += len(body)
            try:
                value = decode(body)
            except BrokenBody as broken:
                problem = str(broken)
        values.append(value)
        problems.append(problem)
        if waiting_bytes >= SLICE_BYTES:
            slices.append(_build_array(values, problems, kind))
            values, waiting_bytes = [], 0
    slices.append(_build_array(values, problems, kind))
    return pa.concat_arrays(slices), pa.array(problems, pa.string())


def _build_array(values: Sequence[Any], problems: list[str | None], kind: pa.DataType) -> pa.Array:
    """Return the values as an array of Arrow; values that don't fit are null, with the reason in the last of
    `problems`."""
    try:
        return pa.array(values, kind)
    except _UNFIT:
        pass
    first = len(problems) - len(values)
    rows = []
    for row, value in enumerate(values, start=first):
        try:
            rows.append(pa.array([value], kind))
        except _UNFIT as error:
            where = _find_unfit(value, kind, "") or f"a value does not fit: {error}"
            problems[row] = where[:PROBLEM_CHARACTERS_MAX]
            rows.append(pa.nulls(1, kind))
    return pa.concat_arrays(rows)


def _find_unfit(value: Any, kind: pa.DataType, path: str) -> str | None:  # noqa: ANN401 - whatever a body says
    """Return the path and value of the field that Arrow does not take."""
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        parts = [(value.get(one.name), one.type, f"{path}.{one.name}".lstrip(".")) for one in kind]
    elif pa.types.is_list(kind) and isinstance(value, list):
        parts = [(one, kind.value_type, f"{path}[{number}]") for number, one in enumerate(value)]
    elif pa.types.is_map(kind) and isinstance(value, Mapping):
        parts = [(one, kind.item_type, f"{path}.{name}") for name, one in value.items()]
    else:
        try:
            pa.array([value], kind)
        except _UNFIT as error:
            return f"field {path} has {type(value).__name__}, which does not fit {kind}: {error}"
        return None
    return next((text for part in parts if (text := _find_unfit(*part)) is not None), None)
