"""How many calls that may take long one user has under way."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

import pytest
from starlette.responses import PlainTextResponse

from ternmq_console.api.long_calls import LongCalls, TooManyLongCalls
from ternmq_runtime.http.basic import HttpCaller

if TYPE_CHECKING:
    from starlette.types import Message

    from ternmq_console.operator_calls import OperatorCalls


class Signing:
    """A desk at which `alice` is a user."""

    async def sign_in(self, asker: HttpCaller) -> None:
        assert asker.name == "alice"


def calls(*, is_guarded: bool) -> LongCalls:
    return LongCalls(cast("OperatorCalls", Signing()), is_guarded=is_guarded, limit=2)


def test_each_user_has_as_many_as_any_other() -> None:
    long_calls = calls(is_guarded=True)
    for _ in range(2):  # what has ended counts no more
        with ExitStack() as stack:
            for user in ("alice", "bob") * 2:
                stack.enter_context(long_calls.count_call(user))
            with pytest.raises(TooManyLongCalls, match="this user has 2 long calls"):
                stack.enter_context(long_calls.count_call("alice"))
    assert long_calls._under_way == {}


@pytest.mark.parametrize(("is_guarded", "user"), [(True, "alice"), (False, "10.0.0.1")])
async def test_a_user_is_who_signed_in_and_else_an_address(is_guarded: bool, user: str) -> None:
    assert await calls(is_guarded=is_guarded).find_user(HttpCaller("alice", "", "10.0.0.1")) == user


async def test_an_answer_counts_while_it_is_sent_and_is_refused_where_there_are_too_many() -> None:
    long_calls = calls(is_guarded=True)
    sent: list[Message] = []

    async def send(message: "Message") -> None:
        sent.append(message)
        assert long_calls._under_way["alice"] == 2

    async def receive() -> "Message":
        raise AssertionError("it has no body")

    answer = long_calls.counted_answer("alice", PlainTextResponse("said"))
    with long_calls.count_call("alice"):
        await answer({"type": "http"}, receive, send)
        with long_calls.count_call("alice"):
            await answer({"type": "http"}, receive, send)
    assert [each["status"] for each in sent if "status" in each] == [200, 429]
    assert long_calls._under_way == {}
