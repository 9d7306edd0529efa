"""Protects fastavro, which is written in C and checks little, from hostile bodies: a list that says that
it has 2^60 items of null, a symbol of the number -1, a number of 20 bytes.

A check is derived from the schema of a body. It scans a body without creating objects, and ends
at the body's end; what passes it can be read, and has a number of values that is limited.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pyspark_ternmq.decoding.avro_schema import Avro, ParsedSchema, kind_of, logical_of
from pyspark_ternmq.decoding.limits import BrokenBody, SchemaNesting, ValueBudget
from pyspark_ternmq.decoding.varints import read_long

# Takes a body, where a value begins in it, and what is left; gives where the value ends.
Check: TypeAlias = Callable[[bytes, int, ValueBudget], int]
INT_MAX = 2**31 - 1


def checked_by(schema: ParsedSchema) -> Callable[[bytes], None]:
    """A function that raises BrokenBody for a body that is no value of this schema; WrongSchema if it is recursive."""
    check = _CheckBuilder(schema).build_check(schema.root, "the schema")[0]

    def run(body: bytes) -> None:
        try:
            end = check(body, 0, ValueBudget())
        except IndexError:
            raise BrokenBody("it ends too early") from None
        if end != len(body):
            raise BrokenBody(f"{len(body) - end} bytes follow")

    return run


class _CheckBuilder:
    """Makes checks of types. Beside each is how many values one of its type is, items of its lists not counted."""

    def __init__(self, schema: ParsedSchema) -> None:
        self._schema, self._nesting = schema, SchemaNesting()

    def build_check(self, schema: Avro, path: str) -> tuple[Check, int]:
        schema = self._schema.type_of(schema)
        kind = kind_of(schema)
        if kind in ("record", "error"):
            return self._check_record(schema, path)
        if kind == "union":
            self._nesting.enter_type("", path, fields=len(schema))
            branches = [self.build_check(part, path) for part in schema]
            self._nesting.leave_type()
            return _check_union([check for check, _ in branches]), max((values for _, values in branches), default=1)
        if kind in ("array", "map"):
            self._nesting.enter_type("", path)
            item, values = self.build_check(schema["items" if kind == "array" else "values"], f"{path}[]")
            self._nesting.leave_type()
            return _check_blocks(item, values, has_keys=kind == "map"), 1
        if kind == "enum":
            return _check_symbol(len(schema["symbols"])), 1
        if kind == "fixed":
            size = schema["size"]
            return (_check_fixed(size) if logical_of(schema) is None else _fixed_decimal(size, schema["precision"])), 1
        if kind == "bytes" and logical_of(schema) == "decimal":
            return _check_decimal(schema["precision"]), 1
        return _PRIMITIVES[kind], 1

    def _check_record(self, schema: Avro, path: str) -> tuple[Check, int]:
        self._nesting.enter_type(schema["name"], path, fields=len(schema["fields"]))
        found = [self.build_check(field["type"], f"{path}.{field['name']}") for field in schema["fields"]]
        self._nesting.leave_type()
        checks = [check for check, _ in found]

        def check_record(body: bytes, at: int, budget: ValueBudget) -> int:
            for check in checks:
                at = check(body, at, budget)
            return at

        return check_record, 1 + sum(values for _, values in found)


def _check_blocks(item: Check, values: int, *, has_keys: bool) -> Check:
    """Lists and maps: blocks of items, the last of which has none."""

    def check_blocks(body: bytes, at: int, budget: ValueBudget) -> int:
        while True:
            count, at = read_long(body, at)
            if count == 0:
                return at
            if count < 0:
                count = -count
                size, at = read_long(body, at)
                if not 0 <= size <= len(body) - at:
                    raise BrokenBody("a block is longer than the body")
            # Before the items are gone over: those without bytes, as of null, may be any number.
            budget.spend_values(count * values)
            for _ in range(count):
                if has_keys:
                    at = _check_bytes(body, at, budget)
                at = item(body, at, budget)

    return check_blocks


def _check_union(checks: Sequence[Check]) -> Check:
    def check_union(body: bytes, at: int, budget: ValueBudget) -> int:
        number, at = read_long(body, at)
        if not 0 <= number < len(checks):
            raise BrokenBody(f"a union has no type {number}")
        return checks[number](body, at, budget)

    return check_union


def _check_symbol(symbols: int) -> Check:
    def check_enum(body: bytes, at: int, budget: ValueBudget) -> int:
        del budget
        number, at = read_long(body, at)
        if not 0 <= number < symbols:
            raise BrokenBody(f"an enum has no symbol {number}")
        return at

    return check_enum


def _check_fixed(size: int) -> Check:
    def check_fixed(body: bytes, at: int, budget: ValueBudget) -> int:
        del budget
        if at + size > len(body):
            raise BrokenBody("it ends too early")
        return at + size

    return check_fixed


def _check_digits(raw: bytes, limit: int) -> None:
    # fastavro would round it.
    if abs(int.from_bytes(raw, "big", signed=True)) >= limit:
        raise BrokenBody("a decimal has more digits than its type")


def _fixed_decimal(size: int, precision: int) -> Check:
    check, limit = _check_fixed(size), 10**precision

    def fixed_decimal(body: bytes, at: int, budget: ValueBudget) -> int:
        end = check(body, at, budget)
        _check_digits(body[at:end], limit)
        return end

    return fixed_decimal


def _check_decimal(precision: int) -> Check:
    limit = 10**precision

    def check_decimal(body: bytes, at: int, budget: ValueBudget) -> int:
        end = _check_bytes(body, at, budget)
        _check_digits(body[read_long(body, at)[1] : end], limit)
        return end

    return check_decimal


def _check_null(body: bytes, at: int, budget: ValueBudget) -> int:
    del body, budget
    return at


def _check_boolean(body: bytes, at: int, budget: ValueBudget) -> int:
    del budget
    if body[at] > 1:
        raise BrokenBody(f"a boolean is {body[at]}")
    return at + 1


def _check_int(body: bytes, at: int, budget: ValueBudget) -> int:
    del budget
    number, at = read_long(body, at)
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise BrokenBody("an int has more than 32 bits")
    return at


def _check_long(body: bytes, at: int, budget: ValueBudget) -> int:
    del budget
    return read_long(body, at)[1]


def _check_bytes(body: bytes, at: int, budget: ValueBudget) -> int:
    del budget
    size, at = read_long(body, at)
    if not 0 <= size <= len(body) - at:
        raise BrokenBody("a text is longer than the body")
    return at + size


_PRIMITIVES: dict[str, Check] = {
    "null": _check_null,
    "boolean": _check_boolean,
    "int": _check_int,
    "long": _check_long,
    "float": _check_fixed(4),
    "double": _check_fixed(8),
    "bytes": _check_bytes,
    "string": _check_bytes,
}
