"""How many calls that may take long one user has under way: waits for messages, and answers of any length.

Each holds a connection, of which there are few, so that nobody may have them all. Users count by their names once they
are signed in; where nobody has to sign in, by their addresses, since a name could be invented for each call.
"""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.responses import Response

from ternmq_console.api.answers import problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

    from ternmq_console.desk import Desk
    from ternmq_runtime.http.basic import Asker

LONG_CALLS_MAX = 12


class TooManyLongCalls(Exception):
    """The user has as many of them under way as anybody may have."""


class LongCalls:
    """Those of each user that are under way, at most `limit`."""

    def __init__(self, desk: "Desk", *, is_guarded: bool, limit: int = LONG_CALLS_MAX) -> None:
        """`is_guarded`: users have to sign in."""
        self._desk = desk
        self._is_guarded = is_guarded
        self._limit = limit
        self._under_way: dict[str, int] = {}

    async def find_user(self, asker: "Asker") -> str:
        """In whose name the call counts. NotSignedIn, DeskBusy."""
        if not self._is_guarded:
            return asker.host
        await self._desk.sign_in(asker)
        return asker.name

    @contextmanager
    def counted(self, user: str) -> "Iterator[None]":
        """One more of that user is under way. TooManyLongCalls."""
        count = self._under_way.get(user, 0)
        if count >= self._limit:
            raise TooManyLongCalls(
                f"{count} calls of this user that may take long are under way, and nobody may have more: end one, or "
                "wait until one is answered"
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

    def answer_of(self, user: str, response: Response) -> Response:
        """The same answer, which counts while it is sent."""
        return _CountedAnswer(self, user, response)


class _CountedAnswer(Response):
    """An answer of any length, which is refused with 429 where its user has too many."""

    def __init__(self, calls: LongCalls, user: str, response: Response) -> None:
        super().__init__()
        self._calls = calls
        self._user = user
        self._response = response

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        try:
            with self._calls.counted(self._user):
                await self._response(scope, receive, send)
        except TooManyLongCalls as error:
            await refusal_of(error)(scope, receive, send)


def refusal_of(error: TooManyLongCalls) -> Response:
    """What a caller of the JSON API gets."""
    return problem(429, "TOO_MANY_REQUESTS", str(error), {"retry-after": "1"})
