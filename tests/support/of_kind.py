"""Values of what is annotated, for what must travel whatever it is."""

import enum
from collections.abc import Sequence
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from msgspec import Meta, Struct

from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.filters.sql_filter import SqlFilter
from ternmq_common.filters.tag_filter import TagFilter

FEW = 3
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN: dict[object, st.SearchStrategy[Any]] = {
    None: st.none(),
    NoneType: st.none(),
    bool: st.booleans(),
    int: INT64,
    float: st.floats(allow_nan=False),
    str: TEXT,
    bytes: st.binary(max_size=20),
    range: st.integers(0, 2**32 - 1).map(range),
    MessageFilter: st.sampled_from(
        [TagFilter.parse_expression("*"), TagFilter.parse_expression("a || b"), SqlFilter.parse_expression("a > 5")]
    ),
}


def of_kind(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401
    origin, inner = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is Annotated:
        return _within(*inner)
    if origin in (Union, UnionType):
        return st.one_of(*map(of_kind, inner))
    if origin in (list, Sequence):
        return st.lists(of_kind(inner[0]), max_size=FEW)
    if origin is dict:
        return st.dictionaries(of_kind(inner[0]), of_kind(inner[1]), max_size=FEW)
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return st.lists(of_kind(inner[0]), max_size=FEW).map(tuple)
        return st.tuples(*map(of_kind, inner))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    assert is_dataclass(kind) or issubclass(kind, Struct | tuple), kind
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: of_kind(hints[name]) for name in kind.__annotations__})


def _within(kind: type, limits: Meta) -> st.SearchStrategy[Any]:
    if kind is float:
        return st.floats(limits.ge, limits.le)
    assert isinstance(limits.ge, int)
    assert isinstance(limits.le, int)
    return st.integers(limits.ge, limits.le)
