"""Finds the changes of a table's schema for the rows of a run: new fields and wider types, at any depth. Pure.

Path        names from the column on, `json.items.element.price`: `element` of a list, `key` and `value` of a map
Added       a field that the table lacks, in any struct. It may be null, as it is in older rows
Absent      a field that the run lacks stays, and is null in its rows
Wider       a type of the run that holds all that the table's does; whether a table can change to it, its format says
Narrower    a type of the run that the table's holds: nothing has to change, where readers of the format widen it
Refused     any other type, with the first such field and both of its types
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import types
from pyspark.sql.pandas.types import from_arrow_type

ELEMENT, KEY, VALUE = "element", "key", "value"
# Whether a table's type can become a run's, or the other way round.
Widens = Callable[[pa.DataType, pa.DataType], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionRules:
    """The abilities of a format. `widens` says of two types whether the first can become the second."""

    widens: Widens
    adds_in_maps: bool
    no_widening: str
    """Why other types are refused, for the message."""


@dataclass(slots=True)
class SchemaEvolution:
    """The changes of a schema; `columns` are the top-level ones of it."""

    added: list[str] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)

    def columns(self) -> set[str]:
        return {path.partition(".")[0] for path in (*self.added, *self.widened)}

    def text(self) -> str:
        """`new json.price; wider json.id`, empty if nothing changes."""
        parts = [("new", self.added), ("wider", self.widened)]
        return "; ".join(f"{word} {', '.join(paths)}" for word, paths in parts if paths)


def plan_evolution(table: str, has: pa.Schema, wanted: pa.Schema, rules: EvolutionRules) -> SchemaEvolution:
    """The changes after which a table with the columns `has` takes rows with the columns `wanted`. ValueError if there
    are none."""
    found = SchemaEvolution()
    _SchemaComparison(table, rules, found).compare_structs("", list(has), list(wanted), in_map=False)
    return found


@dataclass(frozen=True, slots=True)
class _SchemaComparison:
    table: str
    rules: EvolutionRules
    found: SchemaEvolution

    def compare_structs(self, path: str, has: list[pa.Field], wanted: list[pa.Field], *, in_map: bool) -> None:
        known = {one.name: one for one in has}
        by_letters = {name.lower(): name for name in known}
        for one in wanted:
            where = f"{path}.{one.name}" if path else one.name
            if one.name in known:
                self.compare_types(where, known[one.name].type, one.type, in_map=in_map)
                continue
            other = by_letters.get(one.name.lower())
            if other is not None:
                self._refuse_change(where, f"differs from its field {other} only in small and capital letters")
            if in_map and not self.rules.adds_in_maps:
                self._refuse_change(where, f"is new in a struct of a map: {self.rules.no_widening}")
            self.found.added.append(where)

    def compare_types(self, path: str, has: pa.DataType, wanted: pa.DataType, *, in_map: bool) -> None:
        if types.is_struct(has) and types.is_struct(wanted):
            self.compare_structs(path, list(has), list(wanted), in_map=in_map)
        elif _is_list(has) and _is_list(wanted):
            self.compare_types(f"{path}.{ELEMENT}", has.value_type, wanted.value_type, in_map=in_map)
        elif types.is_map(has) and types.is_map(wanted):
            self.compare_types(f"{path}.{KEY}", has.key_type, wanted.key_type, in_map=True)
            self.compare_types(f"{path}.{VALUE}", has.item_type, wanted.item_type, in_map=True)
        elif not _is_same(has, wanted):
            self._compare_types(path, has, wanted)

    def _compare_types(self, path: str, has: pa.DataType, wanted: pa.DataType) -> None:
        if self.rules.widens(wanted, has):
            return
        # The key of a map is what finds a value, and stays what it is.
        if not self.rules.widens(has, wanted) or path.endswith(f".{KEY}"):
            self._refuse_change(
                path, f"is {type_text(has)}, and would be {type_text(wanted)}: {self.rules.no_widening}"
            )
        self.found.widened.append(path)

    def _refuse_change(self, path: str, what: str) -> None:
        raise ValueError(
            f"field {path} of table {self.table} {what}; write with the types it has, or into another folder"
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _is_same(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether tables have one type for both: how long a value may be is a matter of memory alone."""
    both = (one, other)
    return (
        one == other
        or all(types.is_string(kind) or types.is_large_string(kind) for kind in both)
        or all(types.is_binary(kind) or types.is_large_binary(kind) for kind in both)
    )


def type_text(kind: pa.DataType) -> str:
    """Return a type in Spark's DDL; without the parts of a nested type."""
    for is_kind, word in ((types.is_struct, "a struct"), (_is_list, "an array"), (types.is_map, "a map")):
        if is_kind(kind):
            return word
    return from_arrow_type(kind).simpleString()


def widens_in_iceberg(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Promotions of the format: int to long, float to double, and more digits before the point."""
    if types.is_decimal(narrow) and types.is_decimal(wide):
        return bool(narrow.scale == wide.scale and narrow.precision <= wide.precision)
    if types.is_signed_integer(narrow) and types.is_signed_integer(wide):
        # Iceberg has integers of 32 and of 64 bits, and Spark's smaller ones are of 32.
        return bool(max(narrow.bit_width, 32) <= max(wide.bit_width, 32))
    return bool(types.is_float32(narrow) and types.is_float64(wide))


ICEBERG = EvolutionRules(
    widens=widens_in_iceberg,
    adds_in_maps=True,
    no_widening="Iceberg widens int to bigint, float to double, and a decimal's precision, and nothing else",
)
DELTA = EvolutionRules(
    widens=lambda narrow, wide: False,
    adds_in_maps=False,
    no_widening="delta-rs can't read older files as that",
)


def make_nullable(schema: pa.Schema) -> pa.Schema:
    """A schema in which everything may be null but the keys of maps: rows of before a field came have none."""
    return pa.schema([_as_nullable(one) for one in schema])


def _as_nullable(one: pa.Field) -> pa.Field:
    return pa.field(one.name, _of_nullable(one.type), nullable=True, metadata=one.metadata)


def _of_nullable(kind: pa.DataType) -> pa.DataType:
    if types.is_struct(kind):
        return pa.struct([_as_nullable(one) for one in kind])
    if types.is_list(kind):
        return pa.list_(_as_nullable(kind.value_field))
    if types.is_map(kind):
        return pa.map_(kind.key_type, _as_nullable(kind.item_field))
    return kind
