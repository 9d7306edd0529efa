"""Detects libraries that replace threads (gevent, eventlet), with which clients hang.

An event loop waits in the system's own code, and that of blocking clients does so in a thread that Python starts for
it. Where `threading` does not start a real one, that wait blocks the whole process for ever, without a message. So a
client says at its start what to do instead.
"""

import sys

from ternmq.errors import NotRunning

_GEVENT = (
    "gevent has replaced threads or `select` in this process, where clients hang: call `gevent.monkey.patch_all("
    "thread=False, select=False)` instead, and where other greenlets are to run meanwhile, the client's methods by "
    "`gevent.get_hub().threadpool.apply(...)`"
)
_EVENTLET = (
    "eventlet has replaced threads in this process, where clients hang: call `eventlet.monkey_patch(thread=False)` "
    "instead, and where other green threads are to run meanwhile, the client's methods by `eventlet.tpool.execute(...)`"
)


def check_threads() -> None:
    """NotRunning if a client would hang in this process."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and any(map(gevent.is_module_patched, ("threading", "select"))):
        raise NotRunning(_GEVENT)
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        raise NotRunning(_EVENTLET)
