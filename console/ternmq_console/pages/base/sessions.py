"""The sessions of signed-in users, in memory, identified by a cookie that scripts can't read.

A session keeps name and secret, with which each of its calls is made: a user who is disabled, or gets a new secret, is
signed out by the next request. Without access control a session has neither, and exists for its token only.

Limits      a session ends after half an hour without a request, or after eight hours; of more than 1,000, the one that
            was idle for longest is dropped.
Token       each form contains the session's token, so that no other page can send one (`Session.has_token`).
"""

import hmac
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_runtime.http.basic import HttpCaller

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_S, LONGEST_S = 1800.0, 8 * 3600.0
SESSIONS_MAX = 1000
COOKIE = "ternmq_session"
_BYTES = 32


@dataclass(slots=True)
class ConsoleSession:
    """One session; `name` is the access key, "" without access control."""

    name: str
    secret: str = field(repr=False)
    begun_s: float
    seen_s: float
    token: str = field(default_factory=lambda: secrets.token_urlsafe(_BYTES), repr=False)
    notice: str = ""
    """A text that the next page shows about the last action."""

    def build_caller(self, host: str) -> HttpCaller:
        """Return the caller of the session, at that address."""
        return HttpCaller(self.name, self.secret, host)

    def take_notice(self) -> str:
        notice, self.notice = self.notice, ""
        return notice

    def has_token(self, token: str) -> bool:
        """Return whether a form's token is that of this session."""
        return hmac.compare_digest(token.encode(), self.token.encode())


class SessionStore:
    """All sessions of one process; used in the thread that serves HTTP."""

    def __init__(self, now_s: "Callable[[], float]" = time.monotonic) -> None:
        self._now_s = now_s
        self._by_id: dict[str, ConsoleSession] = {}  # in the order of their last request

    def begin_session(self, name: str, secret: str) -> tuple[str, ConsoleSession]:
        """Create a session; return its id, for the cookie, and the session."""
        now_s = self._now_s()
        self._end_old(now_s)
        if len(self._by_id) >= SESSIONS_MAX:
            del self._by_id[next(iter(self._by_id))]
        session_id = secrets.token_urlsafe(_BYTES)
        session = self._by_id[session_id] = ConsoleSession(name, secret, now_s, now_s)
        return session_id, session

    def find_session(self, session_id: str, *, is_used: bool = True) -> ConsoleSession | None:
        """Return the session, None if it has ended; requests of a page's script do not prolong it (`is_used` False)."""
        now_s = self._now_s()
        session = self._by_id.get(session_id)
        if session is None:
            return None
        if self._is_over(session, now_s):
            del self._by_id[session_id]
            return None
        if is_used:
            session.seen_s = now_s
            self._by_id[session_id] = self._by_id.pop(session_id)
        return session

    def end_session(self, session_id: str) -> None:
        self._by_id.pop(session_id, None)

    def _end_old(self, now_s: float) -> None:
        for session_id in [each for each, session in self._by_id.items() if self._is_over(session, now_s)]:
            del self._by_id[session_id]

    @staticmethod
    def _is_over(session: ConsoleSession, now_s: float) -> bool:
        return now_s - session.seen_s > IDLE_S or now_s - session.begun_s > LONGEST_S
