"""Has the proxies of a cluster, or the workers of a machine, share the limits of quotas.

Each second each writes to the registry what its clients want of each quota and what they took, and reads what the
others want. What it may give is its max-min share of that (`sharing`). While nobody has a quota nothing is written.
While the registry is away the shares stay as they were. A proxy that is new has an equal part before it serves anybody,
and a quota that is the first of all is shared within a second.
"""

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from ternmq_proxy.quotas.sharing import max_min
from ternmq_proxy.quotas.uses import most_used, read_uses
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.tables import PROXY_CHARACTERS_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_proxy.quotas.meter import QuotaMeter
    from ternmq_proxy.quotas.quotas import ClientQuotas
    from ternmq_proxy.server_process import ServerProcess
    from ternmq_registry.quotas import Demand, Uses

    Exchange = Callable[[str, Demand, Uses, int], Awaitable[dict[str, Demand]]]

_log = logging.getLogger(__name__)
INTERVAL_S = 1.0
LEASE_MS = 5000
# A row of the registry has no more: those that want most, in parts of their limits.
NAMES_MAX = 500


def name_of(process: "ServerProcess") -> str:
    """By which the others know this one; names of proxies may be given twice."""
    return f"{process.server}/{process.name}/{os.getpid()}"[-PROXY_CHARACTERS_MAX:]


class QuotaShares:
    """Those of the proxy `name`; `exchange` is `ProxyTable.exchange_demand`."""

    def __init__(
        self, quotas: "ClientQuotas", name: str, exchange: "Exchange", *, interval_s: float = INTERVAL_S
    ) -> None:
        self._quotas = quotas
        self._name = name
        self._exchange = exchange
        self._interval_s = interval_s
        self._since = quotas.now()
        self._shares = False

    async def take_equal_part(self) -> None:
        """Have an equal part, before anybody is served: with all of a limit in hand it would give out a burst of it."""
        await self._try_to_renew()

    async def renew_forever(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self._try_to_renew()

    async def _try_to_renew(self) -> None:
        try:
            await self.renew_shares()
        except RegistryUnavailable:
            pass  # the directory, which reads it too, says so
        except Exception:  # noqa: BLE001 - the outermost of this, and it logs
            _log.exception("quotas are not shared with other proxies now; the shares stay as they are")

    async def give_up_shares(self, leave: "Callable[[str], Awaitable[None]]") -> None:
        """This proxy ends: the others may have its shares at once. `leave` is `ProxyTable.leave`."""
        if self._shares:
            try:
                await leave(self._name)
            except RegistryUnavailable as error:
                _log.info("the shares of quotas that were here are free when the lease ends: %s", error.message)

    async def renew_shares(self) -> None:
        """Say what is wanted here, and take the shares that follow from what all want."""
        if not self._quotas.snapshot.quotas:
            return
        now = self._quotas.now()
        own = read_demands(self._quotas, max(now - self._since, 1e-3))
        self._since = now
        self._shares = True
        everybody = await self._exchange(self._name, own, most_used(read_uses(self._quotas)), LEASE_MS)
        apply_shares(self._quotas, self._name, everybody)


def read_demands(quotas: "ClientQuotas", seconds: float) -> "Demand":
    """What was wanted of each quota since this was asked last, `seconds` ago; rates are for each second."""
    found: list[tuple[float, str, dict[str, float]]] = []
    for meter in quotas.list_meters():
        wanted = {limit: count / seconds for limit, count in meter.read_demand() if count}
        if meter.quota.connections is not None and (number := quotas.connection_count(meter)):
            wanted["connections"] = float(number)
        if wanted:
            found.append(
                (max(value / getattr(meter.quota, limit) for limit, value in wanted.items()), meter.quota_title, wanted)
            )
    found.sort(key=lambda each: each[0], reverse=True)
    return {
        title: {limit: round(value, 3) for limit, value in wanted.items()} for _, title, wanted in found[:NAMES_MAX]
    }


def apply_shares(quotas: "ClientQuotas", name: str, everybody: "dict[str, Demand]") -> None:
    """Give each meter the share that proxy `name` has of its limits, of what all want."""
    names = sorted(everybody)
    place = names.index(name)
    part = 1 / len(names)
    quotas.set_part(part)
    now = quotas.now()
    for meter in quotas.list_meters():
        demands = [everybody[each].get(meter.quota_title, {}) for each in names]
        meter.set_shares(_rate_shares(meter, demands, place), part, now)


def _rate_shares(meter: "QuotaMeter", demands: "list[dict[str, float]]", place: int) -> dict[str, float]:
    return {
        limit: max(max_min(float(value), [demand.get(limit, 0.0) for demand in demands])[place], _LEAST)
        for limit, value in meter.quota.limits.items()
    }


# A rate is above 0: who has no share now comes a little at a time.
_LEAST = 0.01
