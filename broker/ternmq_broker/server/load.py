"""What the broker says of itself with each heartbeat."""

import time
from typing import TYPE_CHECKING

from ternmq_common.cluster import BrokerLoad

if TYPE_CHECKING:
    from ternmq_broker.server.proxies import Proxies
    from ternmq_runtime.observability.figures import BrokerSource


class Load:
    """Rates since the last look."""

    def __init__(self, figures: "BrokerSource", proxies: "Proxies") -> None:
        self._figures = figures
        self._proxies = proxies
        self._looked_at = time.monotonic()
        self._stored = self._delivered = 0

    def now(self) -> BrokerLoad:
        figures, looked_at = self._figures.now(), time.monotonic()
        stored, delivered = figures.messages.sent.total(), figures.messages.delivered.total()
        seconds = max(0.001, looked_at - self._looked_at)
        load = BrokerLoad(
            messages_in=round((stored - self._stored) / seconds, 1),
            messages_out=round((delivered - self._delivered) / seconds, 1),
            proxies=len(self._proxies),
            transactions=figures.transactions,
            disk_used=round(figures.disk_used, 4),
        )
        self._looked_at, self._stored, self._delivered = looked_at, stored, delivered
        return load
