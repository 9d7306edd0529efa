"""What is left for the end of a turn is done once, work before writes, whatever fails."""

import asyncio

from ternmq_common.event_loop.turn_end import turn_end


async def next_turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_writes_come_after_all_work_also_after_work_that_work_brings() -> None:
    order: list[str] = []
    end = turn_end()

    def more() -> None:
        order.append("work")
        end.add_write(lambda: order.append("write of work"))
        end.add_work(lambda: order.append("more work"))

    end.add_write(lambda: order.append("write"))
    end.add_work(more)
    assert order == []
    await next_turn()
    assert order == ["work", "more work", "write", "write of work"]


async def test_what_fails_is_told_and_holds_up_nothing() -> None:
    order: list[str] = []
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    end = turn_end()
    end.add_work(lambda: order.append(str(1 / 0)))
    end.add_work(lambda: order.append("work"))
    end.add_write(lambda: order.append("write"))
    await next_turn()
    assert order == ["work", "write"]
    assert [type(error) for error in told] == [ZeroDivisionError]


async def test_the_next_turn_has_an_end_too() -> None:
    order: list[int] = []
    for number in range(3):
        turn_end().add_work(lambda number=number: order.append(number))  # type: ignore[misc]
        await next_turn()
    assert order == [0, 1, 2]
