"""Who is signed in: sessions in memory, known by a cookie that no script can read.

A session keeps name and secret, with which each of its calls is made: a user who is disabled, or has another secret,
is signed out by his next click. Where nobody has to say who he is, a session has neither, and is there for its token
alone.

Limits      a session ends after half an hour without a request, or eight hours; there are 1,000, of which the one that
            was silent for longest makes room.
Token       each form has the session's own, so that no other page can have one sent (`Sessions.has_token`).
"""

import hmac
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_runtime.http.basic import Asker

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_S, LONGEST_S = 1800.0, 8 * 3600.0
SESSIONS_MAX = 1000
COOKIE = "ternmq_session"
_BYTES = 32


@dataclass(slots=True)
class Session:
    """`name` is the access key, "" where nobody has one."""

    name: str
    secret: str = field(repr=False)
    begun_s: float
    seen_s: float
    token: str = field(default_factory=lambda: secrets.token_urlsafe(_BYTES), repr=False)
    notice: str = ""
    """What the next page says of what was just done."""

    def asker(self, host: str) -> Asker:
        """Who asks, from that address."""
        return Asker(self.name, self.secret, host)

    def take_notice(self) -> str:
        notice, self.notice = self.notice, ""
        return notice

    def has_token(self, token: str) -> bool:
        """Whether a form is one of this session's."""
        return hmac.compare_digest(token.encode(), self.token.encode())


class Sessions:
    """All of one process; used in the thread that serves HTTP."""

    def __init__(self, now_s: "Callable[[], float]" = time.monotonic) -> None:
        self._now_s = now_s
        self._by_id: dict[str, Session] = {}  # in the order in which they were seen

    def begin(self, name: str, secret: str) -> tuple[str, Session]:
        """A new session and its id, for the cookie."""
        now_s = self._now_s()
        self._end_old(now_s)
        if len(self._by_id) >= SESSIONS_MAX:
            del self._by_id[next(iter(self._by_id))]
        session_id = secrets.token_urlsafe(_BYTES)
        session = self._by_id[session_id] = Session(name, secret, now_s, now_s)
        return session_id, session

    def find(self, session_id: str, *, is_used: bool = True) -> Session | None:
        """The session, if it has not ended. What a page asks by itself does not keep it: `is_used` False."""
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

    def end(self, session_id: str) -> None:
        self._by_id.pop(session_id, None)

    def _end_old(self, now_s: float) -> None:
        for session_id in [each for each, session in self._by_id.items() if self._is_over(session, now_s)]:
            del self._by_id[session_id]

    @staticmethod
    def _is_over(session: Session, now_s: float) -> bool:
        return now_s - session.seen_s > IDLE_S or now_s - session.begun_s > LONGEST_S
