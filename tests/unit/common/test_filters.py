"""Filters are compiled once, and those used last are remembered."""

import pytest

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.filter_cache import FilterCache
from ternmq_common.filters.message_filter import FilterText
from ternmq_common.filters.tag_filter import ALL


def sql(text: str) -> FilterText:
    return FilterText(text, is_sql=True)


async def test_a_condition_is_compiled_once() -> None:
    filters = FilterCache()
    assert await filters.find_filter(sql("a = 1")) is await filters.find_filter(sql("a = 1"))


async def test_the_conditions_used_last_are_remembered() -> None:
    filters = FilterCache(characters_max=2 * len("a = 1"))
    first, second = await filters.find_filter(sql("a = 1")), await filters.find_filter(sql("a = 2"))
    assert await filters.find_filter(sql("a = 1")) is first
    await filters.find_filter(sql("a = 3"))
    assert await filters.find_filter(sql("a = 1")) is first
    assert await filters.find_filter(sql("a = 2")) is not second
    assert filters._characters <= 2 * len("a = 1")


async def test_what_is_no_condition_is_refused_each_time() -> None:
    filters = FilterCache()
    for _ in range(2):
        with pytest.raises(MessagingError) as refused:
            await filters.find_filter(sql("a ="))
        assert refused.value.code == ErrorCode.ILLEGAL_FILTER_EXPRESSION


async def test_every_other_text_is_a_tag_expression() -> None:
    assert await FilterCache().find_filter(FilterText("*")) is ALL
