"""Shares the limits of quotas among the proxies of a cluster, or the workers of a machine.

Every second each writes its clients' demand for each quota and what they took to the registry, and reads the demand of
the others. Its share is the max-min share (`sharing`). Without quotas nothing is written. While the registry is
unavailable the shares stay as they were. A new proxy takes an equal part before it serves clients, and the first quota
of all is shared within a second.
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
# A row of the registry has room for no more: the names with the highest demand, relative to their limits.
NAMES_MAX = 500


def name_of(process: "ServerProcess") -> str:
    """Return the name of this process among those that share; names of proxies may be ambiguous."""
    return f"{process.server}/{process.name}/{os.getpid()}"[-PROXY_CHARACTERS_MAX:]


class QuotaShares:
    """The shares of the proxy `name`; `exchange` is `ProxyTable.exchange_demand`."""

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
        """Take an equal part before any client is served: with the whole limit it would allow a burst of it."""
        await self._try_to_renew()

    async def renew_forever(self) -> None:
        """Renew the shares every interval, forever."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self._try_to_renew()

    async def _try_to_renew(self) -> None:
        try:
            await self.renew_shares()
        except RegistryUnavailable:
            pass  # the directory, which reads it too, logs it
        except Exception:  # noqa: BLE001 - the outermost of this, and it logs
            _log.exception("cannot share quotas with other proxies; keeping the last shares")

    async def give_up_shares(self, leave: "Callable[[str], Awaitable[None]]") -> None:
        """Give the shares up when this proxy ends, so that others have them at once. `leave` is
        `ProxyTable.remove_proxy`."""
        if self._shares:
            try:
                await leave(self._name)
            except RegistryUnavailable as error:
                _log.info("this proxy's shares of quotas are released when its lease ends: %s", error.message)

    async def renew_shares(self) -> None:
        """Report the demand, and take the shares that follow from the demand of all."""
        if not self._quotas.snapshot.quotas:
            return
        now = self._quotas.now()
        own = read_demands(self._quotas, max(now - self._since, 1e-3))
        self._since = now
        self._shares = True
        everybody = await self._exchange(self._name, own, most_used(read_uses(self._quotas)), LEASE_MS)
        apply_shares(self._quotas, self._name, everybody)


def read_demands(quotas: "ClientQuotas", seconds: float) -> "Demand":
    """Return the demand for each quota since the last read, `seconds` ago; rates are per second."""
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
    """Set each meter's share of its limits for proxy `name`, from the demand of all."""
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


# Rates are above 0: a proxy without a share gets a little at a time.
_LEAST = 0.01
