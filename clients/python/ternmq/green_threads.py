"""Libraries that replace threads by functions of their own (gevent, eventlet) and what gRPC makes of that: it hangs.

gRPC waits in its own code, in a thread that Python starts for it. Where `threading` starts none, that wait holds up all
of the process for ever, without a word. So a client says at its start what to do instead.
"""

import sys

from ternmq.errors import NotRunning

_GEVENT = (
    "gevent has replaced threads or `select` in this process, where gRPC hangs: call `gevent.monkey.patch_all("
    "thread=False, select=False)` instead, and where other greenlets are to run meanwhile, the client's methods by "
    "`gevent.get_hub().threadpool.apply(...)`"
)
_EVENTLET = (
    "eventlet has replaced threads in this process, where gRPC hangs: call `eventlet.monkey_patch(thread=False)` "
    "instead, and where other green threads are to run meanwhile, the client's methods by `eventlet.tpool.execute(...)`"
)


def check_threads() -> None:
    """NotRunning where a client would hang."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and any(map(gevent.is_module_patched, ("threading", "select"))):
        raise NotRunning(_GEVENT)
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        raise NotRunning(_EVENTLET)
