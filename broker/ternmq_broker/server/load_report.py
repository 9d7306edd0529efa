"""The broker's load, which it reports with each heartbeat.

Unfinished messages are counted separately: that takes a while where there are many groups and timers, and a
heartbeat must not wait. It is counted a last time at the end of the process, so that the registry has it while the
broker is away.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import BrokerLoad
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_registry.unknown_topics import is_user_topic

if TYPE_CHECKING:
    from ternmq_broker.broker import Broker
    from ternmq_broker.server.proxy_connections import ProxyConnections
    from ternmq_registry.directory import RegistryDirectory

COUNT_INTERVAL_S = 5.0
LAST_COUNT_S = 1.0
# Counting visits each queue of each group on the event loop, and waits for threads that read files. On a busy machine
# it waits long, which costs nothing.
_COMPUTING_SHARE = 0.01
_COUNTING_SHARE = 0.1
_LAGS_IN_A_ROW = 64


class LoadReport(BackgroundLoop):
    """The load: rates since the last report, and the last counts. The final count takes up to `last_count_s`."""

    def __init__(
        self,
        broker: "Broker",
        proxies: "ProxyConnections",
        directory: "RegistryDirectory",
        *,
        last_count_s: float = LAST_COUNT_S,
    ) -> None:
        super().__init__(
            self._count_in_turn, name="count of what is held", what="what the broker holds could not be counted"
        )
        self._last_count_s = last_count_s
        self._broker = broker
        self._directory = directory
        self._proxies = proxies
        self._looked_at = time.monotonic()
        self._stored = self._delivered = 0
        self._counted = BrokerLoad()

    def current_load(self) -> BrokerLoad:
        figures, looked_at = self._broker.figures.current_figures(), time.monotonic()
        stored, delivered = figures.messages.sent.total_count(), figures.messages.delivered.total_count()
        seconds = max(0.001, looked_at - self._looked_at)
        skew_s = self._directory.clock_skew_s
        load = replace(
            self._counted,
            messages_in=round((stored - self._stored) / seconds, 1),
            messages_out=round((delivered - self._delivered) / seconds, 1),
            proxies=len(self._proxies),
            transactions=figures.transactions,
            disk_used=round(figures.disk_used, 4),
            clock_skew=None if skew_s is None else round(skew_s, 3),
        )
        self._looked_at, self._stored, self._delivered = looked_at, stored, delivered
        return load

    async def final_load(self) -> BrokerLoad:
        """The load at the end, when nothing comes any more; what can't be counted in time stays as it was."""
        await self.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._last_count_s):
                await self._count_held()
        return replace(self.current_load(), messages_in=0.0, messages_out=0.0, proxies=0)

    async def _count_in_turn(self) -> None:
        loop = asyncio.get_running_loop()
        began, computed = loop.time(), self._broker.processor_s()
        await self._count_held()
        took_s, computed_s = loop.time() - began, self._broker.processor_s() - computed
        await asyncio.sleep(max(COUNT_INTERVAL_S, took_s / _COUNTING_SHARE, computed_s / _COMPUTING_SHARE))

    async def _count_held(self) -> None:
        figures = self._broker.figures
        unfinished = number = 0
        async for lag in figures.count_lags():
            unfinished, number = unfinished + lag.messages, number + 1
            if number % _LAGS_IN_A_ROW == 0:
                await asyncio.sleep(0)
        held = self._broker.inspecting.held_topics()
        messages = sum(topic.messages for name, topic in held.items() if is_user_topic(name))
        timers = await figures.count_timers()
        self._counted = BrokerLoad(messages=messages, unfinished=unfinished, timers=timers)
