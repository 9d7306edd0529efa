"""Texts of properties as numbers, the way Java reads them (`consuming.md, SQL92 values`), and their order.

int32, int64   an optional sign, then ASCII digits, leading zeros allowed, nothing else, not even white space; in range.
double         around it characters up to U+0020 don't count. An optional sign, then `1`, `1.`, `1.5` or `.5` with an
               optional exponent and an optional suffix d, D, f or F (that changes nothing), or `NaN`, or `Infinity`.
               Too large is infinite, too small is zero. Java's hexadecimal form (`0x1p3`) is refused: no one writes it.
order          Java's `Double.compare`: NaN equals itself and is above Infinity, -0.0 is below 0.0.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

INT32_LIMIT = 1 << 31
INT64_LIMIT = 1 << 63
_DIGITS_KEPT = 20  # a number with as many digits is above the range
_BLANKS = "".join(map(chr, range(0x21)))
# No part can match the same digits as its neighbour: a long text must fail in linear time.
_DOUBLE = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?|([+-]?(?:NaN|Infinity))")

Sortable = tuple[bool, float, float]


class EvaluationError(Exception):
    """The expression can't be evaluated for this message: it does not match, and nothing is reported."""


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A numeric literal: `read` converts the text of a property to what `key` is compared with."""

    value: int | float
    key: int | Sortable
    read: Callable[[str], int | Sortable]


def integer_literal(value: int, *, is_long: bool) -> NumberLiteral:
    """An integer literal; `is_long` says that texts are read as 64 bits for it."""
    return NumberLiteral(value, value, parse_int64 if is_long else parse_int32)


def fraction_literal(value: float) -> NumberLiteral:
    return NumberLiteral(value, sort_key(value), parse_double)


def negate_number(number: NumberLiteral) -> NumberLiteral:
    """The number with its sign changed; texts are read for it as before."""
    key = sort_key(-number.value) if isinstance(number.value, float) else -number.value
    return NumberLiteral(-number.value, key, number.read)


def to_same_type(left: NumberLiteral, right: NumberLiteral) -> tuple[int | float, int | float]:
    """Two literals as numbers of one type: both double if one of them is."""
    if isinstance(left.value, float) or isinstance(right.value, float):
        return float(left.value), float(right.value)
    return left.value, right.value


def parse_int32(text: str) -> int:
    return _parse_integer(text, INT32_LIMIT)


def parse_int64(text: str) -> int:
    return _parse_integer(text, INT64_LIMIT)


def _parse_integer(text: str, limit: int) -> int:
    digits = text[1:] if text.startswith(("+", "-")) else text
    if not (digits.isascii() and digits.isdigit()):
        raise EvaluationError(text)
    size = int(digits.lstrip("0")[:_DIGITS_KEPT] or "0")
    value = -size if text[0] == "-" else size
    if not -limit <= value < limit:
        raise EvaluationError(text)
    return value


def parse_double(text: str) -> Sortable:
    match = _DOUBLE.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise EvaluationError(text)
    return sort_key(float(match[1] or match[2]))


def sort_key(value: float) -> Sortable:
    """Return a key whose order is that of Java's `Double.compare`."""
    return (True, 0.0, 1.0) if math.isnan(value) else (False, value, math.copysign(1.0, value))
