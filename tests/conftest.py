"""What holds for all tests: a busy machine is no bug, what hypothesis finds can be seen again, and processes that tests
start hear Ctrl-C as on a terminal, also in a background job of a shell, which ignores it and hands that down. Who uses
the fixture `postgres`, or is parametrised with that word, is marked so. What gRPC does to itself is in no test's log.
The garbage collector passes over modules and tests, which stay to the end: it took a seventh of the time.
"""

import gc
import logging
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from ternmq_common.event_loop import turn_end

# Servers that tests start serve the remoting protocol where a test asks for it.
os.environ.setdefault("TERNMQ_REMOTING", "off")
settings.register_profile("ternmq", deadline=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("ternmq"), max_examples=25)
# The same examples each time: a change is not refused for an older fault. `tools/soak properties` looks for those.
settings.register_profile("landing", settings.get_profile("ternmq"), max_examples=50, derandomize=True)
settings.register_profile("thousand", settings.get_profile("ternmq"), max_examples=1000)
settings.load_profile("ternmq")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_no_queue_of_grpc(record: logging.LogRecord) -> bool:
    """Whether a line is about something else than the queue that all loops of a process share in gRPC.

    Whichever loop wakes first hands its events on, also to the closed loop of a test before: that is harmless, and
    would be found in the log of a test that has nothing to do with it.
    """
    return "PollerCompletionQueue" not in record.getMessage()


logging.getLogger("asyncio").addFilter(_is_no_queue_of_grpc)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # What is frozen does not count as old: a quarter of little more would be looked through again and again.
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if "postgres" in getattr(item, "fixturenames", ()) or any(
            isinstance(value, str) and value == "postgres" for value in values
        ):
            item.add_marker(pytest.mark.postgres)
    if turn_end.__file__.endswith(".py"):
        return
    # Compiled classes can't be subclassed or taken apart in plain Python: who does that is left to the plain tiers.
    plain = [item for item in items if item.get_closest_marker("plain")]
    items[:] = [item for item in items if not item.get_closest_marker("plain")]
    config.hook.pytest_deselected(items=plain)
