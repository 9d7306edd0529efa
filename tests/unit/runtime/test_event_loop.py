"""Which loop a server gets, and what it is told when it can't have the one that it wants."""

import asyncio
import sys

import pytest
import uvloop

from ternmq_common.errors import StartupError
from ternmq_common.server_settings import EventLoop, ProcessSettings
from ternmq_runtime import event_loop
from ternmq_runtime.event_loop import loop_factory


@pytest.fixture
def without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setattr(event_loop, "find_spec", lambda _: None)


def test_uvloop_is_taken_where_it_is_installed() -> None:
    assert ProcessSettings().loop is EventLoop.AUTO
    for wanted in (EventLoop.AUTO, EventLoop.UVLOOP):
        assert loop_factory(wanted) is uvloop.new_event_loop


def test_asyncio_can_be_asked_for() -> None:
    assert loop_factory(EventLoop.ASYNCIO) is asyncio.new_event_loop


@pytest.mark.usefixtures("without_uvloop")
def test_asyncio_is_taken_where_uvloop_is_not_installed() -> None:
    assert loop_factory(EventLoop.AUTO) is asyncio.new_event_loop


@pytest.mark.usefixtures("without_uvloop")
def test_who_asks_for_uvloop_without_having_it_is_told_what_to_do() -> None:
    with pytest.raises(StartupError, match=r"loop asks for uvloop.*pip install '\.\[speedups\]'"):
        loop_factory(EventLoop.UVLOOP)
