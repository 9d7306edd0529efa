"""Limits the number of long calls of each user: long polls, and answers of any length.

Each holds one of few connections, and no user may have them all. Users are counted by name once they are signed in;
without access control by address, since a name could be invented for each call.
"""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.responses import Response

from ternmq_console.api.answers import problem_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

    from ternmq_console.operator_calls import OperatorCalls
    from ternmq_runtime.http.basic import HttpCaller

LONG_CALLS_MAX = 12


class TooManyLongCalls(Exception):
    """The user has as many long calls in progress as allowed."""


class LongCalls:
    """Counts the long calls of each user that are in progress, at most `limit`."""

    def __init__(self, desk: "OperatorCalls", *, is_guarded: bool, limit: int = LONG_CALLS_MAX) -> None:
        """`is_guarded` is true with access control."""
        self._desk = desk
        self._is_guarded = is_guarded
        self._limit = limit
        self._under_way: dict[str, int] = {}

    async def find_user(self, asker: "HttpCaller") -> str:
        """Return the name under which the call is counted; raises NotSignedIn and DeskBusy."""
        if not self._is_guarded:
            return asker.host
        await self._desk.sign_in(asker)
        return asker.name

    @contextmanager
    def count_call(self, user: str) -> "Iterator[None]":
        """Count a call of the user during the block; raises TooManyLongCalls."""
        count = self._under_way.get(user, 0)
        if count >= self._limit:
            raise TooManyLongCalls(
                f"this user has {count} long calls in progress, which is the limit: end one, or wait until one is "
                "answered"
            )
        self._under_way[user] = count + 1
        try:
            yield
        finally:
            left = self._under_way[user] - 1
            if left:
                self._under_way[user] = left
            else:
                del self._under_way[user]

    def counted_answer(self, user: str, response: Response) -> Response:
        """Return the same answer, counted as a long call while it is sent."""
        return _CountedAnswer(self, user, response)


class _CountedAnswer(Response):
    """An answer of any length, replaced by 429 if its user has too many long calls."""

    def __init__(self, calls: LongCalls, user: str, response: Response) -> None:
        super().__init__()
        self._calls = calls
        self._user = user
        self._response = response

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        try:
            with self._calls.count_call(self._user):
                await self._response(scope, receive, send)
        except TooManyLongCalls as error:
            await too_many_response(error)(scope, receive, send)


def too_many_response(error: TooManyLongCalls) -> Response:
    """Return the answer of the JSON API for it."""
    return problem_response(429, "TOO_MANY_REQUESTS", str(error), {"retry-after": "1"})
