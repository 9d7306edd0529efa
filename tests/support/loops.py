"""The event loops that servers run on, for tests of what depends on them."""

from collections.abc import Mapping

from ternmq_common.server_settings import EventLoop
from ternmq_runtime.event_loop import LoopFactory, loop_factory

ASYNCIO: Mapping[str, LoopFactory] = {"asyncio": loop_factory(EventLoop.ASYNCIO)}
EACH: Mapping[str, LoopFactory] = {**ASYNCIO, "uvloop": loop_factory(EventLoop.UVLOOP)}
