"""Processes whose threads are those of gevent or eventlet, where they would hang: clients say so at their start.

The libraries are played by what a client asks them; with gevent 26.9 and eventlet 0.41 themselves it was tried by hand.
"""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import ternmq
import ternmq.blocking
from ternmq import background
from ternmq.pull.offset_reader import OffsetReader

NOWHERE = "127.0.0.1:1"
GEVENT = r"call `gevent.monkey.patch_all\(thread=False, select=False\)` instead"
EVENTLET = r"call `eventlet.monkey_patch\(thread=False\)` instead"


def patch(monkeypatch: pytest.MonkeyPatch, library: str, *names: str) -> None:
    """Have a library say that it replaced these modules."""
    asked = {"gevent.monkey": "is_module_patched", "eventlet.patcher": "is_monkey_patched"}[library]
    monkeypatch.setitem(sys.modules, library, SimpleNamespace(**{asked: lambda name: name in names}))
    monkeypatch.setattr(background, "_background", background._BackgroundLoop())


@pytest.mark.parametrize(
    ("library", "replaced", "advice"),
    [
        ("gevent.monkey", "threading", GEVENT),
        ("gevent.monkey", "select", GEVENT),
        ("eventlet.patcher", "thread", EVENTLET),
    ],
)
async def test_clients_say_at_their_start_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch, library: str, replaced: str, advice: str
) -> None:
    patch(monkeypatch, library, "socket", replaced)
    with pytest.raises(ternmq.NotRunning, match=advice):
        ternmq.blocking.Producer(NOWHERE).start()
    with pytest.raises(ternmq.NotRunning, match=advice):
        ternmq.blocking.Admin(NOWHERE).start()
    with pytest.raises(ternmq.NotRunning, match=advice):
        await ternmq.Producer(NOWHERE, topics=["orders"]).start()
    with pytest.raises(ternmq.NotRunning, match=advice):
        OffsetReader(NOWHERE).topics()


@pytest.mark.parametrize("library", ["gevent.monkey", "eventlet.patcher"])
def test_what_replaces_no_threads_is_no_hindrance(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    patch(monkeypatch, library, "socket")
    with pytest.raises(ternmq.TransportError):
        ternmq.blocking.Producer(NOWHERE, topics=["orders"]).start()


def test_a_client_starts_no_process_to_say_what_it_is() -> None:
    program = (
        "import sys; sys.addaudithook(lambda event, _: print(event) if event == 'subprocess.Popen' else None);"
        "from ternmq.connections.identity import create_user_agent; print(create_user_agent().platform.count('-') >= 2)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
