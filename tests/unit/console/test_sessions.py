"""Sessions: when they end, how many there are, and whose forms are whose."""

import pytest

from ternmq_console.pages.base.sessions import IDLE_S, LONGEST_S, SESSIONS_MAX, SessionStore
from tests.support.hand_clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def sessions(clock: Clock) -> SessionStore:
    return SessionStore(clock)


def test_a_session_is_known_by_an_id_that_nobody_can_guess(sessions: SessionStore) -> None:
    first, session = sessions.begin_session("root", "secret")
    second, _ = sessions.begin_session("root", "secret")
    assert sessions.find_session(first) is session
    assert len({first, second}) == 2
    assert len(first) >= 43
    assert sessions.find_session(first[:-1]) is None
    assert sessions.find_session("") is None


def test_a_session_ends_when_it_is_left(sessions: SessionStore, clock: Clock) -> None:
    session_id, _ = sessions.begin_session("root", "secret")
    for _ in range(3):
        clock.now_s += IDLE_S
        assert sessions.find_session(session_id) is not None
    clock.now_s += IDLE_S + 1
    assert sessions.find_session(session_id) is None
    clock.now_s = 0
    assert sessions.find_session(session_id) is None, "it does not come back"


def test_what_a_page_asks_by_itself_keeps_no_session(sessions: SessionStore, clock: Clock) -> None:
    session_id, _ = sessions.begin_session("root", "secret")
    clock.now_s += IDLE_S / 2 + 1
    assert sessions.find_session(session_id, is_used=False) is not None
    clock.now_s += IDLE_S / 2
    assert sessions.find_session(session_id, is_used=False) is None


def test_a_session_ends_at_last(sessions: SessionStore, clock: Clock) -> None:
    session_id, _ = sessions.begin_session("root", "secret")
    while clock.now_s + IDLE_S <= LONGEST_S:
        clock.now_s += IDLE_S
        assert sessions.find_session(session_id) is not None
    clock.now_s = LONGEST_S + 1
    assert sessions.find_session(session_id) is None


def test_the_session_that_was_silent_for_longest_makes_room(sessions: SessionStore, clock: Clock) -> None:
    ids = []
    for _ in range(SESSIONS_MAX):
        clock.now_s += 0.001
        ids.append(sessions.begin_session("root", "secret")[0])
    assert sessions.find_session(ids[0]) is not None
    sessions.begin_session("root", "secret")
    assert sessions.find_session(ids[1]) is None
    assert sessions.find_session(ids[0]) is not None
    assert sessions.find_session(ids[2]) is not None


def test_a_form_is_of_one_session(sessions: SessionStore) -> None:
    _, session = sessions.begin_session("root", "secret")
    _, other = sessions.begin_session("root", "secret")
    assert session.has_token(session.token)
    for token in ("", other.token, session.token[:-1], "\u00fc"):
        assert not session.has_token(token)


def test_a_session_tells_no_secret(sessions: SessionStore) -> None:
    session_id, session = sessions.begin_session("root", "a-secret")
    assert "a-secret" not in repr(session)
    assert session.token not in repr(session)
    sessions.end_session(session_id)
    assert sessions.find_session(session_id) is None
