"""Filters are compiled once, and those used last are remembered."""

import pytest

from ternmq_common.errors import MessagingError
from ternmq_common.filters import Filters
from ternmq_common.tag_filter import ALL
from ternmq_protos.v2 import definition_pb2 as pb


def sql(text: str) -> pb.FilterExpression:
    return pb.FilterExpression(type=pb.SQL, expression=text)


async def test_a_condition_is_compiled_once() -> None:
    filters = Filters()
    assert await filters.of(sql("a = 1")) is await filters.of(sql("a = 1"))


async def test_the_conditions_used_last_are_remembered() -> None:
    filters = Filters(characters_max=2 * len("a = 1"))
    first, second = await filters.of(sql("a = 1")), await filters.of(sql("a = 2"))
    assert await filters.of(sql("a = 1")) is first
    await filters.of(sql("a = 3"))
    assert await filters.of(sql("a = 1")) is first
    assert await filters.of(sql("a = 2")) is not second
    assert filters._characters <= 2 * len("a = 1")


async def test_what_is_no_condition_is_refused_each_time() -> None:
    filters = Filters()
    for _ in range(2):
        with pytest.raises(MessagingError) as refused:
            await filters.of(sql("a ="))
        assert refused.value.code == pb.ILLEGAL_FILTER_EXPRESSION


@pytest.mark.parametrize("kind", [pb.TAG, pb.FILTER_TYPE_UNSPECIFIED])
async def test_every_other_type_is_a_tag_expression(kind: "pb.FilterType") -> None:
    assert await Filters().of(pb.FilterExpression(type=kind, expression="*")) is ALL
