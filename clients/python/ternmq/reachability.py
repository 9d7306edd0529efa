"""What is said of servers that are away: one warning of each client that loses one, one line when it is there again.

What fails meanwhile for no other reason is said for debugging only: calls, heartbeats and polls fail in dozens.
"""

import logging
from collections.abc import Iterator

from ternmq.endpoints import Endpoints
from ternmq.errors import ClientError, TransportError

logger = logging.getLogger(__name__)


def level_of(error: ClientError) -> int:
    """The level at which something that failed is logged, where the loss of the connection is said for itself."""
    return logging.DEBUG if isinstance(error, TransportError) else logging.WARNING


class Isolated:
    """The endpoints on which a client's calls broke, until they answer again; they are used last."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._endpoints: set[Endpoints] = set()

    def lost(self, endpoints: Endpoints, error: TransportError) -> None:
        if endpoints not in self._endpoints:
            self._endpoints.add(endpoints)
            logger.warning("%s: no connection, it is tried again: %s", self._client_id, error)

    def found(self, endpoints: Endpoints) -> None:
        if endpoints in self._endpoints:
            self._endpoints.discard(endpoints)
            logger.info("%s: connected again: %s", self._client_id, endpoints)

    def __contains__(self, endpoints: object) -> bool:
        return endpoints in self._endpoints

    def __iter__(self) -> Iterator[Endpoints]:
        return iter(self._endpoints)

    def __len__(self) -> int:
        return len(self._endpoints)
